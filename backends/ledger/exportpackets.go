package ledger

import (
	"fmt"
	"strings"

	"salectl/spec"
)

// ExportPackets is the part of the header that says what a red packet came to,
// and all that its amounts follow from: who has spec.RedPacket.Deal can check
// every line of the export by the export alone. Amounts are exact decimals with
// all digits that the currency has.
type ExportPackets struct {
	Currency   string     `json:"currency"` // ISO 4217
	Total      string     `json:"total"`
	Granted    string     `json:"granted"` // in packets that somebody has
	Refund     string     `json:"refund"`  // the rest
	Split      spec.Split `json:"split"`
	Min        string     `json:"min"`            // of one packet
	Packets    int64      `json:"packets"`        // their number
	Commitment Hash       `json:"commitment"`     // to the seed, and to what amounts follow from besides
	Seed       []byte     `json:"seed,omitempty"` // base64, 32 bytes; left out while a packet may still be given
}

// exportedPackets is a red packet as it was dealt; nil: units are no packets.
type exportedPackets struct {
	*RedPacket
	dealt *spec.Packets // nil: in an export without the seed
}

// packetsOf is what the units of a sale are worth.
func packetsOf(sale *Sale) (*exportedPackets, error) {
	red, err := RedPacketOf(sale)
	if red == nil {
		return nil, err
	}
	return &exportedPackets{red, red.Deal()}, nil
}

// header is the part of the header, for shards as they are folded.
func (p *exportedPackets) header(shards []*State) *ExportPackets {
	if p == nil {
		return nil
	}
	granted, seed := int64(0), p.seed
	for _, s := range shards {
		if !s.over() {
			seed = nil // who has it knows what each packet holds that nobody has yet
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.State == StateSold || c.State == StateHeld {
				granted += p.dealt.Sum(c.Units...)
			}
		}
	}
	return &ExportPackets{
		Currency: p.Currency, Total: p.Format(p.Total), Granted: p.Format(granted), Refund: p.Format(p.Total - granted),
		Split: p.Split, Min: p.Format(p.Min), Packets: p.count, Commitment: p.Commitment(), Seed: seed,
	}
}

// amounts is what a claim's units are worth, in their order.
func (p *exportedPackets) amounts(units []int64) (all []string) {
	if p == nil || p.dealt == nil {
		return nil
	}
	for _, unit := range units {
		all = append(all, p.dealt.Text(unit))
	}
	return all
}

// all says whether there are as many units as packets.
func (p *exportedPackets) all(c ExportCounts) bool {
	return p == nil || p.count == c.Sold+c.Held+c.Available+c.InFlight
}

// read is header backwards. What it is given may be anything.
func (h *ExportPackets) read(uid string) (*exportedPackets, error) {
	if h == nil {
		return nil, nil
	}
	p, err := h.readTerms(uid)
	if err == nil {
		if err = p.check(); err != nil {
			err = fmt.Errorf("the export's header: %w: %w", err, ErrCorrupt)
		}
	}
	if err != nil {
		return nil, err
	}
	return &exportedPackets{p.RedPacket, p.Deal()}, nil
}

// readTerms is read where there may be no seed. Then nothing is dealt.
func (h *ExportPackets) readTerms(uid string) (*exportedPackets, error) {
	_, decimals, _ := strings.Cut(h.Total, ".")
	red := &RedPacket{spec.RedPacket{Currency: h.Currency, Scale: len(decimals), Split: h.Split}, uid, h.Packets, h.Seed}
	for _, amount := range []struct {
		text  string
		minor *int64
	}{{h.Total, &red.Total}, {h.Min, &red.Min}} {
		var ok bool
		if *amount.minor, ok = red.Parse(amount.text); !ok {
			return nil, fmt.Errorf("the export's red packet has an amount of %q: %w", amount.text, ErrCorrupt)
		}
	}
	return &exportedPackets{red, nil}, nil
}
