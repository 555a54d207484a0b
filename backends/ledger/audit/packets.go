package audit

import (
	"bytes"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
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
// below the minimum, and the granted and remaining packets add up to the total too. The refund of
// a seal that precedes the reads of the shards must be what remains; nil: there is none.
func (r *Recount) RedPacket(sale *ledger.Sale, sealed *pb.Sealed) {
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
	remaining := slices.Clone(r.left) // with the units of shards that have applied no generation yet
	for _, b := range r.Books {
		if len(b.generations) == 0 {
			if units, err := ledger.UnitsOf(sale.ShardGeneration(1, b.shard).GetAdd()); err == nil {
				remaining = append(remaining, units)
			}
		}
	}
	taken, granted := worth(dealt, r.granted)
	rest, left := worth(dealt, remaining)
	found := Packets{
		Currency: red.Currency, Total: red.Format(red.Total), Packets: red.Packets, Taken: taken,
		Granted: red.Format(granted), Left: red.Format(left),
	}
	r.Packets = &found
	if granted+left != red.Total || taken+rest != red.Packets {
		r.Problem("%d packets of %s are granted and %d of %s are left, which is not %d of %s", taken, found.Granted,
			rest, found.Left, red.Packets, found.Total)
	}
	if sealed != nil && sealed.GetRefund() != left {
		r.Problem("the sale was sealed with a refund of %s, but %s is left", red.Format(sealed.GetRefund()), found.Left)
	}
}

// SameRedPacket checks that later generations do not change the red packet.
func (r *Recount) SameRedPacket(sale *ledger.Sale, red *ledger.RedPacket) {
	for g := uint64(2); g <= sale.Generation(); g++ {
		p := sale.Planned(g)
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

// worth returns the number of packets in places, and the sum of their amounts. A packet in two places
// counts twice. A unit that was never dealt counts 0.
func worth(dealt *spec.Packets, places []ledger.Units) (count, sum int64) {
	for _, units := range places {
		count += units.Count()
		for _, r := range units {
			for unit := r.First; unit < r.End() && unit <= spec.MaxRedisStock; unit++ {
				sum += dealt.Amount(unit)
			}
		}
	}
	return count, sum
}
