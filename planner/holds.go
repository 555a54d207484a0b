package planner

import (
	"time"

	"salectl/backends/ledger"
)

// HoldsActual is how a destroy treats claims that are held for payments.
type HoldsActual struct {
	Cancel bool      // cancel them; otherwise wait until each is settled
	Err    error     // why the duration of the wait is unknown
	Last   time.Time // release of the last hold unless it is extended; zero: none is open
}

// HoldTimes returns when the first and the last open hold are released, in microseconds since
// 1970, and the number of open holds.
func HoldTimes(shards []*ledger.State) (first, last int64, n int) {
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
		ends.HeldUntil = TimeText(holds.Last.Truncate(time.Second).Add(time.Second))
		p.warn("%s: destroy closes the sale, then waits until each of these claims is paid, cancelled or released, until %s unless some are extended; --cancel-holds cancels them instead",
			held, ends.HeldUntil)
	}
}
