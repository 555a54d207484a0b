package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// Hash is the SHA-256 of a slot's stored bytes.
type Hash = draw.Digest

// Head is the small cell beside a log that every append replaces. The next append compares
// its bytes, which contain the slot and the hash of the entry stored with it, so no two
// heads of a log are equal. Its totals are for people and overviews; no decision to sell
// relies on them.
type Head struct {
	Slot uint64 `json:"slot"` // of the last entry
	Hash Hash   `json:"hash"` // of the last entry
	// TimeUs is the time of the last entry, by its writer's clock, in microseconds
	// since 1970.
	TimeUs int64 `json:"timeUs,omitempty"`
	Totals
}

// Ahead returns by how much the log's time is ahead of now. wrong reports whether that is
// more than MaxAhead: a writer's clock was wrong.
func (h Head) Ahead(now time.Time) (by time.Duration, wrong bool) {
	by = time.UnixMicro(h.TimeUs).Sub(now)
	return by, by > MaxAhead
}

// Totals are the numbers of a log after its last entry. A sale's own log uses only
// Generation and Phase.
type Totals struct {
	Generation uint64 `json:"generation"`
	Epoch      uint64 `json:"epoch"`
	Owner      string `json:"owner"` // address where the owner answers claims
	Phase      string `json:"phase"`
	Limit      int64  `json:"limit"` // units added minus removed and retired
	Available  int64  `json:"available"`
	Held       int64  `json:"held"`
	Sold       int64  `json:"sold"`
	InFlight   int64  `json:"inFlight"` // sent to other shards and not acknowledged yet
	// Fill is that of the shard's list on its node; 0: the shard has no list.
	Fill uint64 `json:"fill,omitempty"`
	// Entries is the number of entries of a draw, including those awarded since.
	Entries int64 `json:"entries,omitempty"`
	Outcomes
}

// Outcomes are the numbers of claims by outcome, other than claims just sold. All but
// OpenHolds only grow: each op that changed something counts once. All are 0 in a sale
// without payment and refunds.
type Outcomes struct {
	OpenHolds  int64 `json:"openHolds,omitempty"` // held now
	Confirmed  int64 `json:"confirmed,omitempty"`
	Expired    int64 `json:"expired,omitempty"`
	Cancelled  int64 `json:"cancelled,omitempty"`
	Refunded   int64 `json:"refunded,omitempty"`
	Resold     int64 `json:"resold,omitempty"`     // after they had expired
	RefundsDue int64 `json:"refundsDue,omitempty"` // payments that bought nothing or whose purchase was refunded
	Returned   int64 `json:"returned,omitempty"`   // of RefundsDue: paid back
}

// Add adds the outcomes of another shard.
func (o *Outcomes) Add(other Outcomes) {
	o.OpenHolds += other.OpenHolds
	o.Confirmed += other.Confirmed
	o.Expired += other.Expired
	o.Cancelled += other.Cancelled
	o.Refunded += other.Refunded
	o.Resold += other.Resold
	o.RefundsDue += other.RefundsDue
	o.Returned += other.Returned
}

// Owed returns the number of payments that are still to be paid back.
func (o Outcomes) Owed() int64 { return o.RefundsDue - o.Returned }

// Encode returns the head's stored form: one line of JSON.
func (h Head) Encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic(err) // plain fields cannot fail to encode
	}
	return b
}

// ParseHead parses the stored form of a head.
func ParseHead(b []byte) (Head, error) {
	var h Head
	if err := json.Unmarshal(b, &h); err != nil {
		return Head{}, fmt.Errorf("a log's head is no JSON of ours: %w", err)
	}
	return h, nil
}

// HeadSlot returns the slot of a head in its stored form, of which it is the first
// field. A store that compares heads and cannot also compare slots need not parse
// the rest.
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

// The methods below count the effect of an op on the totals, for a state and for a draft, which
// needs the head before its commit is appended.

func (t *Totals) claim(n int64, held bool) {
	t.Available -= n
	if held {
		t.Held += n
		t.OpenHolds++
	} else {
		t.Sold += n
	}
}

// settle counts the effect of an op on a claim of n units.
func (t *Totals) settle(n int64, op *pb.Settle) {
	switch op.GetHow() {
	case pb.Settle_CONFIRM:
		t.ended(n)
		t.Sold += n
		t.Confirmed++
	case pb.Settle_CANCEL:
		t.ended(n)
		t.Available += n
		t.Cancelled++
	case pb.Settle_EXPIRE:
		t.ended(n)
		t.Available += n
		t.Expired++
	case pb.Settle_REFUND:
		t.Sold -= n
		if op.GetRetire() {
			t.Limit -= n
		} else {
			t.Available += n
		}
		t.Refunded++
	case pb.Settle_RESELL:
		t.Available -= n
		t.Sold += n
		t.Resold++
	case pb.Settle_AWARD:
		t.claim(n, op.GetHeldUntilUs() != 0)
	case pb.Settle_RETURNED:
		t.Returned++
	}
	if owes(op) {
		t.RefundsDue++
	}
}

func (t *Totals) ended(n int64) { t.Held -= n; t.OpenHolds-- }
