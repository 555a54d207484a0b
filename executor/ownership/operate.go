package ownership

import (
	"errors"
	"fmt"

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
func (o *Machine) Operable() bool {
	return o.stage == serving && o.totals != nil && o.assigned && !o.draining
}

// Move has a shard moved here, or with anyone wherever it would be without the word of an
// operator.
func (o *Machine) Move(now clock.Now, shard int, anyone bool) error {
	if !anyone && o.retiring() {
		return fmt.Errorf("%w: it is on standby", ErrStandby)
	}
	o.pin(now, shard, anyone)
	return nil
}

// Share returns how much of the sale this process has.
func (o *Machine) Share(now clock.Now) Share {
	left, takers := o.Retired(now)
	s := Share{State: o.myself().State, Owns: left, Takers: takers}
	for _, id := range o.shares.desired {
		if id == o.me {
			s.Assigned++
		}
	}
	return s
}

// ShardOwner returns the owner of a shard by what this process knows.
func (o *Machine) ShardOwner(now clock.Now, i int) ShardOwner {
	w := ShardOwner{Shard: i, Owner: o.addressOf(o.ownerOf(now, i)), Assigned: o.addressOf(o.shares.desired[i])}
	if o.shares.all[i].stage == owned {
		w.Owner, w.Here = o.cfg.Address, true
	}
	to := pinned(o.members, len(o.shares.all))[i]
	w.Pinned, w.Moved = to == o.me, o.addressOf(to)
	return w
}
