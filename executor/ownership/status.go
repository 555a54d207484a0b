package ownership

import (
	"fmt"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// Status is the state of a process, for answers, metrics and operators.
type Status struct {
	Nodes      []NodeStatus
	Logged     Logged
	Missing    *Logged       // the live run whose log is gone; nil: there is none
	Seen       uint64        // slots of the sale's log that were read once
	Unread     error         // why the sale's log could not be read; nil: it was
	ClockOff   time.Duration // of this host, where it is too much
	NoMajority bool          // no majority of the lock nodes votes
	Locks      quorum.Stats
	Members    []ProcessStatus
	Moves      []MoveStatus
	Held       []bool // by shard: a process that can be reached says now that it owns it
	Idle       string // why nobody is to own the shards that nobody owns; "": somebody is
}

// ProcessStatus is a process of the sale.
type ProcessStatus struct {
	ID       string // of this start of the process
	Address  string // where it answers
	Version  string
	State    string   // "": it owns shards; standby, draining, unable
	Here     bool     // it is the one that tells
	Up       bool     // there is a link to it, and it has said something lately
	Shards   int      // that it owns, if Up; else nobody here knows
	Assigned int      // shards that are assigned to it
	Traffic  *Traffic // nil: it is not known
}

// MoveStatus is a shard that is assigned to another process than its owner, as far as is known.
type MoveStatus struct {
	Shard    int
	From, To string // addresses; From is "" where no process is known to own it
	Stage    string // due, or what this process does of it: follows, takes, gives
}

// Status returns the state of this process.
func (m *Machine) Status(now clock.Now) Status {
	s := Status{
		Nodes: m.nodes.Status(), Logged: m.log.logged(), Missing: m.log.missing, Seen: m.log.seen, Unread: m.log.readErr, ClockOff: m.clock.off, NoMajority: m.silent,
		Locks: m.locks, Members: m.handover.processes(now), Moves: m.handover.moving(now), Held: m.handover.held(now),
	}
	if m.handover.leases != nil {
		s.Locks = s.Locks.Plus(m.handover.leases.Stats())
	}
	if slices.Contains(s.Held, false) {
		s.Idle = m.assignment.idle()
	}
	return s
}

// Absent returns the answer to claims while this process does not serve.
func (m *Machine) Absent() shard.Answer {
	switch {
	case m.draining:
		return shard.Answer{Outcome: api.Draining, RetryAfter: time.Second}
	case m.log.readAt == clock.Now{}:
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log has not been read yet"}
	case m.log.missing != nil:
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: fmt.Sprintf("the sale's log is gone, and its run %d (%s) had not ended", m.log.missing.Run, m.log.missing.UID)}
	case m.log.sale.Next() < m.log.seen: // a buyer does not ask again who was told that the sale has ended
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log was read further before: the store answers from the past"}
	case m.log.sale.Generation() == 0:
		return shard.Answer{Outcome: api.NoSuchSale, Message: "the sale is not applied"}
	case m.log.sale.Destroyed():
		return shard.Answer{Outcome: api.NoSuchSale, Message: "the sale is destroyed"}
	case m.log.sale.Sealed() != nil:
		return shard.Answer{Outcome: api.Closed, Message: "the sale has ended; what became of every claim stands in its export"}
	case m.log.sale.Applied() == 0:
		return shard.Answer{Outcome: api.NotOpen, RetryAfter: time.Second, Message: "the sale is not applied yet"}
	case m.clock.off != 0:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "this host's clock is wrong: another process is to serve the sale"}
	case m.silent:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "no majority of the lock nodes votes"}
	case m.log.readErr != nil:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: Unread}
	}
	if idle := m.assignment.idle(); idle != "" {
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: idle}
	}
	if m.peers.isolatedSince != 0 {
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: errIsolated.Error()}
	}
	return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "no process that can be reached owns the shard, or this one is about to"}
}

// idle returns why no process may own shards, "" if one may: all are on standby, but for those that
// cannot own any.
func (a *assignment) idle() string {
	standby := 0
	for _, p := range a.members {
		switch p.State {
		case "":
			return ""
		case api.ProcessStandby:
			standby++
		}
	}
	switch {
	case standby == 0:
		return ""
	case standby < len(a.members):
		return fmt.Sprintf("%d of %d processes are on standby, and the others cannot own shards", standby, len(a.members))
	case standby == 1:
		return "the only process is on standby"
	}
	return fmt.Sprintf("all %d processes are on standby", standby)
}

// processes returns the processes of the sale, as far as they are known.
func (h *handover) processes(now clock.Now) (all []ProcessStatus) {
	owns, assigned := make(map[string]int), make(map[string]int)
	for i := range h.all {
		assigned[h.assignment.desired[i]]++
		if h.all[i].stage == owned {
			owns[h.cfg.ID]++
		} else if id := h.peers.ownerOf(now, i); id != "" {
			owns[id]++
		}
	}
	for _, p := range h.assignment.members {
		s := ProcessStatus{
			ID: p.ID, Address: p.Address, Version: p.Version, State: p.State, Here: p.ID == h.cfg.ID,
			Shards: owns[p.ID], Assigned: assigned[p.ID],
		}
		if s.Here {
			s.Up, s.Traffic = true, h.traffic
		} else if peer := h.peers.all[p.ID]; peer != nil && h.peers.isUp(now, p.ID) {
			s.Up, s.Traffic = true, peer.traffic
		}
		all = append(all, s)
	}
	return all
}

// held returns, by shard, whether a process that can be reached owns it, as far as is known.
func (h *handover) held(now clock.Now) []bool {
	all := make([]bool, len(h.all))
	for i := range all {
		all[i] = h.all[i].stage == owned || h.peers.ownerOf(now, i) != ""
	}
	return all
}

// moving returns the shards that are assigned to another process than their owner, as far as that
// process can be reached: a shard whose owner cannot goes to its fallback.
func (h *handover) moving(now clock.Now) (all []MoveStatus) {
	for i := range h.all {
		s := &h.all[i]
		holder, to := h.peers.ownerOf(now, i), h.assignment.desired[i]
		move := MoveStatus{Shard: i, Stage: api.MoveDue}
		switch s.stage {
		case owned, stopping:
			holder = h.cfg.ID
			if s.stage == stopping && s.to != "" {
				to, move.Stage = s.to, api.MoveGives
			}
		case warming:
			move.Stage = api.MoveFollows
		case trying, taking:
			move.Stage = api.MoveTakes
		}
		switch {
		case holder != "":
		case h.peers.isolatedSince != 0: // those who are not reached see to it
			continue
		case h.assignment.fallbacks != nil:
			to = h.assignment.fallbacks[i]
		}
		if to == holder || to != h.cfg.ID && !h.peers.isUp(now, to) {
			continue
		}
		move.From, move.To = h.assignment.addressOf(holder), h.assignment.addressOf(to)
		all = append(all, move)
	}
	return all
}

// Unread is the message of claims that are not decided because the ledger does not answer.
const Unread = "the ledger does not answer; this request was not looked at"
