package ledger

import (
	"crypto/sha256"
	"fmt"

	"salectl/spec"
)

// PacketsStatus is what everybody may know of a red packet while it is given out.
type PacketsStatus struct {
	Currency   string     `json:"currency"` // ISO 4217
	Total      string     `json:"total"`    // an exact decimal
	Packets    int64      `json:"packets"`
	Split      spec.Split `json:"split"`
	Min        string     `json:"min"` // of one packet
	Commitment Hash       `json:"commitment"`
}

// Status is what everybody may know of it.
func (r *RedPacket) Status() *PacketsStatus {
	return &PacketsStatus{
		Currency: r.Currency, Total: r.Format(r.Total), Packets: r.count, Split: r.Split, Min: r.Format(r.Min), Commitment: r.Commitment(),
	}
}

// Commitment fixes all that the amounts follow from, and tells nothing of the seed. An export
// of the sale has the seed once no packet can be given any more: whoever noted the commitment
// before can tell by it that no amount was chosen since.
//
// It is the SHA-256 of seven lines and the seed's 32 bytes. The lines are "salectl red packet
// v1", the uid of the run, and currency, total, packets, split and min as ExportPackets has
// them.
func (r *RedPacket) Commitment() Hash {
	h := sha256.New()
	fmt.Fprintf(h, "salectl red packet v1\n%s\n%s\n%s\n%d\n%s\n%s\n", r.uid, r.Currency, r.Format(r.Total), r.count, r.Split, r.Format(r.Min))
	h.Write(r.seed)
	return Hash(h.Sum(nil))
}

// PacketsStatusOf is what everybody may know of the red packet of a sale's present run; nil:
// its units are no packets, or the sale's log does not say properly what they are, which an
// audit tells.
func PacketsStatusOf(sale *Sale) *PacketsStatus {
	red, err := RedPacketOf(sale)
	if red == nil || err != nil {
		return nil
	}
	return red.Status()
}

// over reports whether the shard gives nothing to anybody any more, whatever comes.
func (s *State) over() bool { return s.Sealed() || s.Phase == PhaseClosed }
