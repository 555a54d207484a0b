package ledger

import (
	"fmt"
	"maps"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// holdings are a shard's units that no claim has, with its transfers, settings and totals. A draft has
// its own, based on those of its state, and changes them by the same methods.
type holdings struct {
	Totals
	stock
	transfers
	before   transfers // of the state, for a draft, which copies each exchange on first use
	settings *pb.Settings
}

// peer returns the exchange with another shard.
func (h *holdings) peer(shard int) *peer {
	p := h.transfers[shard]
	if p == nil {
		p = new(peer)
		if was := h.before[shard]; was != nil {
			*p = *was
		}
		h.transfers[shard] = p
	}
	return p
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
	h.Totals.out(units.Count())
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
	h.Totals.in(units.Count())
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
	h.Totals.ack(p.out.Count())
	p.ackK, p.out = k, nil
	return nil
}

// settle applies a Settle to a claim of n units, and frees the listed units. An error leaves the totals.
func (h *holdings) settle(op *pb.Settle, n int64, freed []int64) error {
	if effects[op.GetHow()].units > 0 {
		n = int64(len(op.GetUnits()))
		if err := h.available.removeEach(op.GetUnits()); err != nil {
			return err
		}
	}
	if err := h.available.addEach(freed); err != nil {
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
	if err := checkStaysDraw(h.settings, op); err != nil {
		return err
	}
	c, err := changeOf(op)
	if err != nil {
		return err
	}
	added, err := h.stock.change(c)
	if err != nil {
		return err
	}
	h.Totals.generation(op, added)
	h.settings = op.GetSettings()
	return nil
}

// transfers are the exchanges of a shard with each other shard.
type transfers map[int]*peer

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

// knows reports whether the transfers include all that a peer has seen of them.
func (t transfers) knows(other int, seen *peer) bool {
	mine := t[other]
	if mine == nil {
		mine = new(peer)
	}
	return seen.inK <= mine.outK && seen.ackK <= mine.inK
}

// Open returns the transfers sent and not yet acknowledged, in the order of the shards.
func (t transfers) Open() []Transfer {
	var open []Transfer
	for _, to := range slices.Sorted(maps.Keys(t)) {
		if p := t[to]; p.outK != p.ackK {
			open = append(open, Transfer{To: to, K: p.outK, Units: p.out})
		}
	}
	return open
}

// OpenTo returns the transfer to a shard that is not yet acknowledged, if there is
// one.
func (t transfers) OpenTo(to int) (Transfer, bool) {
	if p := t[to]; p != nil && p.outK != p.ackK {
		return Transfer{To: to, K: p.outK, Units: p.out}, true
	}
	return Transfer{}, false
}

// Received returns the number of the last transfer received from a shard.
func (t transfers) Received(from int) uint64 {
	if p := t[from]; p != nil {
		return p.inK
	}
	return 0
}
