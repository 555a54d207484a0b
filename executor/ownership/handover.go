package ownership

import (
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
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
// A shard whose owner has become unreachable gets a fallback: the process that would be assigned
// it without that owner. The fallback follows the log at once, and tries for the lease when little is
// left to read. The lease of a dead owner expires, perhaps before the lock nodes drop it from the
// list. A live owner renews its lease, unless it finds itself isolated; then it releases its shards.
//
// Both sides agree before the owner stops, as in Kafka's KIP-848, where a revocation is acknowledged
// before the partition is assigned again.

// handover is the state of each shard in this process, and the leases of the shards.
type handover struct {
	*process
	log        *saleLog
	peers      *peers
	assignment *assignment

	all       []share
	keys      []string         // keys of the shards' leases
	leases    *quorum.Group    // kept after the session until the nodes have the releases
	leaseWake time.Duration    // monotonic: time of the next Tick of the leases
	caughtUp  func(i int) bool // whether the machine of a shard has read its log to the end
	wake      time.Duration    // monotonic
}

// share is the state of one shard in this process.
type share struct {
	stage       shareStage
	runs        bool          // its machine runs
	fallback    bool          // warming or taking: as the fallback of an unreachable owner
	to          string        // stopping: process to release the lease to; "": any
	rests       time.Duration // monotonic: earliest time of the next attempt to own it
	requestSent time.Duration // monotonic: time of the last request to its owner; 0: none
	freed       time.Duration // monotonic: start of the time without a known owner; 0: the owner is known
	since       time.Duration // monotonic: start of the stage
	retried     time.Duration // monotonic: taking: time of the last attempt for the lease; 0: its owner has not granted it

	// Request of a peer for the shard.
	requester         string        // the peer's id
	requestedAt       time.Duration // monotonic
	requesterCaughtUp bool          // the peer has read its log
}

// shareStage is the stage of a shard in this process.
type shareStage int

const (
	away     shareStage = iota // another process owns it, or none
	trying                     // this process tries for the lease; no machine runs
	warming                    // its machine follows the log, which another process appends to
	taking                     // its machine follows the log, and this process tries for the lease
	owned                      // this process has the lease, and the machine runs
	stopping                   // the machine is stopping; then the lease is released
)

func (s shareStage) String() string {
	return [...]string{"away", "trying", "warming", "taking", "owned", "stopping"}[s]
}

// Intervals of requests to a shard's owner, and of attempts for a granted lease; validity of a
// request; number of shards that a process follows at a time; interval of checking whether their
// logs are read; and pause after a shard's machine ended by itself.
const (
	requestEvery = 200 * time.Millisecond
	retryEvery   = 25 * time.Millisecond
	requestFor   = time.Second
	followAtOnce = 16
	checkEvery   = 10 * time.Millisecond
	restAfter    = time.Second
)

// begin begins a session in which this process has no shard of n.
func (h *handover) begin(n int) {
	h.all, h.keys, h.caughtUp, h.wake = make([]share, n), nil, nil, 0
	for i := range n {
		h.keys = append(h.keys, spec.LeaseKey(h.uid, i))
	}
}

// enter begins a stage.
func (h *handover) enter(now clock.Now, i int, stage shareStage) {
	s := &h.all[i]
	s.stage, s.since, s.requestSent, s.retried, s.fallback = stage, now.Mono, 0, 0, false
}

// advance moves each shard one stage towards its assignment.
func (h *handover) advance(now clock.Now) {
	h.wake = 0
	switch {
	case h.clock.lost(now, h.ttl):
		for i := range h.all {
			h.stop(now, i, shard.Halt{Why: errClock, Refusal: api.NoQuorum, Elsewhere: true}, "")
		}
	case h.clock.off != 0:
		h.wake = h.clock.since + h.ttl + 1
	}
	var try, end []string
	h.assignment.fallBack(h.uid, len(h.all), func(p Process) bool { return h.peers.lost(now, p.ID) })
	warm := h.followed()
	isolatedTooLong := h.peers.isolatedTooLong(now)
	leaves := h.retiring() || h.peers.isolatedSince != 0
	for i := range h.all {
		s := &h.all[i]
		holder := h.peers.ownerOf(now, i)
		mine := (h.assignment.desired[i] == h.cfg.ID || h.isFree(now, s, holder)) && !leaves
		fallback := holder == "" && h.assignment.fallbacks != nil && h.assignment.fallbacks[i] == h.cfg.ID && !leaves
		switch s.stage {
		case away:
			switch {
			case h.clock.off != 0 && !h.clock.known && i == 0 && now.Mono >= s.rests:
				s.rests = now.Mono + restAfter
				h.enter(now, i, trying)
				try = append(try, h.keys[i])
			case !mine && !fallback || h.clock.off != 0:
			case now.Mono < s.rests:
				h.wake = clock.Soonest(h.wake, s.rests)
			case !mine:
				if warm < followAtOnce {
					warm++
					h.enter(now, i, warming)
					s.fallback = true
					h.open(i, true)
				}
			case holder == "" || !h.clock.known: // a vote reports the time, even a refusal
				h.enter(now, i, trying)
				try = append(try, h.keys[i])
			case warm < followAtOnce:
				h.request(now, i, holder, false)
			}
		case trying:
			if h.clock.known && (!mine || holder != "") {
				h.enter(now, i, away)
				end = append(end, h.keys[i])
			}
		case warming:
			switch {
			case !mine && !fallback:
				h.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.Standby, Elsewhere: true}, "")
			case !mine && !h.caughtUp(i):
				s.fallback = true
				h.wake = clock.Soonest(h.wake, now.Mono+checkEvery)
			case !mine, holder == "": // its owner is unreachable; for a fallback, the owner still has a lease at the lock nodes
				h.enter(now, i, taking)
				s.fallback = !mine
				try = append(try, h.keys[i])
			case h.caughtUp(i):
				h.request(now, i, holder, true)
			default:
				h.wake = clock.Soonest(h.wake, now.Mono+checkEvery)
			}
		case taking:
			switch {
			case !mine && !fallback && (s.retried == 0 || h.retiring()): // a granted shard is taken first and passed on later: no other process has it
				h.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.Standby, Elsewhere: true}, "")
			case holder != "" && now.Mono >= s.since+requestFor: // the owner has not released it
				h.enter(now, i, warming)
				end = append(end, h.keys[i])
			case s.retried != 0 && now.Mono < s.since+requestFor: // nodes may receive the release later than this process
				if now.Mono >= s.retried+retryEvery {
					s.retried = now.Mono
					h.leased(now, h.leases.Woken(now, h.keys[i]))
				}
				h.wake = clock.Soonest(h.wake, s.retried+retryEvery)
			}
		case owned:
			if isolatedTooLong {
				h.stop(now, i, shard.Halt{Why: errIsolated, Refusal: api.Standby, Elsewhere: true}, "")
			} else {
				h.offer(now, i)
			}
		}
	}
	h.leased(now, h.leases.Acquire(now, try...))
	h.leased(now, h.leases.Release(now, "", end...))
}

// followed returns the number of shards in stage warming or taking, except those that a fallback has
// read to the end.
func (h *handover) followed() (n int) {
	for i := range h.all {
		s := &h.all[i]
		if (s.stage == warming || s.stage == taking) && !(s.fallback && h.caughtUp(i)) {
			n++
		}
	}
	return n
}

// isFree reports whether a shard has had no known owner for so long that any process may take it.
// The assigned process cannot, or is not known to all.
func (h *handover) isFree(now clock.Now, s *share, holder string) bool {
	if holder != "" || s.stage == owned || s.stage == stopping {
		s.freed = 0
		return false
	}
	if s.freed == 0 {
		s.freed = now.Mono
	}
	if !s.free(now, h.ttl) {
		h.wake = clock.Soonest(h.wake, s.freed+h.ttl)
		return false
	}
	return h.assignment.known
}

// free reports whether the shard has had no known owner for a ttl. A move takes less time: the owner
// has died, perhaps before this process discovered it.
func (s *share) free(now clock.Now, ttl time.Duration) bool {
	return s.freed != 0 && now.Mono >= s.freed+ttl
}

// request requests a shard of its owner every requestEvery.
func (h *handover) request(now clock.Now, i int, holder string, warm bool) {
	s := &h.all[i]
	if s.requestSent == 0 || now.Mono >= s.requestSent+requestEvery {
		s.requestSent = now.Mono
		h.send(holder, &PeerUpdate{Requested: []ShardRequest{{Shard: i, CaughtUp: warm}}})
	}
	h.wake = clock.Soonest(h.wake, s.requestSent+requestEvery)
}

// offer releases a shard to the peer that it is assigned to, if the peer has requested it and has
// read its log. It agrees to a first request, so that the peer begins to read.
func (h *handover) offer(now clock.Now, i int) {
	s := &h.all[i]
	to := h.assignment.desired[i]
	if to == h.cfg.ID || to == "" || s.requester != to || now.Mono >= s.requestedAt+requestFor || !h.peers.isUp(now, to) {
		return
	}
	if !s.requesterCaughtUp {
		s.requester = ""
		h.send(to, &PeerUpdate{Accepted: []int{i}})
		return
	}
	h.stop(now, i, shard.Halt{Why: errGiven, Refusal: api.NoQuorum, Elsewhere: true}, to)
}

// requested records a peer's request for a shard.
func (h *handover) requested(now clock.Now, from string, w ShardRequest) {
	if w.Shard < 0 || w.Shard >= len(h.all) {
		return
	}
	s := &h.all[w.Shard]
	s.requester, s.requestedAt, s.requesterCaughtUp = from, now.Mono, w.CaughtUp
}

// accepted starts to follow the log of a shard that its owner agrees to release.
func (h *handover) accepted(now clock.Now, i int) {
	if i < 0 || i >= len(h.all) || h.all[i].stage != away || h.assignment.desired[i] != h.cfg.ID || h.retiring() {
		return
	}
	if h.followed() >= followAtOnce {
		return // it is requested again
	}
	h.enter(now, i, warming)
	h.open(i, true)
}

// granted starts to try for the lease of a shard that its owner has released to this process.
func (h *handover) granted(now clock.Now, from string, i int) {
	if i < 0 || i >= len(h.all) || h.all[i].stage != warming {
		return
	}
	if p := h.peers.all[from]; p != nil {
		delete(p.owns, i)
	}
	if h.peers.holder[i] == from {
		h.peers.holder[i] = ""
	}
	h.enter(now, i, taking)
	h.all[i].retried = now.Mono
	h.out.Granted = append(h.out.Granted, i)
	h.leased(now, h.leases.Acquire(now, h.keys[i]))
	h.leased(now, h.leases.Woken(now, h.keys[i]))
}

func (h *handover) open(i int, follows bool) {
	h.all[i].runs = true
	h.out.Open = append(h.out.Open, Opening{Shard: i, Follows: follows})
}

// leased collects the calls of the leases and handles their events.
func (h *handover) leased(now clock.Now, e quorum.Effects) {
	h.out.Calls = append(h.out.Calls, e.Calls...)
	for _, c := range e.Calls {
		h.nodes.Called(now, c.Node)
	}
	h.leaseWake = e.Wake
	for _, event := range e.Events {
		h.out.Events = append(h.out.Events, event)
		for _, key := range event.Keys {
			_, i, _ := spec.ParseLeaseKey(key)
			switch event.Kind {
			case quorum.Won:
				h.won(now, i)
			case quorum.Losing:
				h.lost(now, i, event.Cause)
			}
		}
	}
}

// won handles the win of the lease of a shard.
func (h *handover) won(now clock.Now, i int) {
	if h.stage != serving {
		return // it is being released
	}
	switch s := &h.all[i]; {
	case s.stage == trying && h.clock.off != 0: // this process cannot sell, but another may
		s.rests = now.Mono + restAfter
		h.enter(now, i, away)
		h.leased(now, h.leases.Release(now, "", h.keys[i]))
	case s.stage == taking && h.clock.off != 0: // nor can it here
		s.rests = now.Mono + restAfter
		h.stop(now, i, shard.Halt{Why: errClock, Refusal: api.NoQuorum, Elsewhere: true}, "")
	case s.stage == trying:
		h.enter(now, i, owned)
		h.open(i, false)
		h.grant(i)
	case s.stage == taking:
		h.enter(now, i, owned)
		h.grant(i)
	}
}

// lost handles the loss of the lease of a shard. The shard loses its rights at once, before it
// stops.
func (h *handover) lost(now clock.Now, i int, why error) {
	if h.stage == following {
		return
	}
	h.grant(i)
	if h.stage == leaving {
		return
	}
	h.stop(now, i, shard.Halt{Why: why, Refusal: api.NoQuorum, Elsewhere: true}, "")
}

// stop stops the machine of a shard, if it runs, and then releases the lease or stops trying for it.
func (h *handover) stop(now clock.Now, i int, halt shard.Halt, to string) {
	s := &h.all[i]
	switch {
	case s.stage == stopping:
	case s.runs:
		h.enter(now, i, stopping)
		s.to = to
		h.out.Halts = append(h.out.Halts, Halting{i, halt})
	case s.stage == trying:
		h.enter(now, i, away)
		h.leased(now, h.leases.Release(now, "", h.keys[i]))
	}
}

// ended handles the end of the machine of a shard. If the machine was not stopped, the cause may
// last: a shard is sealed while its sale is still being exported. So the shard rests for a while.
func (h *handover) ended(now clock.Now, i int) {
	s := &h.all[i]
	if s.stage != stopping {
		s.rests = now.Mono + restAfter
	}
	to := s.to
	s.runs, s.to, s.requester = false, "", ""
	h.enter(now, i, away)
	h.leased(now, h.leases.Release(now, to, h.keys[i]))
	if to != "" {
		h.send(to, &PeerUpdate{Granted: []int{i}})
	}
	h.peers.changedAt = now.Mono // peers must be notified that it is not owned any more
}

// grantAll updates the rights of each shard.
func (h *handover) grantAll(now clock.Now) {
	if h.leases == nil {
		return
	}
	h.clock.read(now, h.leases, h.ttl)
	for i := range h.all {
		if h.all[i].stage == owned || h.all[i].stage == stopping {
			h.grant(i)
		}
	}
}

// grant updates the rights of one shard. There are none if this host's clock is off by more than a
// ttl, because its timestamps cannot be trusted then.
func (h *handover) grant(i int) {
	if !h.all[i].runs {
		return
	}
	var rights shard.Rights
	if h.clock.off == 0 {
		rights = shard.Rights{Lease: h.leases.Validity(h.keys[i]), ReadAt: h.log.readAt, TTL: h.ttl}
	}
	h.out.Rights = append(h.out.Rights, Grant{i, rights})
}
