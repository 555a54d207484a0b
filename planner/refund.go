package planner

import (
	"context"
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// Refund is what a red packet came to that has ended, or would if nobody took any more of
// it. Amounts are exact decimals, with all digits that the currency has.
type Refund struct {
	Packets       int64  `json:"packets"`       // that nobody took
	Amount        string `json:"amount"`        // of those
	Currency      string `json:"currency"`      // ISO 4217
	Granted       int64  `json:"granted"`       // packets that were taken
	GrantedAmount string `json:"grantedAmount"` // of those
	Total         string `json:"total"`         // of all packets
}

// RefundOf returns what a sealed sale gives back, nil for one that is not sealed
// or had no red packet.
func RefundOf(sale *ledger.Sale) *Refund {
	sealed := sale.Sealed()
	if sealed == nil {
		return nil
	}
	old, err := declared(sale.Newest())
	if err != nil || old.RedPacket == nil {
		return nil
	}
	return newRefund(*old.RedPacket, old.Stock-sealed.GetUnitsSold(), sealed.GetRefund(), sealed.GetUnitsSold())
}

// newRefund is that of a red packet of which so many packets are left, with an amount in
// minor units, and so many were taken.
func newRefund(r spec.RedPacket, packets, amount, granted int64) *Refund {
	return &Refund{
		Packets: packets, Amount: r.Format(amount), Currency: r.Currency,
		Granted: granted, GrantedAmount: r.Format(r.Total - amount), Total: r.Format(r.Total),
	}
}

// refund is the sum of the amounts that nobody took, in minor units; 0 for a sale
// without a red packet. What was taken and what was not must be all there was.
func refund(sale *ledger.Sale, shards []*ledger.State) (int64, error) {
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
	for _, units := range underWay(shards) { // none, once shards are sealed
		add(units)
	}
	if left+taken != red.Total {
		return 0, fmt.Errorf("%w: packets of %s were taken and %s are left, of %s", ledger.ErrCorrupt,
			packets.Format(taken), packets.Format(left), packets.Format(red.Total))
	}
	return left, nil
}

// underWay lists the units that one shard has sent and the other has not received.
func underWay(shards []*ledger.State) (sent []ledger.Units) {
	for from, s := range shards {
		for _, out := range s.Open() {
			if out.To < len(shards) && shards[out.To].Received(from) < out.K {
				sent = append(sent, out.Units)
			}
		}
	}
	return sent
}

// PacketsActual is what has become of a red packet so far, by its ledger.
type PacketsActual struct {
	Err  error // why that is not known; then nothing else is
	ends Ends
}

// HasPackets reports whether a sale is live whose units are packets of money.
func (a *Actual) HasPackets() bool {
	if !a.Sale.Live() {
		return false
	}
	red, err := ledger.RedPacketOf(a.Sale)
	return red != nil || err != nil
}

// ReadPackets folds the shards of a sale for what the plan of its destroy tells of a red
// packet. It returns nil unless the sale HasPackets.
func ReadPackets(ctx context.Context, logs ledger.Logs, actual *Actual) *PacketsActual {
	if !actual.HasPackets() {
		return nil
	}
	is := new(PacketsActual)
	for i, s := range actual.Shards {
		if s.Err != nil { // and it would be tried for long
			is.Err = fmt.Errorf("%s: %w", shardAddress(i), s.Err)
			return is
		}
	}
	is.ends, is.Err = countPackets(ctx, logs, actual.Sale)
	return is
}

func countPackets(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) (ends Ends, err error) {
	red, err := ledger.RedPacketOf(sale)
	if err != nil {
		return Ends{}, err
	}
	if sale.Applied() == 0 { // it never was on every shard, so nobody served it
		ends.Available = red.Packets()
		ends.Refund = newRefund(red.RedPacket, ends.Available, red.Total, 0)
		return ends, nil
	}
	shards, err := ledger.LoadShards(ctx, logs, sale)
	if err != nil {
		return Ends{}, err
	}
	left, err := refund(sale, shards)
	if err != nil {
		return Ends{}, err
	}
	for _, s := range shards {
		ends.Sold += s.Sold
		ends.Available += s.Available
		ends.Claims += int64(s.Claims())
	}
	for _, units := range underWay(shards) {
		ends.InFlight += units.Count()
	}
	ends.Refund = newRefund(red.RedPacket, ends.Available+ends.InFlight, left, ends.Sold)
	return ends, nil
}

// packets has the plan of a destroy tell of amounts. What lists have given and the ledger
// lacks is worth an amount that only the ledger will tell.
func (p *Plan) packets(actual *Actual, before *Attributes) {
	switch is := actual.Packets; {
	case is == nil:
		return
	case is.Err != nil:
		p.warn("how much of the red packet is left is not known: %s", inShort(is.Err))
	default:
		ends := is.ends
		before.Ends = &ends
	}
	ahead := false
	for i, l := range actual.Lists {
		head := actual.Shards[i].Head
		switch {
		case l.Err != nil:
			p.warn("%s cannot be looked at (node %s: %s): the refund will be less by what it has given and the ledger lacks",
				listAddress(i), l.Node, nodeShort(l.Node, l.Err))
		case head == nil || head.Phase != ledger.PhaseOpen || l.State.Entries == 0:
		case actual.listOn(i) && l.State.Units >= head.Available: // the ledger has its last batches, too
		default:
			ahead = true
		}
	}
	if ahead {
		p.warn("lists have given packets that the ledger may lack: the refund will be less by those")
	}
}
