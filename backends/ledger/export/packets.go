package export

import (
	"salectl/backends/ledger"
	"salectl/spec"
)

// Packets is the part of the header with the result of a red packet and all that determines its
// amounts: with spec.RedPacket.Deal every line of the export can be checked by the export alone.
// Amounts are exact decimals with all digits of the currency.
type Packets struct {
	Currency   string      `json:"currency"` // ISO 4217
	Total      string      `json:"total"`
	Granted    string      `json:"granted"` // sum of the packets that users have
	Refund     string      `json:"refund"`  // the rest
	Split      spec.Split  `json:"split"`
	Min        string      `json:"min"`            // of one packet
	Packets    int64       `json:"packets"`        // their number
	Commitment ledger.Hash `json:"commitment"`     // to the seed, and to all else that determines the amounts
	Seed       []byte      `json:"seed,omitempty"` // base64, 32 bytes; left out while a packet may still be given
}

// redPacket is a red packet with its packets as dealt; nil: the units are not packets.
type redPacket struct {
	*ledger.RedPacket
	dealt *spec.Packets // nil: in an export without the seed
}

// packetsOf returns the red packet of a sale, nil if its units are not packets.
func packetsOf(sale *ledger.Sale) (*redPacket, error) {
	red, err := ledger.RedPacketOf(sale)
	if red == nil {
		return nil, err
	}
	return &redPacket{red, red.Deal()}, nil
}

// header returns the part of the header for shards in their folded state. If p.dealt is nil, the
// amount granted is unknown and Granted is 0.
func (p *redPacket) header(shards []*ledger.State) *Packets {
	if p == nil {
		return nil
	}
	granted, seed := int64(0), p.Seed()
	for _, s := range shards {
		if !givesNothing(s) {
			seed = nil // it reveals the amounts of packets that no user has yet
		}
		for i := range s.Claims() {
			if c := s.Claim(i); p.dealt != nil && (c.State == ledger.StateSold || c.State == ledger.StateHeld) {
				granted += p.dealt.Sum(c.Units...)
			}
		}
	}
	return &Packets{
		Currency: p.Currency, Total: p.Format(p.Total), Granted: p.Format(granted), Refund: p.Format(p.Total - granted),
		Split: p.Split, Min: p.Format(p.Min), Packets: p.Packets(), Commitment: p.Commitment(), Seed: seed,
	}
}

// amounts returns the amounts of a claim's units, in their order.
func (p *redPacket) amounts(units []int64) (all []string) {
	if p == nil || p.dealt == nil {
		return nil
	}
	for _, unit := range units {
		all = append(all, p.dealt.Text(unit))
	}
	return all
}

// givesNothing reports whether the shard can give no units any more.
func givesNothing(s *ledger.State) bool { return s.Sealed() || s.Phase == ledger.PhaseClosed }

// all reports whether the shards have as many units as there are packets. It adds limits rather
// than counts: a transfer received and not yet acknowledged is in the counts of two shards.
func (p *redPacket) all(shards []*ledger.State) bool {
	limit := int64(0)
	for _, s := range shards {
		limit += s.Limit
	}
	return p == nil || p.Packets() == limit
}
