package ownership

import (
	"errors"
	"fmt"
	"slices"

	"salectl/backends/clock"
)

// ErrStandby is the error of Move on a process that owns no shard.
var ErrStandby = errors.New("this process is to own no shard")

// Share is the part of a sale that a process owns.
type Share struct {
	State    string // "": it owns shards; standby, draining, unable
	Owns     int    // shards
	Assigned int    // shards that are assigned to it
	Takers   bool   // a reachable peer may own shards
}

// ShardOwner is the owner of a shard, and the process that the shard is assigned to, as one process
// knows them.
type ShardOwner struct {
	Shard    int
	Owner    string // an address; "": unknown
	Assigned string // an address; "": to no process
	Here     bool   // this process owns it, and serves it
	Pinned   bool   // an operator has moved it here
	Moved    string // an operator has moved it to the process at this address; "": to none
}

// Operable reports whether operators can have this process do something: it shares the sale.
func (m *Machine) Operable() bool {
	return m.stage == serving && m.updates.collection.totals != nil && m.assignment.known && !m.draining
}

// Move has a shard moved here, or with anyone wherever it would be without the word of an
// operator.
func (m *Machine) Move(now clock.Now, shard int, anyone bool) error {
	if !anyone && m.retiring() {
		return fmt.Errorf("%w: it is on standby", ErrStandby)
	}
	m.pin(now, shard, anyone)
	return nil
}

// Share returns how much of the sale this process has.
func (m *Machine) Share(now clock.Now) Share {
	left, takers := m.Retired(now)
	s := Share{State: m.note().State, Owns: left, Takers: takers}
	for _, id := range m.assignment.desired {
		if id == m.cfg.ID {
			s.Assigned++
		}
	}
	return s
}

// ShardOwner returns the owner of a shard by what this process knows.
func (m *Machine) ShardOwner(now clock.Now, i int) ShardOwner {
	w := ShardOwner{Shard: i, Owner: m.assignment.addressOf(m.peers.ownerOf(now, i)), Assigned: m.assignment.addressOf(m.assignment.desired[i])}
	if m.handover.all[i].stage == owned {
		w.Owner, w.Here = m.cfg.Address, true
	}
	to := pinned(m.assignment.members, len(m.handover.all))[i]
	w.Pinned, w.Moved = to == m.cfg.ID, m.assignment.addressOf(to)
	return w
}

// Retire has this process release its shards to its peers, and own none from here on, because it is
// about to end.
func (m *Machine) Retire(now clock.Now) {
	m.ending = true
	m.roster.present(now)
}

// StandBy has this process release its shards to its peers, and own none from here on; with undo it
// is assigned shards again.
func (m *Machine) StandBy(now clock.Now, undo bool) {
	m.standby = !undo
	m.roster.present(now)
}

// Retired returns how many shards this process still has, and whether a peer could take them.
func (m *Machine) Retired(now clock.Now) (left int, takers bool) {
	for i := range m.handover.all {
		if st := m.handover.all[i].stage; m.handover.all[i].runs && st != warming && st != taking {
			left++
		}
	}
	return left, slices.ContainsFunc(m.assignment.members, func(p Process) bool { return p.ID != m.cfg.ID && p.State == "" && m.peers.isUp(now, p.ID) })
}

// pin has a shard moved here, or with anyone wherever it would be without pins.
func (m *Machine) pin(now clock.Now, shard int, anyone bool) {
	// A takeover outdoes many pins of before it, also such as this process has yet to hear of.
	p := pin{Shard: shard, Number: m.epochOf(shard) << 10, Any: anyone}
	if newest, of := newestPin(m.assignment.members, shard); of != "" {
		p.Number = max(p.Number, newest.Number)
	}
	p.Number++
	m.pins = append(slices.DeleteFunc(slices.Clone(m.pins), func(x pin) bool { return x.Shard == shard }), p)
	m.roster.present(now)
}

// epochOf is the newest epoch of a shard's log that is known.
func (m *Machine) epochOf(shard int) uint64 {
	epoch := m.updates.collection.totals.Shards()[shard].Totals.Epoch
	for _, p := range m.peers.all {
		epoch = max(epoch, p.owns[shard])
	}
	return epoch
}
