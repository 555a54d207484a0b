package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// holdings are a shard's units that no claim has, with its transfers, settings and totals. A draft has
// its own, based on those of its state, and changes them by the same methods.
type holdings struct {
	Totals
	stock
	transfers
	before   transfers // of the state, for a draft, whose transfers has the exchanges that it changes
	settings *pb.Settings
}

// peer returns the exchange with another shard.
func (h *holdings) peer(shard int) peer {
	if p, ok := h.transfers[shard]; ok {
		return p
	}
	return h.before[shard]
}

func (h *holdings) out(to int, k uint64, units Units) error {
	p := h.peer(to)
	switch {
	case h.settings.GetPhase() == pb.Phase_CLOSED:
		return fmt.Errorf("a transfer out of a closed shard")
	case p.outK != p.ackK || k != p.outK+1:
		return fmt.Errorf("transfer %d to shard %d while %d of %d are acknowledged", k, to, p.ackK, p.outK)
	}
	for _, r := range units {
		if err := h.available.Remove(r); err != nil {
			return err
		}
	}
	p.outK, p.out = k, units
	h.transfers[to] = p
	h.Available -= units.Count()
	h.InFlight += units.Count()
	return nil
}

func (h *holdings) in(from int, k uint64, units Units) error {
	p := h.peer(from)
	if k <= p.inK {
		return nil // it was received before
	}
	if k != p.inK+1 {
		return fmt.Errorf("transfer %d from shard %d after %d", k, from, p.inK)
	}
	if err := h.available.addAll(units); err != nil {
		return err
	}
	p.inK = k
	h.transfers[from] = p
	h.Available += units.Count()
	return nil
}

func (h *holdings) ack(to int, k uint64) error {
	p := h.peer(to)
	if k <= p.ackK {
		return nil // it was acknowledged before
	}
	if k != p.outK {
		return fmt.Errorf("transfer %d to shard %d is acknowledged, %d were sent", k, to, p.outK)
	}
	h.InFlight -= p.out.Count()
	p.ackK, p.out = k, nil
	h.transfers[to] = p
	return nil
}

// settle applies a Settle to a claim of n units, and frees the listed units. An error leaves the totals.
func (h *holdings) settle(op *pb.Settle, n int64, freed []int64) error {
	if effects[op.GetHow()].units > 0 {
		n = int64(len(op.GetUnits()))
		if err := eachRun(op.GetUnits(), h.available.Remove); err != nil {
			return err
		}
	}
	if err := eachRun(freed, h.available.Add); err != nil {
		return err
	}
	h.Totals.settle(n, op)
	return nil
}

// generation applies the next generation.
func (h *holdings) generation(op *pb.Generation) error {
	if op.GetNumber() != h.Generation+1 {
		return fmt.Errorf("generation %d after %d", op.GetNumber(), h.Generation)
	}
	if h.settings != nil && h.settings.GetDraw() != op.GetSettings().GetDraw() {
		return fmt.Errorf("generation %d makes a draw of another sale, or the other way round", op.GetNumber())
	}
	c, err := changeOf(op)
	if err != nil {
		return err
	}
	added, err := h.stock.change(c)
	if err != nil {
		return err
	}
	h.Generation, h.settings, h.Phase = op.GetNumber(), op.GetSettings(), PhaseName(op.GetSettings().GetPhase())
	h.Limit += added
	h.Available += added
	return nil
}

// transfers are the exchanges of a shard with each other shard.
type transfers map[int]peer

// peer is the exchange of transfers with one other shard.
type peer struct {
	outK, ackK uint64 // transfers sent, and acknowledged
	inK        uint64 // transfers received
	out        Units  // units of transfer outK, until it is acknowledged
}

// Transfer is one transfer that has not been acknowledged.
type Transfer struct {
	To    int
	K     uint64
	Units Units
}

// covers reports whether the transfers include all that a peer has seen of them.
func (t transfers) covers(other int, seen peer) bool {
	return seen.inK <= t[other].outK && seen.ackK <= t[other].inK
}

// Open returns the transfers sent and not yet acknowledged, in the order of the shards.
func (t transfers) Open() []Transfer {
	var open []Transfer
	for _, to := range slices.Sorted(maps.Keys(t)) {
		if transfer, ok := t.OpenTo(to); ok {
			open = append(open, transfer)
		}
	}
	return open
}

// OpenTo returns the transfer to a shard that is not yet acknowledged, if there is
// one.
func (t transfers) OpenTo(to int) (Transfer, bool) {
	if p := t[to]; p.outK != p.ackK {
		return Transfer{To: to, K: p.outK, Units: p.out}, true
	}
	return Transfer{}, false
}

// Received returns the number of the last transfer received from a shard.
func (t transfers) Received(from int) uint64 { return t[from].inK }

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
	if err := eachRun(units, s.available.Remove); err != nil {
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
	dropped := s.available.takeThose(c.drop)
	added -= dropped.Count() + s.available.takeHighest(c.remove, math.MaxInt).Count()
	return added, s.dropped.addAll(dropped)
}
