package export

import (
	"salectl/backends/ledger"
	"salectl/spec"
)

// Packets is the part of the header that says what a red packet came to,
// and all that its amounts follow from: who has spec.RedPacket.Deal can check
// every line of the export by the export alone. Amounts are exact decimals with
// all digits that the currency has.
type Packets struct {
	Currency   string      `json:"currency"` // ISO 4217
	Total      string      `json:"total"`
	Granted    string      `json:"granted"` // in packets that somebody has
	Refund     string      `json:"refund"`  // the rest
	Split      spec.Split  `json:"split"`
	Min        string      `json:"min"`            // of one packet
	Packets    int64       `json:"packets"`        // their number
	Commitment ledger.Hash `json:"commitment"`     // to the seed, and to what amounts follow from besides
	Seed       []byte      `json:"seed,omitempty"` // base64, 32 bytes; left out while a packet may still be given
}

// redPacket is a red packet as it was dealt; nil: units are no packets.
type redPacket struct {
	*ledger.RedPacket
	dealt *spec.Packets // nil: in an export without the seed
}

// packetsOf is what the units of a sale are worth.
func packetsOf(sale *ledger.Sale) (*redPacket, error) {
	red, err := ledger.RedPacketOf(sale)
	if red == nil {
		return nil, err
	}
	return &redPacket{red, red.Deal()}, nil
}

// header is the part of the header, for shards as they are folded. Where nothing is dealt it
// does not know what was granted.
func (p *redPacket) header(shards []*ledger.State) *Packets {
	if p == nil {
		return nil
	}
	granted, seed := int64(0), p.Seed()
	for _, s := range shards {
		if !givesNothing(s) {
			seed = nil // who has it knows what each packet holds that nobody has yet
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

// amounts is what a claim's units are worth, in their order.
func (p *redPacket) amounts(units []int64) (all []string) {
	if p == nil || p.dealt == nil {
		return nil
	}
	for _, unit := range units {
		all = append(all, p.dealt.Text(unit))
	}
	return all
}

// givesNothing reports whether the shard gives nothing to anybody any more, whatever comes.
func givesNothing(s *ledger.State) bool { return s.Sealed() || s.Phase == ledger.PhaseClosed }

// all reports whether shards have as many units as there are packets. It adds up limits and not
// counts: a transfer that was received and not acknowledged yet is in the counts of two shards.
func (p *redPacket) all(shards []*ledger.State) bool {
	limit := int64(0)
	for _, s := range shards {
		limit += s.Limit
	}
	return p == nil || p.Packets() == limit
}
