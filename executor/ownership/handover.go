package ownership

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
	"salectl/spec"
)

// This file decides which shards this process owns. The list of members assigns each shard to a
// process (assign); the lease of the shard decides who owns it, and its log whose commits count. The
// assigned process tries for a shard that has no known owner. A shard that a peer owns moves only
// when both agree. The successor requests it, follows its log until little is left to read, and
// requests it again. The owner compares the successor with its own assignment. It then stops
// deciding, waits for the commit in progress, releases the lease to the successor by name, and sends
// it an update. So two processes with different lists of members do not compete for a shard.
//
// A shard whose owner cannot be reached any more gets a fallback: the process that would be assigned
// it without that owner. The fallback follows the log at once, and tries for the lease when little is
// left to read. The lease of a dead owner expires, perhaps before the lock nodes drop it from the
// list. A live owner renews its lease, unless it finds itself isolated; then it releases its shards.
//
// Both sides agree before the owner stops, as in Kafka's KIP-848, where a revocation is acknowledged
// before the partition is assigned again.

// shares is the state of each shard in this process.
type shares struct {
	all         []share
	keys        []string // of the shards' leases
	desired     []string // by shard: the id of the process it is assigned to; "": none
	fallbacks   []string // the same without members that cannot be reached; nil: all can
	fallbacksOf []Process
	wake        time.Duration
}

// share is the state of one shard in this process.
type share struct {
	stage    shareStage
	runs     bool          // its machine does
	fallback bool          // warming or taking: as the fallback of an owner that cannot be reached
	to       string        // stopping: who is to have the lease; "": whoever comes
	rests    time.Duration // monotonic: it is not tried for before
	asked    time.Duration // monotonic: when its owner was last asked for it; 0: it was not
	freed    time.Duration // monotonic: since when no owner is known; 0: one is
	since    time.Duration // monotonic: when the stage began
	woken    time.Duration // monotonic: taking, when the lease was last tried for anew; 0: its owner has not given it

	// The request of a peer for it.
	wanted   string        // the peer's id
	wantedAt time.Duration // monotonic
	wantWarm bool          // the peer has read its log
}

// shareStage is the stage of a shard in this process.
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

// opening starts the machine of a shard.
type Opening struct {
	Shard   int
	Follows bool // without rights: another process owns the shard
}

// granted gives a shard its rights.
type Grant struct {
	Shard  int
	Rights shard.Rights
}

// halting stops the machine of a shard.
type Halting struct {
	Shard int
	Halt  shard.Halt
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

// running reports whether the machine of any shard runs.
func (s *shares) running() bool {
	return slices.ContainsFunc(s.all, func(x share) bool { return x.runs })
}

// enter begins a stage.
func (o *Machine) enter(now clock.Now, i int, stage shareStage) {
	s := &o.shares.all[i]
	s.stage, s.since, s.asked, s.woken, s.fallback = stage, now.Mono, 0, 0, false
}

// share moves each shard one stage towards its assignment.
func (o *Machine) share(now clock.Now) {
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
	o.assignFallbacks(now)
	warm := o.warming()
	isolatedTooLong := o.isolatedTooLong(now)
	leaves := o.retiring() || o.isolatedSince != 0
	for i := range o.shares.all {
		s := &o.shares.all[i]
		holder := o.ownerOf(now, i)
		mine := (o.shares.desired[i] == o.me || o.isFree(now, s, holder)) && !leaves
		fallback := holder == "" && o.shares.fallbacks != nil && o.shares.fallbacks[i] == o.me && !leaves
		switch s.stage {
		case away:
			switch {
			case o.clockOff != 0 && !o.clockKnown && i == 0 && now.Mono >= s.rests:
				s.rests = now.Mono + restAfter
				o.enter(now, i, trying)
				try = append(try, o.shares.keys[i])
			case !mine && !fallback || o.clockOff != 0:
			case now.Mono < s.rests:
				o.shares.wake = clock.Soonest(o.shares.wake, s.rests)
			case !mine:
				if warm < warmAtOnce {
					warm++
					o.enter(now, i, warming)
					s.fallback = true
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
			case !mine && !fallback:
				o.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.Standby, Elsewhere: true}, "")
			case !mine && !o.warm(i):
				s.fallback = true
				o.shares.wake = clock.Soonest(o.shares.wake, now.Mono+lookWarm)
			case !mine: // the lock nodes have its owner still
				o.enter(now, i, taking)
				s.fallback = true
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
			case !mine && !fallback && (s.woken == 0 || o.retiring()): // what it was given it takes, and gives on: nobody else has it
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
			if isolatedTooLong {
				o.stop(now, i, shard.Halt{Why: errIsolated, Refusal: api.Standby, Elsewhere: true}, "")
			} else {
				o.offer(now, i)
			}
		}
	}
	o.leased(now, o.leases.Acquire(now, try...))
	o.leased(now, o.leases.Release(now, "", end...))
}

// assignFallbacks computes the assignment without the members that could be reached before and
// cannot be now.
func (o *Machine) assignFallbacks(now clock.Now) {
	gone := func(m Process) bool {
		p := o.peers.all[m.ID]
		return p != nil && p.heard != 0 && !o.isUp(now, m.ID)
	}
	if !slices.ContainsFunc(o.members, gone) {
		o.shares.fallbacks, o.shares.fallbacksOf = nil, nil
		return
	}
	if up := slices.DeleteFunc(slices.Clone(o.members), gone); !slices.EqualFunc(up, o.shares.fallbacksOf, sameRole) {
		o.shares.fallbacks, o.shares.fallbacksOf = assign(o.uid, len(o.shares.all), up), up
	}
}

// warming returns how many shards are followed or about to be taken, without those that a fallback
// has read to the end.
func (o *Machine) warming() (n int) {
	for i := range o.shares.all {
		s := &o.shares.all[i]
		if (s.stage == warming || s.stage == taking) && !(s.fallback && o.warm(i)) {
			n++
		}
	}
	return n
}

// isFree reports whether a shard has had no known owner for so long that any process may take it:
// the assigned one cannot, or not all processes know it.
func (o *Machine) isFree(now clock.Now, s *share, holder string) bool {
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

// free reports whether the shard has had no known owner for a ttl. A shard that moves is not without
// one for so long: its owner has died, perhaps before this process knew it.
func (s *share) free(now clock.Now, ttl time.Duration) bool {
	return s.freed != 0 && now.Mono >= s.freed+ttl
}

// ask requests a shard of its owner every askEvery.
func (o *Machine) ask(now clock.Now, i int, holder string, warm bool) {
	s := &o.shares.all[i]
	if s.asked == 0 || now.Mono >= s.asked+askEvery {
		s.asked = now.Mono
		o.send(holder, &PeerUpdate{Wants: []Want{{Shard: i, Warm: warm}}})
	}
	o.shares.wake = clock.Soonest(o.shares.wake, s.asked+askEvery)
}

// offer releases a shard to the peer that it is assigned to, if the peer has requested it and has
// read its log. It agrees to a first request, so that the peer begins to read.
func (o *Machine) offer(now clock.Now, i int) {
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

// want takes in a peer's request for a shard.
func (o *Machine) want(now clock.Now, from string, w Want) {
	if w.Shard < 0 || w.Shard >= len(o.shares.all) {
		return
	}
	s := &o.shares.all[w.Shard]
	s.wanted, s.wantedAt, s.wantWarm = from, now.Mono, w.Warm
}

// agreed takes in that the owner of a shard agrees to release it. This process follows its log from
// here on.
func (o *Machine) agreed(now clock.Now, from string, i int) {
	if i < 0 || i >= len(o.shares.all) || o.shares.all[i].stage != away || o.shares.desired[i] != o.me || o.retiring() {
		return
	}
	if o.warming() >= warmAtOnce {
		return // it is asked for again
	}
	o.enter(now, i, warming)
	o.open(i, true)
}

// given takes in that the lease of a shard was released to this process.
func (o *Machine) given(now clock.Now, from string, i int) {
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
	o.out.Given = append(o.out.Given, i)
	o.leased(now, o.leases.Acquire(now, o.shares.keys[i]))
	o.leased(now, o.leases.Woken(now, o.shares.keys[i]))
}

func (o *Machine) open(i int, follows bool) {
	o.shares.all[i].runs = true
	o.out.Open = append(o.out.Open, Opening{Shard: i, Follows: follows})
}

// won takes in that this process has the lease of a shard.
func (o *Machine) won(now clock.Now, i int) {
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

// lost takes in that the lease of a shard is lost. The shard loses its rights at once, before it
// stops.
func (o *Machine) lost(now clock.Now, i int, why error) {
	if o.stage == following {
		return
	}
	o.grant(now, i)
	if o.stage == leaving {
		return
	}
	o.stop(now, i, shard.Halt{Why: why, Refusal: api.NoQuorum, Elsewhere: true}, "")
}

// stop stops the machine of a shard, if it runs, and then releases the lease, or ceases to try for
// it.
func (o *Machine) stop(now clock.Now, i int, h shard.Halt, to string) {
	s := &o.shares.all[i]
	switch {
	case s.stage == stopping:
	case s.runs:
		o.enter(now, i, stopping)
		s.to = to
		o.out.Halts = append(o.out.Halts, Halting{i, h})
	case s.stage == trying:
		o.enter(now, i, away)
		o.leased(now, o.leases.Release(now, "", o.shares.keys[i]))
	}
}

// ended takes in that the machine of a shard has ended. If it was not stopped, the cause may last: a
// shard is sealed while its sale is still being exported. So it rests for a while.
func (o *Machine) ShardEnded(now clock.Now, i int) {
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
	o.endIfIdle(now)
}

// grantAll gives each shard its present rights.
func (o *Machine) grantAll(now clock.Now) {
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

// grant gives one shard its present rights.
func (o *Machine) grant(now clock.Now, i int) {
	if !o.shares.all[i].runs {
		return
	}
	o.out.Rights = append(o.out.Rights, Grant{i, o.Rights(i)})
}

// Rights returns the present rights to a shard. There are none if this host's clock is off by more
// than a ttl, because its timestamps cannot be trusted then.
func (o *Machine) Rights(i int) shard.Rights {
	if o.clockOff != 0 {
		return shard.Rights{}
	}
	return shard.Rights{Lease: o.leases.Validity(o.shares.keys[i]), ReadAt: o.readAt, TTL: o.ttl}
}

// retiring reports whether this process is to own no shard any more.
func (o *Machine) retiring() bool { return o.ending || o.draining || o.standby }

// retire has this process release its shards to its peers, and own none from here on, because it is
// about to end.
func (o *Machine) Retire(now clock.Now) {
	o.ending = true
	o.present(now)
}

// standBy has this process release its shards to its peers, and own none from here on; with undo it
// is assigned shards again.
func (o *Machine) StandBy(now clock.Now, undo bool) {
	o.standby = !undo
	o.present(now)
}

// retired returns how many shards this process still has, and whether a peer could take them.
func (o *Machine) Retired(now clock.Now) (left int, takers bool) {
	for i := range o.shares.all {
		if st := o.shares.all[i].stage; o.shares.all[i].runs && st != warming && st != taking {
			left++
		}
	}
	return left, slices.ContainsFunc(o.members, func(m Process) bool { return m.ID != o.me && m.State == "" && o.isUp(now, m.ID) })
}
