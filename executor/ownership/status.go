package ownership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/request"
)

// Status is the state of a process, for answers, metrics and operators.
type Status struct {
	Nodes      []NodeStatus
	Logged     Logged
	Missing    *Logged       // the live run whose log is gone; nil: none
	Seen       uint64        // number of slots of the sale's log once read
	Unread     error         // error of the last read of the sale's log; nil: it was good
	ClockOff   time.Duration // offset of this host's clock if it exceeds a ttl, or 0
	NoMajority bool          // no majority of the lock nodes votes
	Locks      quorum.Stats
	Processes  []api.Process // by address
	Moves      []api.Move
	Owners     []string // by shard: id of the reachable process that reports to own it; "": none does
	Idle       string   // reason why no process may own the shards without owner; "": one may
}

// Status returns the state of this process.
func (m *Machine) Status(now clock.Now) Status {
	owners := m.handover.owners(now)
	s := Status{
		Nodes: m.nodes.Status(), Logged: m.log.logged(), Missing: m.log.missing, Seen: m.log.seen, Unread: m.log.readErr, ClockOff: m.clock.off, NoMajority: m.silent,
		Locks: m.locks, Processes: m.handover.processes(now, owners), Moves: m.handover.moving(now, owners), Owners: owners,
	}
	if m.handover.leases != nil {
		s.Locks = s.Locks.Plus(m.handover.leases.Stats())
	}
	if slices.Contains(owners, "") {
		s.Idle = m.assignment.idle()
	}
	return s
}

// Absent returns the answer to claims while this process does not serve.
func (m *Machine) Absent() request.Answer {
	switch {
	case m.draining:
		return request.Refusal(api.Draining)
	case m.log.readAt == clock.Now{}:
		return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log has not been read yet"}
	case m.log.missing != nil:
		return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: fmt.Sprintf("the sale's log is gone, and its run %d (%s) had not ended", m.log.missing.Run, m.log.missing.UID)}
	case m.log.sale.Next() < m.log.seen: // a buyer does not repeat a request after the answer that the sale has ended
		return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the store returned less of the sale's log than before: it answers with old data"}
	case m.log.sale.Generation() == 0:
		return request.Answer{Outcome: api.NoSuchSale, Message: "the sale is not applied"}
	case m.log.sale.Destroyed():
		return request.Answer{Outcome: api.NoSuchSale, Message: "the sale is destroyed"}
	case m.log.sale.Sealed() != nil:
		return request.Answer{Outcome: api.Closed, Message: "the sale has ended; its export has every claim"}
	case m.log.sale.Applied() == 0:
		return request.Answer{Outcome: api.NotOpen, RetryAfter: time.Second, Message: "the sale is not applied yet"}
	case m.clock.off != 0:
		return request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "this host's clock is wrong: another process must serve the sale"}
	case m.silent:
		return request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "no majority of the lock nodes votes"}
	case m.log.readErr != nil:
		return request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: Unread}
	}
	if idle := m.assignment.idle(); idle != "" {
		return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: idle}
	}
	if m.peers.isolatedSince != 0 {
		return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: errIsolated.Error()}
	}
	return request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "no reachable process owns the shard, or this process is taking it over"}
}

// idle returns why no process may own shards, or "" if one may. The reason is standby: of all
// processes, or of all that could own shards.
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

// owners returns, by shard, the id of the reachable process that is known to own it, or "".
func (h *handover) owners(now clock.Now) []string {
	all := make([]string, len(h.all))
	for i := range all {
		if all[i] = h.peers.ownerOf(now, i); h.all[i].stage == owned {
			all[i] = h.cfg.ID
		}
	}
	return all
}

// processes returns the known processes of the sale.
func (h *handover) processes(now clock.Now, owners []string) (all []api.Process) {
	owns, assigned := make(map[string]int), make(map[string]int)
	for i, id := range owners {
		assigned[h.assignment.desired[i]]++
		owns[id]++
	}
	for _, p := range h.assignment.members {
		s := api.Process{
			Address: p.Address, Admin: p.Admin, ID: p.ID, Version: p.Version, State: cmp.Or(p.State, api.ProcessServing), Self: p.ID == h.cfg.ID, Assigned: assigned[p.ID],
		}
		var traffic *Traffic
		if s.Self {
			s.Up, traffic = true, h.traffic
		} else if peer := h.peers.all[p.ID]; peer != nil && h.peers.isUp(now, p.ID) {
			s.Up, traffic = true, peer.traffic
		}
		if s.Up {
			s.Shards = new(owns[p.ID])
		}
		if traffic != nil {
			s.Requests, s.Forwarded = &traffic.Came, &traffic.Passed
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b api.Process) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

// moving returns the shards that are assigned to another process than their owner, if that process
// is reachable. A shard whose owner is unreachable moves to its fallback.
func (h *handover) moving(now clock.Now, owners []string) (all []api.Move) {
	for i := range h.all {
		s := &h.all[i]
		holder, to := owners[i], h.assignment.desired[i]
		move := api.Move{Shard: i, Stage: api.MoveDue}
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
		case h.peers.isolatedSince != 0: // the unreachable processes handle it
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

// Unread is the message for claims that are undecided because the ledger does not answer.
const Unread = "the ledger does not answer; this request was not processed"

// Operable reports whether operators can command this process: it takes part in the sale.
func (m *Machine) Operable() bool {
	return m.stage == serving && m.updates.collection.totals != nil && m.assignment.known && !m.draining
}

// Share returns the part of the sale that this process owns, and whether a peer could take it.
func (m *Machine) Share(now clock.Now) api.Share {
	s := api.Share{Sale: m.cfg.Sale, State: cmp.Or(m.note().State, api.ProcessServing)}
	for _, id := range m.assignment.desired {
		if id == m.cfg.ID {
			s.Assigned++
		}
	}
	for _, x := range m.handover.all {
		if x.runs && x.stage != warming && x.stage != taking {
			s.Shards++
		}
	}
	s.HasTakers = slices.ContainsFunc(m.assignment.members, func(p Process) bool { return p.ID != m.cfg.ID && p.State == "" && m.peers.isUp(now, p.ID) })
	return s
}

// Retire makes this process release its shards to its peers and own none any more, because it is
// about to end.
func (m *Machine) Retire(now clock.Now) {
	m.ending = true
	m.roster.present(now)
}

// StandBy makes this process release its shards to its peers and own none. With undo, shards are
// assigned to it again.
func (m *Machine) StandBy(now clock.Now, undo bool) {
	m.standby = !undo
	m.roster.present(now)
}
