package export

import (
	"bufio"
	"context"
	"io"
	"slices"

	"salectl/backends/ledger"
)

// KindExtract is the field kind of an extract's header.
const KindExtract = "extract"

// States of a Filter beside those of claims: a payment for the claim is still to be paid back, or
// was paid back, whatever the state of the claim.
const (
	stateRefundDue = "refund_due"
	stateReturned  = "returned"
)

// States returns all states of a Filter.
func States() []string {
	return []string{
		ledger.StateHeld.String(), ledger.StateSold.String(), ledger.StateExpired.String(), ledger.StateCancelled.String(), ledger.StateRefunded.String(), ledger.StateEntered.String(), stateRefundDue, stateReturned,
	}
}

// Filter selects claims: those that match all of its fields that are set.
type Filter struct {
	User  string `json:"user,omitempty"`
	Unit  int64  `json:"unit,omitempty"`  // unit that the claim has, or had last; 0: any
	State string `json:"state,omitempty"` // one of States
}

// Set reports whether the filter leaves anything out.
func (f Filter) Set() bool { return f != Filter{} }

func (f Filter) matches(c ledger.Claim) bool {
	switch {
	case f.User != "" && c.User != f.User,
		f.Unit != 0 && !slices.Contains(c.Units, f.Unit):
		return false
	case f.State == stateRefundDue:
		return len(c.RefundsDue) > len(c.Returned)
	case f.State == stateReturned:
		return len(c.Returned) > 0
	}
	return f.State == "" || c.State.String() == f.State
}

// ExtractHeader is the first line of an extract: some of a sale's claims, each in its line
// of an export. It cannot be mistaken for an export: it has another kind, no sale and uid
// where a Header has them, and none of the commits that would prove it.
type ExtractHeader struct {
	Format int       `json:"format"` // Format of this package
	Kind   string    `json:"kind"`   // KindExtract
	Of     ExtractOf `json:"of"`
	Filter Filter    `json:"filter"`
	Claims int       `json:"claims"` // number of lines that follow
}

// ExtractOf identifies the sale of an extract.
type ExtractOf struct {
	Sale string `json:"sale"`
	UID  string `json:"uid"`
}

// Find returns the claims that match f, by shard and in the order of their acceptance, as
// lines of an export. The amounts of red packets are from the sale's own log.
func (s Sale) Find(ctx context.Context, f Filter) ([]Claim, error) {
	x, err := s.contents(ctx)
	if err != nil {
		return nil, err
	}
	found := []Claim{}
	for shard, c := range claims(s.Shards, f) {
		line, err := x.claim(ctx, s.Payloads, shard, c)
		if err != nil {
			return nil, err
		}
		found = append(found, line)
	}
	return found, nil
}

// WriteExtract writes an extract.
func (s Sale) WriteExtract(ctx context.Context, f Filter, to io.Writer) error {
	found, err := s.Find(ctx, f)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lines := lineEncoder(w)
	if err := lines.Encode(ExtractHeader{Format, KindExtract, ExtractOf{s.Name, s.Log.UID()}, f, len(found)}); err != nil {
		return err
	}
	for i := range found {
		if err := lines.Encode(&found[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}
