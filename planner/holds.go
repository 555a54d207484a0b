package planner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
)

// HoldsActual is how a destroy treats claims that are held for payments.
type HoldsActual struct {
	Cancel bool      // cancel them; otherwise wait until each is settled
	Err    error     // why the duration of the wait is unknown
	Last   time.Time // release of the last hold unless it is extended; zero: none is open
}

// ReadHolds reads when the holds of a sale are released. It returns nil if there are none.
func ReadHolds(ctx context.Context, logs ledger.Logs, actual *Actual) *HoldsActual {
	if !actual.Sale.Live() || !slices.ContainsFunc(actual.Shards, func(s ShardActual) bool { return s.Head != nil && s.Head.Held > 0 }) {
		return nil
	}
	shards, err := ledger.LoadShards(ctx, logs, actual.Sale)
	holds := &HoldsActual{Err: err}
	if _, last, n := holdsOf(shards); err == nil && n > 0 {
		holds.Last = time.UnixMicro(last)
	}
	return holds
}

// holdsOf returns when the first and the last open hold are released, in microseconds since
// 1970, and the number of open holds.
func holdsOf(shards []*ledger.State) (first, last int64, n int) {
	for _, s := range shards {
		for _, hold := range s.Holds() {
			at := hold.ReleaseUs()
			if n++; n == 1 {
				first = at
			}
			first, last = min(first, at), max(last, at)
		}
	}
	return first, last, n
}

// holds adds a warning that states how a destroy treats holds.
func (p *Plan) holds(ends *Ends, holds *HoldsActual) {
	held := unitsAre(ends.Held) + " held for payments"
	switch {
	case ends.Held == 0:
	case holds != nil && holds.Cancel:
		p.warn("%s: these claims are cancelled, and payments that come for them must be paid back", held)
	case holds == nil || holds.Err != nil || holds.Last.IsZero():
		p.warn("%s: destroy closes the sale, then waits until each of these claims is paid, cancelled or released; --cancel-holds cancels them instead", held)
	default:
		ends.HeldUntil = timeText(holds.Last.Truncate(time.Second).Add(time.Second))
		p.warn("%s: destroy closes the sale, then waits until each of these claims is paid, cancelled or released, until %s unless some are extended; --cancel-holds cancels them instead",
			held, ends.HeldUntil)
	}
}

// reportHolds reports the open holds that a destroy waits for, at most once a minute.
func (t *teardown) reportHolds(now time.Time) {
	first, last, n := holdsOf(t.x.states)
	in := func(us int64) time.Duration { return time.UnixMicro(us).Sub(now).Round(time.Second) }
	note := fmt.Sprintf("for a hold that ends in %v", in(last))
	if n > 1 {
		note = fmt.Sprintf("for %d holds, of which the first ends in %v and the last in %v", n, in(first), in(last))
	}
	if now := t.x.core.now.Mono; n > 0 && now >= t.reportAt {
		t.reportAt = now + time.Minute
		t.x.doing(saleAddress(t.x.plan.Sale), "wait", note)
	}
}
