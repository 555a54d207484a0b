package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"salectl/draw"
)

// Hash is the SHA-256 of a slot's stored bytes.
type Hash = draw.Digest

// Head is the small cell beside a log that every append replaces. What counts
// is its bytes, which the next append compares: they name the slot and the hash
// of the entry that they came with, so no two heads of a log are alike. Its
// numbers are for people and for overviews; no decision to sell trusts them.
type Head struct {
	Slot uint64 `json:"slot"` // of the last entry
	Hash Hash   `json:"hash"` // of the last entry
	// TimeUs is when the last entry was appended, by its writer's clock, in
	// microseconds since 1970.
	TimeUs int64 `json:"timeUs,omitempty"`
	Totals
}

// Ahead returns how far the log's time is ahead of a clock, and whether that is more
// than clocks may differ: somebody has appended to it whose clock was wrong.
func (h Head) Ahead(now time.Time) (by time.Duration, wrong bool) {
	by = time.UnixMicro(h.TimeUs).Sub(now)
	return by, by > MaxAhead
}

// Totals are the numbers of a log after its last entry. A sale's own log uses
// Generation and Phase alone.
type Totals struct {
	Generation uint64 `json:"generation"`
	Epoch      uint64 `json:"epoch"`
	Owner      string `json:"owner"` // where the owner answers claims
	Phase      string `json:"phase"`
	Limit      int64  `json:"limit"` // units added minus removed and retired
	Available  int64  `json:"available"`
	Held       int64  `json:"held"`
	Sold       int64  `json:"sold"`
	InFlight   int64  `json:"inFlight"` // sent to other shards and not acknowledged yet
	// Fill is that of the shard's list on its node, 0 for a shard that has none.
	Fill uint64 `json:"fill,omitempty"`
	// Entries are those of a draw, with those that were awarded since.
	Entries int64 `json:"entries,omitempty"`
	Outcomes
}

// Outcomes count, in claims, what has become of those that were not just sold. All but
// OpenHolds only ever grow: each op that changed something counts once. All are 0 in
// a sale without payment and refunds.
type Outcomes struct {
	OpenHolds  int64 `json:"openHolds,omitempty"` // held now
	Confirmed  int64 `json:"confirmed,omitempty"`
	Expired    int64 `json:"expired,omitempty"`
	Cancelled  int64 `json:"cancelled,omitempty"`
	Refunded   int64 `json:"refunded,omitempty"`
	Resold     int64 `json:"resold,omitempty"`     // after they had expired
	RefundsDue int64 `json:"refundsDue,omitempty"` // payments that bought nothing
}

// Add adds those of another shard.
func (o *Outcomes) Add(other Outcomes) {
	o.OpenHolds += other.OpenHolds
	o.Confirmed += other.Confirmed
	o.Expired += other.Expired
	o.Cancelled += other.Cancelled
	o.Refunded += other.Refunded
	o.Resold += other.Resold
	o.RefundsDue += other.RefundsDue
}

// Encode returns the head's stored form: one line of JSON.
func (h Head) Encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic(err) // plain fields cannot fail to encode
	}
	return b
}

// ParseHead reads a head's stored form.
func ParseHead(b []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(b, &h); err != nil {
		return Head{}, fmt.Errorf("a log's head is no JSON of ours: %w", err)
	}
	return h, nil
}

// HeadSlot returns the slot that a head names in its stored form, of which it is
// the first field: a store that compares heads and cannot also compare slots
// need not read the rest.
func HeadSlot(head []byte) (slot uint64, ok bool) {
	digits, ok := bytes.CutPrefix(head, []byte(`{"slot":`))
	end := bytes.IndexAny(digits, ",}")
	if !ok || end < 0 {
		return 0, false
	}
	slot, err := strconv.ParseUint(string(digits[:end]), 10, 64)
	return slot, err == nil
}

func sum(entry []byte) Hash { return sha256.Sum256(entry) }
