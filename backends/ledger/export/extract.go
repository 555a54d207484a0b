package export

import (
	"bufio"
	"context"
	"io"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// KindExtract is what an extract's header says in its field kind.
const KindExtract = "extract"

// stateRefundDue is what a Filter takes beside the states of claims: a payment for the
// claim is owed back, whatever its state.
const stateRefundDue = "refund_due"

// States are all that a Filter takes as a state.
func States() []string {
	return []string{
		ledger.StateHeld.String(), ledger.StateSold.String(), ledger.StateExpired.String(), ledger.StateCancelled.String(), ledger.StateRefunded.String(), ledger.StateEntered.String(), stateRefundDue,
	}
}

// Filter says which claims somebody looks for: those that all its fields match that
// are set.
type Filter struct {
	User  string `json:"user,omitempty"`
	Unit  int64  `json:"unit,omitempty"`  // the claim has it, or had it last; 0: any
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
		return len(c.RefundsDue) > 0
	}
	return f.State == "" || c.State.String() == f.State
}

// ExtractHeader is the first line of an extract: some of a sale's claims, each in the
// line that it has in an export. It is no export, and nobody takes it for one: it is of
// another kind, has no sale and uid where a Header has them, and none of the
// commits that would prove it.
type ExtractHeader struct {
	Format int       `json:"format"` // Format of this package
	Kind   string    `json:"kind"`   // KindExtract
	Of     ExtractOf `json:"of"`
	Filter Filter    `json:"filter"`
	Claims int       `json:"claims"` // how many lines follow
}

// ExtractOf is the sale that an extract is of.
type ExtractOf struct {
	Sale string `json:"sale"`
	UID  string `json:"uid"`
}

// Find returns the claims that match, by shard and in the order of their acceptance,
// as lines of an export. What the units are worth is taken from the sale's own log.
func Find(ctx context.Context, logs ledger.Logs, sale string, log *ledger.Sale, shards []*ledger.State, payloads *payload.Reader, f Filter) ([]Claim, error) {
	x, err := readOfSale(ctx, logs, log)
	if err != nil {
		return nil, err
	}
	found := []Claim{}
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

// WriteExtract writes an extract of the shards as they are folded.
func WriteExtract(ctx context.Context, logs ledger.Logs, sale string, log *ledger.Sale, shards []*ledger.State, payloads *payload.Reader, f Filter, to io.Writer) error {
	found, err := Find(ctx, logs, sale, log, shards, payloads, f)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lines := lineEncoder(w)
	if err := lines.Encode(ExtractHeader{Format, KindExtract, ExtractOf{sale, log.UID()}, f, len(found)}); err != nil {
		return err
	}
	for i := range found {
		if err := lines.Encode(&found[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}
