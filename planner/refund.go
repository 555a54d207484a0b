package planner

import (
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// Refund is the result of a red packet that has ended, or would have if no more of it were
// taken. Amounts are exact decimals with all digits of the currency.
type Refund struct {
	Packets       int64  `json:"packets"`       // packets that were not taken
	Amount        string `json:"amount"`        // sum of those packets
	Currency      string `json:"currency"`      // ISO 4217
	Granted       int64  `json:"granted"`       // packets that were taken
	GrantedAmount string `json:"grantedAmount"` // sum of those packets
	Total         string `json:"total"`         // sum of all packets
}

// RefundOf returns the refund of a sealed sale, nil if it is not sealed or had no red packet.
func RefundOf(sale *ledger.Sale) *Refund {
	sealed := sale.Sealed()
	if sealed == nil {
		return nil
	}
	old, err := Declared(sale.Newest())
	if err != nil || old.RedPacket == nil {
		return nil
	}
	return newRefund(*old.RedPacket, old.Stock-sealed.GetUnitsSold(), sealed.GetRefund(), sealed.GetUnitsSold())
}

// newRefund returns the refund of a red packet with the numbers of packets left and granted,
// and the amount left in minor units.
func newRefund(r spec.RedPacket, packets, amount, granted int64) *Refund {
	return &Refund{
		Packets: packets, Amount: r.Format(amount), Currency: r.Currency,
		Granted: granted, GrantedAmount: r.Format(r.Total - amount), Total: r.Format(r.Total),
	}
}

// Untaken returns the sum of the packets not taken in minor units; 0 for a sale without a red
// packet. The packets taken and left must add up to the total.
func Untaken(sale *ledger.Sale, shards []*ledger.State) (int64, error) {
	red, err := ledger.RedPacketOf(sale)
	if red == nil || err != nil {
		return 0, err
	}
	packets := red.Deal()
	var left, taken int64
	add := func(units ledger.Units) {
		for _, r := range units {
			for unit := r.First; unit < r.First+r.Count; unit++ {
				left += packets.Amount(unit)
			}
		}
	}
	for _, s := range shards {
		add(s.AvailableUnits())
		for i := range s.Claims() {
			taken += packets.Sum(s.Claim(i).Units...)
		}
	}
	for _, units := range inTransit(shards) { // empty once shards are sealed
		add(units)
	}
	if left+taken != red.Total {
		return 0, fmt.Errorf("%w: packets of %s were taken and %s are left, of %s", ledger.ErrCorrupt,
			packets.Format(taken), packets.Format(left), packets.Format(red.Total))
	}
	return left, nil
}

// inTransit lists the units in transit: sent and not received.
func inTransit(shards []*ledger.State) (sent []ledger.Units) {
	for from, s := range shards {
		for _, out := range s.Open() {
			if out.To < len(shards) && shards[out.To].Received(from) < out.K {
				sent = append(sent, out.Units)
			}
		}
	}
	return sent
}

// hasPackets reports whether the units of the sale are packets of money.
func (a *Actual) hasPackets() bool {
	red, err := ledger.RedPacketOf(a.Sale)
	return red != nil || err != nil
}

// endsOfPackets returns the counts and the refund of a red packet by its ledger.
func (a *Actual) endsOfPackets() (*Ends, error) {
	red, err := ledger.RedPacketOf(a.Sale)
	switch {
	case a.Ledger.Err != nil:
		return nil, a.Ledger.Err
	case err != nil:
		return nil, err
	case a.Sale.Applied() == 0: // it was never on every shard, so no process served it
		return &Ends{Available: red.Packets, Refund: newRefund(red.RedPacket, red.Packets, red.Total, 0)}, nil
	}
	left, err := Untaken(a.Sale, a.Ledger.Shards)
	if err != nil {
		return nil, err
	}
	ends := new(Ends)
	for _, s := range a.Ledger.Shards {
		ends.Sold += s.Sold
		ends.Available += s.Available
		ends.Claims += int64(s.Claims())
	}
	for _, units := range inTransit(a.Ledger.Shards) {
		ends.InFlight += units.Count()
	}
	ends.Refund = newRefund(red.RedPacket, ends.Available+ends.InFlight, left, ends.Sold)
	return ends, nil
}

// packets adds the amounts to the plan of a destroy. The amount of packets that lists have
// given and the ledger lacks is known only from the ledger.
func (p *planning) packets(before *Attributes) {
	if p.actual.Ledger == nil || !p.actual.hasPackets() {
		return
	}
	if ends, err := p.actual.endsOfPackets(); err != nil {
		p.warn("the rest of the red packet is unknown: %s", ShortError(err))
	} else {
		before.Ends = ends
	}
	ahead := false
	for i, l := range p.actual.Lists {
		head := p.actual.Shards[i].Head
		switch {
		case l.Err != nil:
			p.warn("%s cannot be read (node %s: %s): grabs that the ledger lacks will reduce the refund",
				ListAddress(i), l.Node, ShortNodeError(l.Err))
		case head == nil || head.Phase != ledger.PhaseOpen || l.State.Entries == 0:
		case p.actual.listOn(i) && l.State.Units >= head.Available: // the ledger has the last batches, too
		default:
			ahead = true
		}
	}
	if ahead {
		p.warn("the ledger may lack packets that lists have given: these will reduce the refund")
	}
}
