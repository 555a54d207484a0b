package audit

import (
	"bytes"

	"salectl/backends/ledger"
	"salectl/spec"
)

// Packets is the result of an audit of a red packet. Amounts are exact decimals with all
// digits of the currency.
type Packets struct {
	Currency string `json:"currency"`
	Total    string `json:"total"`   // declared
	Granted  string `json:"granted"` // sum of the packets that users have
	Left     string `json:"left"`    // sum of the packets that no user has
	Packets  int64  `json:"packets"`
	Taken    int64  `json:"taken"` // number of packets that users have
}

// RedPacket compares a red packet with its declaration: all amounts add up to the total, none is
// below the minimum, and the granted and remaining packets add up to the total too. A sealed
// sale's refund must be what remains.
func (r *Recount) RedPacket(sale *ledger.Sale) {
	red, err := ledger.DeclaredRedPacket(sale)
	switch {
	case err != nil:
		r.Problem("what the sale declares cannot be read: %v", err)
		return
	case red == nil:
		return
	}
	r.SameRedPacket(sale, red)
	if err := red.Validate(); err != nil {
		r.Problem("%v", err)
		return
	}
	dealt, sum := red.Deal(), int64(0)
	for unit := int64(1); unit <= red.Packets; unit++ {
		amount := dealt.Amount(unit)
		if amount < red.Min {
			r.Problem("packet %d is %s, less than %s", unit, red.Format(amount), red.Format(red.Min))
		}
		sum += amount
	}
	if sum != red.Total {
		r.Problem("the packets add up to %s, but %s was declared", red.Format(sum), red.Format(red.Total))
	}
	granted, left := grantedAndLeft(sale, r.books)
	found := Packets{Currency: red.Currency, Total: red.Format(red.Total), Packets: red.Packets, Taken: granted.count}
	found.Granted, found.Left = red.Format(granted.worth(dealt)), red.Format(left.worth(dealt))
	r.Packets = &found
	if got := granted.worth(dealt) + left.worth(dealt); got != red.Total || granted.count+left.count != red.Packets {
		r.Problem("%d packets of %s are granted and %d of %s are left, which is not %d of %s", granted.count, found.Granted,
			left.count, found.Left, red.Packets, found.Total)
	}
	if end := sale.Sealed(); end != nil && end.GetRefund() != left.worth(dealt) {
		r.Problem("the sale was sealed with a refund of %s, but %s is left", red.Format(end.GetRefund()), found.Left)
	}
}

// SameRedPacket checks that later generations do not change the red packet.
func (r *Recount) SameRedPacket(sale *ledger.Sale, red *ledger.RedPacket) {
	for g := uint64(2); g <= sale.Generation(); g++ {
		p, _ := sale.Planned(g)
		now, err := spec.FromJSON(p.GetSpec())
		switch {
		case err != nil:
			r.Problem("what generation %d declares cannot be read: %v", g, err)
		case now.RedPacket == nil || *now.RedPacket != red.RedPacket || now.Stock != red.Packets:
			r.Problem("generation %d declares another red packet than was dealt", g)
		case len(p.GetSeed()) > 0 && !bytes.Equal(p.GetSeed(), red.Seed):
			r.Problem("generation %d has a seed of its own", g)
		}
	}
}

// multiset has the packets of several places, each as often as it occurs.
type multiset struct {
	places []ledger.Units
	count  int64
}

func (h *multiset) add(units ledger.Units) {
	h.places = append(h.places, units)
	h.count += units.Count()
}

// worth returns the sum of the packets' amounts. A unit that was never dealt counts 0.
func (h *multiset) worth(dealt *spec.Packets) (sum int64) {
	for _, units := range h.places {
		for _, r := range units {
			for unit := r.First; unit < r.End() && unit <= spec.MaxRedisStock; unit++ {
				sum += dealt.Amount(unit)
			}
		}
	}
	return sum
}

// grantedAndLeft returns the granted and the remaining units by the books. Those of a shard that
// has applied no generation yet remain.
func grantedAndLeft(sale *ledger.Sale, books []*Book) (granted, left multiset) {
	for _, b := range books {
		granted.add(b.sold)
		granted.add(b.held)
		left.add(b.free)
		for to, x := range b.peers {
			if to < len(books) {
				for _, units := range x.sent[min(len(books[to].peers.with(b.shard).received), len(x.sent)):] {
					left.add(units)
				}
			}
		}
		if len(b.generations) == 0 {
			units, err := ledger.UnitsOf(sale.ShardGeneration(1, b.shard).GetAdd())
			if err == nil { // otherwise place reports it
				left.add(units)
			}
		}
	}
	return granted, left
}
