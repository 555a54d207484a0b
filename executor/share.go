package executor

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
	"salectl/spec"
)

// Which shards this process owns. The members of the sale say who should own which
// (assign); the lease of a shard decides who does, and its log whose commits count. A
// shard that nobody is known to own is tried for by the process that should own it. One
// that a peer owns moves only when both agree: the successor asks for it, follows its log
// until little is left to read, and asks again; the owner, if by its own view that is who
// should own the shard, stops deciding, waits for the commit under way, frees the lease
// for the successor by name, and says so. So two processes that see different members do
// not fight for a shard.
//
// What a peer owns that cannot be reached any more is followed at once by the process that should
// own it without that peer, and its lease is tried for when little is left to read. If the peer is
// dead its lease ends, perhaps before the lock nodes forget that it was there; else it renews that,
// unless it finds that it is itself cut off from most: then it gives up what it owns.
//
// That a move has both sides' word before the owner stops is after Kafka's KIP-848, in
// which a revocation is acknowledged before the partition is assigned anew.

// shares is what a process has, or is about to have, of each shard.
type shares struct {
	all     []share
	keys    []string // of the shards' leases
	desired []string // by shard: the id of the process that should own it; "": nobody
	heirs   []string // the same without those that cannot be reached; nil: all can
	heirsOf []member
	wake    time.Duration
}

// share is one shard as this process has it.
type share struct {
	stage shareStage
	runs  bool          // its machine does
	heir  bool          // warming or taking: for the case that who should own it is gone
	to    string        // stopping: who is to have the lease; "": whoever comes
	rests time.Duration // monotonic: it is not tried for before
	asked time.Duration // monotonic: when its owner was last asked for it; 0: it was not
	freed time.Duration // monotonic: since when no owner is known; 0: one is
	since time.Duration // monotonic: when the stage began
	woken time.Duration // monotonic: taking, when the lease was last tried for anew; 0: its owner has not given it

	// What a peer wants.
	wanted   string        // who asks for it
	wantedAt time.Duration // monotonic
	wantWarm bool          // and has read its log
}

// shareStage is how far this process is with a shard.
type shareStage int

const (
	away     shareStage = iota // another process's, or nobody's
	trying                     // for the lease; nothing runs
	warming                    // its machine follows the log, which another process appends to
	taking                     // it does so, and the lease is tried for
	owned                      // the lease is held, and the machine runs
	stopping                   // the machine is being stopped; then the lease is given back
)

func (s shareStage) String() string {
	return [...]string{"away", "trying", "warming", "taking", "owned", "stopping"}[s]
}

// opening has the machine of a shard run.
type opening struct {
	shard   int
	follows bool // without rights: another process owns the shard
}

// granted tells a shard its rights.
type granted struct {
	shard  int
	rights shard.Rights
}

// halting stops the machine of a shard.
type halting struct {
	shard int
	halt  shard.Halt
}

// How often a peer is asked for a shard, how often the lease of one that was given is tried
// for, how long what a peer has asked for counts, how many shards a process follows at a
// time to take them, and how often it looks whether it has read their logs.
const (
	askEvery   = 200 * time.Millisecond
	wakeEvery  = 25 * time.Millisecond
	wantsFor   = time.Second
	warmAtOnce = 16
	lookWarm   = 10 * time.Millisecond
)

func newShares(uid string, n int) shares {
	s := shares{all: make([]share, n), desired: make([]string, n)}
	for i := range n {
		s.keys = append(s.keys, spec.LeaseKey(uid, i))
	}
	return s
}

// running says whether the machine of any shard runs.
func (s *shares) running() bool {
	return slices.ContainsFunc(s.all, func(x share) bool { return x.runs })
}

// enter begins a stage.
func (o *owner) enter(now clock.Now, i int, stage shareStage) {
	s := &o.shares.all[i]
	s.stage, s.since, s.asked, s.woken, s.heir = stage, now.Mono, 0, 0, false
}

// share brings what this process has of each shard closer to what it should have.
func (o *owner) share(now clock.Now) {
	o.shares.wake = 0
	switch {
	case o.clockLost(now):
		for i := range o.shares.all {
			o.stop(now, i, shard.Halt{Why: errClock, Refusal: api.NoQuorum, Elsewhere: true}, "")
		}
	case o.clockOff != 0:
		o.shares.wake = o.offSince + o.ttl + 1
	}
	var try, end []string
	o.inherit(now)
	warm := o.warming()
	estranged := o.estranged(now)
	leaves := o.retiring() || o.cutSince != 0
	for i := range o.shares.all {
		s := &o.shares.all[i]
		holder := o.ownerOf(now, i)
		mine := (o.shares.desired[i] == o.me || o.isFree(now, s, holder)) && !leaves
		heir := holder == "" && o.shares.heirs != nil && o.shares.heirs[i] == o.me && !leaves
		switch s.stage {
		case away:
			switch {
			case o.clockOff != 0 && !o.clockKnown && i == 0 && now.Mono >= s.rests:
				s.rests = now.Mono + restAfter
				o.enter(now, i, trying)
				try = append(try, o.shares.keys[i])
			case !mine && !heir || o.clockOff != 0:
			case now.Mono < s.rests:
				o.shares.wake = clock.Soonest(o.shares.wake, s.rests)
			case !mine:
				if warm < warmAtOnce {
					warm++
					o.enter(now, i, warming)
					s.heir = true
					o.open(i, true)
				}
			case holder == "" || !o.clockKnown: // a vote tells the time, also one that is refused
				o.enter(now, i, trying)
				try = append(try, o.shares.keys[i])
			case warm < warmAtOnce:
				o.ask(now, i, holder, false)
			}
		case trying:
			if o.clockKnown && (!mine || holder != "") {
				o.enter(now, i, away)
				end = append(end, o.shares.keys[i])
			}
		case warming:
			switch {
			case !mine && !heir:
				o.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.Standby, Elsewhere: true}, "")
			case !mine && !o.warm(i):
				s.heir = true
				o.shares.wake = clock.Soonest(o.shares.wake, now.Mono+lookWarm)
			case !mine: // the lock nodes have its owner still
				o.enter(now, i, taking)
				s.heir = true
				try = append(try, o.shares.keys[i])
			case holder == "": // its owner is gone
				o.enter(now, i, taking)
				try = append(try, o.shares.keys[i])
			case o.warm(i):
				o.ask(now, i, holder, true)
			default:
				o.shares.wake = clock.Soonest(o.shares.wake, now.Mono+lookWarm)
			}
		case taking:
			switch {
			case !mine && !heir && (s.woken == 0 || o.retiring()): // what it was given it takes, and gives on: nobody else has it
				o.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.Standby, Elsewhere: true}, "")
			case holder != "" && now.Mono >= s.since+wantsFor: // it was not given after all
				o.enter(now, i, warming)
				end = append(end, o.shares.keys[i])
			case s.woken != 0 && now.Mono < s.since+wantsFor: // nodes may hear that it is free later than this process
				if now.Mono >= s.woken+wakeEvery {
					s.woken = now.Mono
					o.leased(now, o.leases.Woken(now, o.shares.keys[i]))
				}
				o.shares.wake = clock.Soonest(o.shares.wake, s.woken+wakeEvery)
			}
		case owned:
			if estranged {
				o.stop(now, i, shard.Halt{Why: errCutOff, Refusal: api.Standby, Elsewhere: true}, "")
			} else {
				o.offer(now, i)
			}
		}
	}
	o.leased(now, o.leases.Acquire(now, try...))
	o.leased(now, o.leases.Release(now, "", end...))
}

// inherit works out who should own what if the members are gone that could be reached before and
// cannot be now.
func (o *owner) inherit(now clock.Now) {
	gone := func(m member) bool {
		p := o.peers.all[m.ID]
		return p != nil && p.heard != 0 && !o.isUp(now, m.ID)
	}
	if !slices.ContainsFunc(o.members, gone) {
		o.shares.heirs, o.shares.heirsOf = nil, nil
		return
	}
	if up := slices.DeleteFunc(slices.Clone(o.members), gone); !slices.EqualFunc(up, o.shares.heirsOf, sameRole) {
		o.shares.heirs, o.shares.heirsOf = assign(o.uid, len(o.shares.all), up), up
	}
}

// warming is how many shards are followed, or about to be taken, but for those of a peer that
// cannot be reached whose logs are read.
func (o *owner) warming() (n int) {
	for i := range o.shares.all {
		s := &o.shares.all[i]
		if (s.stage == warming || s.stage == taking) && !(s.heir && o.warm(i)) {
			n++
		}
	}
	return n
}

// isFree says whether nobody is known to own a shard for so long that whoever should take it
// cannot, or is not known to everybody: then anybody may.
func (o *owner) isFree(now clock.Now, s *share, holder string) bool {
	if holder != "" || s.stage == owned || s.stage == stopping {
		s.freed = 0
		return false
	}
	if s.freed == 0 {
		s.freed = now.Mono
	}
	if !s.free(now, o.ttl) {
		o.shares.wake = clock.Soonest(o.shares.wake, s.freed+o.ttl)
		return false
	}
	return o.assigned
}

// free says whether no process was known to own the shard for a ttl: not because it moves, but
// because its last owner has died, perhaps before this process heard of it.
func (s *share) free(now clock.Now, ttl time.Duration) bool {
	return s.freed != 0 && now.Mono >= s.freed+ttl
}

// ask asks the owner of a shard for it, from time to time.
func (o *owner) ask(now clock.Now, i int, holder string, warm bool) {
	s := &o.shares.all[i]
	if s.asked == 0 || now.Mono >= s.asked+askEvery {
		s.asked = now.Mono
		o.send(holder, &PeerUpdate{Wants: []Want{{Shard: i, Warm: warm}}})
	}
	o.shares.wake = clock.Soonest(o.shares.wake, s.asked+askEvery)
}

// offer gives a shard to the peer that should own it, if that asks for it; or, where it
// asks for the first time, says that it may come.
func (o *owner) offer(now clock.Now, i int) {
	s := &o.shares.all[i]
	to := o.shares.desired[i]
	if to == o.me || to == "" || s.wanted != to || now.Mono >= s.wantedAt+wantsFor || !o.isUp(now, to) {
		return
	}
	if !s.wantWarm {
		s.wanted = ""
		o.send(to, &PeerUpdate{Agrees: []int{i}})
		return
	}
	o.moves++
	o.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.NoQuorum, Elsewhere: true}, to)
}

// want takes in that a peer asks for a shard.
func (o *owner) want(now clock.Now, from string, w Want) {
	if w.Shard < 0 || w.Shard >= len(o.shares.all) {
		return
	}
	s := &o.shares.all[w.Shard]
	s.wanted, s.wantedAt, s.wantWarm = from, now.Mono, w.Warm
}

// agreed takes in that the owner of a shard is ready to give it: its log is followed from
// here on.
func (o *owner) agreed(now clock.Now, from string, i int) {
	if i < 0 || i >= len(o.shares.all) || o.shares.all[i].stage != away || o.shares.desired[i] != o.me || o.retiring() {
		return
	}
	if o.warming() >= warmAtOnce {
		return // it is asked for again
	}
	o.enter(now, i, warming)
	o.open(i, true)
}

// given takes in that the lease of a shard was freed for this process.
func (o *owner) given(now clock.Now, from string, i int) {
	if i < 0 || i >= len(o.shares.all) || o.shares.all[i].stage != warming {
		return
	}
	if p := o.peers.all[from]; p != nil {
		delete(p.owns, i)
	}
	if o.holder[i] == from {
		o.holder[i] = ""
	}
	o.enter(now, i, taking)
	o.shares.all[i].woken = now.Mono
	o.out.given = append(o.out.given, i)
	o.leased(now, o.leases.Acquire(now, o.shares.keys[i]))
	o.leased(now, o.leases.Woken(now, o.shares.keys[i]))
}

func (o *owner) open(i int, follows bool) {
	o.shares.all[i].runs = true
	o.out.open = append(o.out.open, opening{shard: i, follows: follows})
}

// won takes in that this process has the lease of a shard.
func (o *owner) won(now clock.Now, i int) {
	if o.stage != serving {
		return // it is being given back
	}
	switch s := &o.shares.all[i]; {
	case s.stage == trying && o.clockOff != 0: // it could not sell: another may
		s.rests = now.Mono + restAfter
		o.enter(now, i, away)
		o.leased(now, o.leases.Release(now, "", o.shares.keys[i]))
	case s.stage == taking && o.clockOff != 0: // nor here
		s.rests = now.Mono + restAfter
		o.stop(now, i, shard.Halt{Why: errClock, Refusal: api.NoQuorum, Elsewhere: true}, "")
	case s.stage == trying:
		o.enter(now, i, owned)
		o.open(i, false)
		o.grant(now, i)
	case s.stage == taking:
		o.enter(now, i, owned)
		o.grant(now, i)
	}
}

// lost takes in that the lease of a shard is lost. It is given back at once, so that the
// shard is told so, too, while it is being stopped.
func (o *owner) lost(now clock.Now, i int, why error) {
	if o.stage == following {
		return
	}
	o.grant(now, i)
	if o.stage == leaving {
		return
	}
	o.stop(now, i, shard.Halt{Why: why, Refusal: api.NoQuorum, Elsewhere: true}, "")
}

// stop stops the machine of a shard, if it runs, and gives its lease back, or ceases to
// try for it.
func (o *owner) stop(now clock.Now, i int, h shard.Halt, to string) {
	s := &o.shares.all[i]
	switch {
	case s.stage == stopping:
	case s.runs:
		o.enter(now, i, stopping)
		s.to = to
		o.out.halts = append(o.out.halts, halting{i, h})
	case s.stage == trying:
		o.enter(now, i, away)
		o.leased(now, o.leases.Release(now, "", o.shares.keys[i]))
	}
}

// ended says that the machine of a shard has ended. Unless it was told to, what ended it
// may last: a shard is sealed while its sale is still being exported. So it is left alone
// for a little.
func (o *owner) ended(now clock.Now, i int) {
	if i >= len(o.shares.all) {
		return
	}
	s := &o.shares.all[i]
	if s.stage != stopping {
		s.rests = now.Mono + restAfter
	}
	to := s.to
	s.runs, s.to, s.wanted = false, "", ""
	o.enter(now, i, away)
	o.leased(now, o.leases.Release(now, to, o.shares.keys[i]))
	if to != "" {
		o.send(to, &PeerUpdate{Gives: []int{i}})
	}
	o.changedAt = now.Mono // that it is not owned any more
	o.settle(now)
}

// grantAll passes on the rights of this process as they are now.
func (o *owner) grantAll(now clock.Now) {
	if o.leases == nil {
		return
	}
	o.readClock(now)
	for i := range o.shares.all {
		if o.shares.all[i].stage == owned || o.shares.all[i].stage == stopping {
			o.grant(now, i)
		}
	}
}

// grant passes on the rights to one shard: none, if this host's clock is off by more than
// a ttl, since the times that it would write are not to be trusted.
func (o *owner) grant(now clock.Now, i int) {
	if !o.shares.all[i].runs {
		return
	}
	r := shard.Rights{Lease: o.leases.Validity(o.shares.keys[i]), ReadAt: o.readAt, TTL: o.ttl}
	if o.clockOff != 0 {
		r = shard.Rights{}
	}
	o.out.rights = append(o.out.rights, granted{i, r})
}

// retiring says whether this process is to own no shard any more.
func (o *owner) retiring() bool { return o.ending || o.draining || o.standby }

// retire has this process give its shards to its peers, and own none from here on, because it is
// about to end.
func (o *owner) retire(now clock.Now) {
	o.ending = true
	o.present(now)
}

// standBy has this process give its shards to its peers, and own none from here on; with
// undo it takes its share again.
func (o *owner) standBy(now clock.Now, undo bool) {
	o.standby = !undo
	o.present(now)
}

// retired says how many shards this process has still, and whether there is a peer that
// could take them.
func (o *owner) retired(now clock.Now) (left int, takers bool) {
	for i := range o.shares.all {
		if st := o.shares.all[i].stage; o.shares.all[i].runs && st != warming && st != taking {
			left++
		}
	}
	return left, slices.ContainsFunc(o.members, func(m member) bool { return m.ID != o.me && m.State == "" && o.isUp(now, m.ID) })
}
