package ownership

import (
	"fmt"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// Status is the state of a process, for answers, metrics and operators.
type Status struct {
	Nodes    []NodeStatus
	Logged   Logged
	Missing  *Logged       // the live run whose log is gone; nil: there is none
	Seen     uint64        // slots of the sale's log that were read once
	Unread   error         // why the sale's log could not be read; nil: it was
	ClockOff time.Duration // of this host, where it is too much
	Locks    quorum.Stats
	Members  []ProcessStatus
	Moves    []MoveStatus
	Held     []bool // by shard: a process that can be reached says now that it owns it
	Idle     string // why nobody is to own the shards that nobody owns; "": somebody is
}

// Logged is what the sale's log says, as it was read last.
type Logged struct {
	ReadAt     time.Time // when that was; zero: never
	Phase      string    // in the ledger; "": it says nothing
	UID        string
	Run        int64
	Generation uint64
	Shards     int
	PerUser    int64
	OpensAt    time.Time
	ClosesAt   time.Time
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

// logged is what the sale's log says. What was read once is there, or the store answers from
// the past.
func (o *Machine) logged() Logged {
	l := Logged{ReadAt: o.readAt.Wall}
	if l.ReadAt.IsZero() || o.sale.Next() < o.seen || o.sale.Generation() == 0 {
		return l
	}
	l.Phase, l.UID, l.Run, l.Generation, l.Shards = o.sale.Phase(), o.sale.UID(), o.sale.Run(), o.sale.Generation(), o.sale.Shards()
	settings := o.sale.Newest().GetSettings()
	l.PerUser, l.OpensAt, l.ClosesAt = settings.GetPerUserLimit(), ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	return l
}

// Status returns the state of this process.
func (o *Machine) Status(now clock.Now) Status {
	s := Status{
		Nodes: o.watch.Status(), Logged: o.logged(), Missing: o.missing, Seen: o.seen, Unread: o.readErr, ClockOff: o.clockOff,
		Locks: o.locks, Members: o.memberStatus(now), Moves: o.moving(now), Held: o.held(now),
	}
	if o.leases != nil {
		s.Locks = s.Locks.Plus(o.leases.Stats())
	}
	if slices.Contains(s.Held, false) {
		s.Idle = o.idle()
	}
	return s
}

// Absent returns the answer to claims while this process does not serve.
func (o *Machine) Absent() shard.Answer {
	switch {
	case o.draining:
		return shard.Answer{Outcome: api.Draining, RetryAfter: time.Second}
	case o.readAt == clock.Now{}:
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log has not been read yet"}
	case o.missing != nil:
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: fmt.Sprintf("the sale's log is gone, and its run %d (%s) had not ended", o.missing.Run, o.missing.UID)}
	case o.sale.Next() < o.seen: // a buyer does not ask again who was told that the sale has ended
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log was read further before: the store answers from the past"}
	case o.sale.Generation() == 0:
		return shard.Answer{Outcome: api.NoSuchSale, Message: "the sale is not applied"}
	case o.sale.Destroyed():
		return shard.Answer{Outcome: api.NoSuchSale, Message: "the sale is destroyed"}
	case o.sale.Sealed() != nil:
		return shard.Answer{Outcome: api.Closed, Message: "the sale has ended; what became of every claim stands in its export"}
	case o.sale.Applied() == 0:
		return shard.Answer{Outcome: api.NotOpen, RetryAfter: time.Second, Message: "the sale is not applied yet"}
	case o.clockOff != 0:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "this host's clock is wrong: another process is to serve the sale"}
	case o.silent:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "no majority of the lock nodes votes"}
	case o.readErr != nil:
		return shard.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: Unread}
	}
	if idle := o.idle(); idle != "" {
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: idle}
	}
	if o.isolatedSince != 0 {
		return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: errIsolated.Error()}
	}
	return shard.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "no process that can be reached owns the shard, or this one is about to"}
}

// idle says why no process is to own shards, "" if one is: all are on standby, but for those that
// cannot own any.
func (o *Machine) idle() string {
	standby := 0
	for _, m := range o.members {
		switch m.State {
		case "":
			return ""
		case api.ProcessStandby:
			standby++
		}
	}
	switch {
	case standby == 0:
		return ""
	case standby < len(o.members):
		return fmt.Sprintf("%d of %d processes are on standby, and the others cannot own shards", standby, len(o.members))
	case standby == 1:
		return "the only process is on standby"
	}
	return fmt.Sprintf("all %d processes are on standby", standby)
}

// memberStatus is who there is, as far as is known.
func (o *Machine) memberStatus(now clock.Now) (all []ProcessStatus) {
	owns, should := make(map[string]int), make(map[string]int)
	for i := range o.shares.all {
		should[o.shares.desired[i]]++
		if o.shares.all[i].stage == owned {
			owns[o.me]++
		} else if id := o.ownerOf(now, i); id != "" {
			owns[id]++
		}
	}
	for _, m := range o.members {
		s := ProcessStatus{
			ID: m.ID, Address: m.Address, Version: m.Version, State: m.State, Here: m.ID == o.me,
			Shards: owns[m.ID], Assigned: should[m.ID],
		}
		if s.Here {
			s.Up, s.Traffic = true, o.traffic
		} else if p := o.peers.all[m.ID]; p != nil && o.isUp(now, m.ID) {
			s.Up, s.Traffic = true, p.traffic
		}
		all = append(all, s)
	}
	return all
}

// held is, by shard, whether a process that can be reached owns it, as far as is known.
func (o *Machine) held(now clock.Now) []bool {
	all := make([]bool, len(o.shares.all))
	for i := range all {
		all[i] = o.shares.all[i].stage == owned || o.ownerOf(now, i) != ""
	}
	return all
}

// moving is which shards are not where they should be, as far as whoever should own them is
// there: what a process that cannot be reached owned goes to its fallback.
func (o *Machine) moving(now clock.Now) (all []MoveStatus) {
	for i := range o.shares.all {
		s := &o.shares.all[i]
		holder, to := o.ownerOf(now, i), o.shares.desired[i]
		m := MoveStatus{Shard: i, Stage: api.MoveDue}
		switch s.stage {
		case owned, stopping:
			holder = o.me
			if s.stage == stopping && s.to != "" {
				to, m.Stage = s.to, api.MoveGives
			}
		case warming:
			m.Stage = api.MoveFollows
		case trying, taking:
			m.Stage = api.MoveTakes
		}
		switch {
		case holder != "":
		case o.isolatedSince != 0: // those who are not reached see to it
			continue
		case o.shares.fallbacks != nil:
			to = o.shares.fallbacks[i]
		}
		if to == holder || to != o.me && !o.isUp(now, to) {
			continue
		}
		m.From, m.To = o.addressOf(holder), o.addressOf(to)
		all = append(all, m)
	}
	return all
}

// addressOf is where a member answers.
func (o *Machine) addressOf(id string) string {
	for _, m := range o.members {
		if m.ID == id {
			return m.Address
		}
	}
	return ""
}

// Unread is the message of claims that are not decided because the ledger does not answer.
const Unread = "the ledger does not answer; this request was not looked at"
