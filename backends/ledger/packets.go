package ledger

import (
	"crypto/sha256"
	"fmt"

	"salectl/spec"
)

// RedPacket is the red packet of a run, with all that determines its amounts.
type RedPacket struct {
	spec.RedPacket
	Packets int64  // number of packets: units 1 to Packets
	Seed    []byte // of the amounts, 32 bytes once it is validated; secret while a packet may still be given
	uid     string // of the run
}

// RedPacketOf returns the red packet of a sale's present run, nil if its units are
// not packets. ErrCorrupt: no sale can have declared what the sale's log has.
func RedPacketOf(sale *Sale) (*RedPacket, error) {
	red, err := DeclaredRedPacket(sale)
	if err == nil && red != nil {
		err = red.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return red, nil
}

// DeclaredRedPacket is like RedPacketOf without Validate, for callers that report what is invalid.
func DeclaredRedPacket(sale *Sale) (*RedPacket, error) {
	first := sale.Planned(1)
	if len(first.GetSpec()) == 0 && len(first.GetSeed()) == 0 {
		return nil, nil // it declares nothing
	}
	declared, err := spec.FromJSON(first.GetSpec())
	if err != nil {
		return nil, fmt.Errorf("generation 1: %w", err)
	}
	if declared.RedPacket == nil {
		return nil, nil
	}
	return &RedPacket{*declared.RedPacket, declared.Stock, first.GetSeed(), sale.UID()}, nil
}

// Validate returns an error if the packets cannot be dealt: their data may come from a file
// that was altered.
func (r *RedPacket) Validate() error {
	switch n := len([32]byte{}); {
	case len(r.Seed) != n:
		return fmt.Errorf("the red packet's seed has %d bytes, not %d", len(r.Seed), n)
	case r.Packets < 1 || r.Packets > spec.MaxRedisStock:
		return fmt.Errorf("a red packet of %d packets: there are 1 to %d", r.Packets, spec.MaxRedisStock)
	}
	return r.Check(r.Packets)
}

// Deal deals the packets, which must be valid.
func (r *RedPacket) Deal() *spec.Packets { return r.RedPacket.Deal(r.Packets, [32]byte(r.Seed)) }

// PacketsStatus is the public status of a red packet while it is given out.
type PacketsStatus struct {
	Currency   string     `json:"currency"` // ISO 4217
	Total      string     `json:"total"`    // an exact decimal
	Packets    int64      `json:"packets"`
	Split      spec.Split `json:"split"`
	Min        string     `json:"min"`        // of one packet
	Commitment Hash       `json:"commitment"` // to the seed, and to all else that determines the amounts
}

// Commitment commits to all that determines the amounts, and reveals nothing of the seed. An
// export of the sale has the seed once no packet can be given any more. A reader who noted the
// commitment before can then verify that no amount was chosen since.
//
// It is the SHA-256 of seven lines and the seed's 32 bytes. The lines are "salectl red packet
// v1", the uid of the run, and currency, total, packets, split and min in the form of
// export.Packets.
func (r *RedPacket) Commitment() Hash {
	h := sha256.New()
	fmt.Fprintf(h, "salectl red packet v1\n%s\n%s\n%s\n%d\n%s\n%s\n", r.uid, r.Currency, r.Format(r.Total), r.Packets, r.Split, r.Format(r.Min))
	h.Write(r.Seed)
	return Hash(h.Sum(nil))
}

// Status returns the public status of the red packet.
func (r *RedPacket) Status() PacketsStatus {
	return PacketsStatus{
		Currency: r.Currency, Total: r.Format(r.Total), Packets: r.Packets, Split: r.Split, Min: r.Format(r.Min), Commitment: r.Commitment(),
	}
}

// PacketsStatusOf returns the public status of the red packet of a sale's present run; nil: its
// units are not packets, or the sale's log has no valid declaration of them, which an audit
// reports.
func PacketsStatusOf(sale *Sale) *PacketsStatus {
	red, err := RedPacketOf(sale)
	if red == nil || err != nil {
		return nil
	}
	status := red.Status()
	return &status
}
