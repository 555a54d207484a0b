package export

import (
	"slices"

	"salectl/backends/ledger"
)

// Packets is the part of the header with the result of a red packet and all that determines its
// amounts: with spec.RedPacket.Deal every line of the export can be checked by the export alone.
// Amounts are exact decimals with all digits of the currency.
type Packets struct {
	ledger.PacketsStatus
	Granted string `json:"granted"`        // sum of the packets that users have
	Refund  string `json:"refund"`         // the rest
	Seed    []byte `json:"seed,omitempty"` // base64, 32 bytes; left out while a packet may still be given
}

// packetsHeader returns the part of the header; nil: the units are not packets. If x.dealt is nil, the
// amount granted is unknown and Granted is 0.
func (x *contents) packetsHeader() *Packets {
	p := x.packets
	if p == nil {
		return nil
	}
	granted := int64(0)
	if x.dealt != nil {
		for _, c := range claims(x.shards, Filter{}) {
			if c.State == ledger.StateSold || c.State == ledger.StateHeld {
				granted += x.dealt.Sum(c.Units...)
			}
		}
	}
	h := &Packets{PacketsStatus: p.Status(), Granted: p.Format(granted), Refund: p.Format(p.Total - granted)}
	if over(x.shards) { // before, the seed reveals the amounts of packets that no user has yet
		h.Seed = p.Seed
	}
	return h
}

// lacksSeed reports whether the units are packets whose amounts are unknown, since the file lacks their
// seed.
func (x *contents) lacksSeed() bool { return x.packets != nil && x.dealt == nil }

// amounts returns the amounts of a claim's units, in their order; nil if they are unknown.
func (x *contents) amounts(units []int64) (all []string) {
	if x.dealt == nil {
		return nil
	}
	for _, unit := range units {
		all = append(all, x.dealt.Text(unit))
	}
	return all
}

// over reports whether no shard can assign units any more.
func over(shards []*ledger.State) bool {
	return !slices.ContainsFunc(shards, func(s *ledger.State) bool { return !s.Sealed() && s.Phase != ledger.PhaseClosed })
}
