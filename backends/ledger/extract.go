package ledger

import (
	"bufio"
	"context"
	"io"
	"slices"
)

// KindExtract is what an extract's header says in its field kind.
const KindExtract = "extract"

// stateRefundDue is what a ClaimFilter takes beside the states of claims: a payment for the
// claim is owed back, whatever its state.
const stateRefundDue = "refund_due"

// ClaimStates are all that a ClaimFilter takes as a state.
func ClaimStates() []string {
	return []string{
		StateHeld.String(), StateSold.String(), StateExpired.String(), StateCancelled.String(), StateRefunded.String(), StateEntered.String(), stateRefundDue,
	}
}

// ClaimFilter says which claims somebody looks for: those that all its fields match that
// are set.
type ClaimFilter struct {
	User  string `json:"user,omitempty"`
	Unit  int64  `json:"unit,omitempty"`  // the claim has it, or had it last; 0: any
	State string `json:"state,omitempty"` // one of ClaimStates
}

// Set reports whether the filter leaves anything out.
func (f ClaimFilter) Set() bool { return f != ClaimFilter{} }

func (f ClaimFilter) matches(c Claim) bool {
	switch {
	case f.User != "" && c.User != f.User,
		f.Unit != 0 && !slices.Contains(c.Units, f.Unit):
		return false
	case f.State == stateRefundDue:
		return len(c.RefundsDue) > 0
	}
	return f.State == "" || c.State.String() == f.State
}

// ExtractHeader is the first line of an extract: some of a sale's claims, each in the
// line that it has in an export. It is no export, and nobody takes it for one: it is of
// another kind, has no sale and uid where an ExportHeader has them, and none of the
// commits that would prove it.
type ExtractHeader struct {
	Format int         `json:"format"` // ExportFormat
	Kind   string      `json:"kind"`   // KindExtract
	Of     ExtractOf   `json:"of"`
	Filter ClaimFilter `json:"filter"`
	Claims int         `json:"claims"` // how many lines follow
}

// ExtractOf is the sale that an extract is of.
type ExtractOf struct {
	Sale string `json:"sale"`
	UID  string `json:"uid"`
}

// FindClaims returns the claims that match, by shard and in the order of their acceptance,
// as lines of an export. What the units are worth is read from the sale's own log, which
// must be of the same run (else ErrGone).
func FindClaims(ctx context.Context, logs Logs, sale, uid string, shards []*State, payloads *PayloadReader, f ClaimFilter) ([]ExportClaim, error) {
	x, err := loadOfSale(ctx, logs, sale, uid)
	if err != nil {
		return nil, err
	}
	found := []ExportClaim{}
	for shard, s := range shards {
		for i := range s.Claims() {
			if c := s.Claim(i); f.matches(c) {
				line, err := x.claim(ctx, payloads, sale, shard, c)
				if err != nil {
					return nil, err
				}
				found = append(found, line)
			}
		}
	}
	return found, nil
}

// Extract writes an extract of the shards as they are folded.
func Extract(ctx context.Context, logs Logs, sale, uid string, shards []*State, payloads *PayloadReader, f ClaimFilter, to io.Writer) error {
	found, err := FindClaims(ctx, logs, sale, uid, shards, payloads, f)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lines := lineEncoder(w)
	if err := lines.Encode(ExtractHeader{ExportFormat, KindExtract, ExtractOf{sale, uid}, f, len(found)}); err != nil {
		return err
	}
	for i := range found {
		if err := lines.Encode(&found[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}
