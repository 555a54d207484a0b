package ledger

import (
	"fmt"
	"math"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// stock has the units of a shard that no claim has.
type stock struct {
	available Units
	dropped   Units // units that generations have removed by number
}

// AvailableUnits returns the available units.
func (s *stock) AvailableUnits() Units { return slices.Clone(s.available) }

// DroppedUnits returns the units that generations have removed by number.
func (s *stock) DroppedUnits() Units { return slices.Clone(s.dropped) }

// choose reports whether the units that a claim chooses are available, and returns the first of
// adjacent ones.
func (s *stock) choose(quantity int64, w Demand, rows []*pb.Range) (first int64, ok bool) {
	switch {
	case w.Units != nil:
		return 0, s.available.hasEach(w.Units)
	case w.Adjacent:
		return s.available.run(quantity, rows)
	}
	return 0, true
}

// take removes n available units for a claim and appends them to units: the named ones, the
// adjacent ones that begin with first, or the lowest.
func (s *stock) take(units []int64, n int64, first int64, w Demand) []int64 {
	switch {
	case w.Units != nil:
		units = append(units, w.Units...)
	case w.Adjacent:
		for i := range n {
			units = append(units, first+i)
		}
	default:
		return s.available.takeLowest(units, n)
	}
	if err := s.available.removeEach(units); err != nil {
		panic("ledger: a claim takes what is not available: " + err.Error())
	}
	return units
}

// change is the effect of a generation on the units of a shard.
type change struct {
	add, drop, restore Units
	remove             int64
}

// changeOf returns the change of a generation, or an error if it is malformed.
func changeOf(op *pb.Generation) (c change, err error) {
	if op.GetRemove() < 0 {
		return c, fmt.Errorf("a generation cannot remove %d units", op.GetRemove())
	}
	if p := op.GetSettings().GetPayment(); p != nil {
		if err := payable(p); err != nil {
			return c, err
		}
	}
	if err := rulable(op.GetSettings()); err != nil {
		return c, err
	}
	if err := choosable(op.GetSettings()); err != nil {
		return c, err
	}
	c.remove = op.GetRemove()
	for _, x := range []struct {
		to     *Units
		ranges []*pb.Range
	}{{&c.add, op.GetAdd()}, {&c.drop, op.GetDrop()}, {&c.restore, op.GetRestore()}} {
		if *x.to, err = UnitsOf(x.ranges); err != nil {
			return c, err
		}
	}
	return c, nil
}

// change applies the change of a generation and returns by how many units the stock has grown.
func (s *stock) change(c change) (added int64, err error) {
	for _, units := range []Units{c.add, s.dropped.takeThose(c.restore)} {
		if err := s.available.addAll(units); err != nil {
			return 0, err
		}
		added += units.Count()
	}
	gone := s.available.takeThose(c.drop)
	added -= gone.Count() + s.available.takeHighest(c.remove, math.MaxInt).Count()
	return added, s.dropped.addAll(gone)
}
