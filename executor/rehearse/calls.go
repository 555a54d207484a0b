package rehearse

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"salectl/api"
)

// Call is one claim as seen by its buyer. Calls are in the order of their answers. Times count from
// the start of the rehearsal.
type Call struct {
	User    string
	Outcome string // label as in Report.Outcomes
	Kind    Kind

	Sent         time.Duration // time of its first request
	Began, Ended time.Duration // of the request with the final answer
}

// Attempt is one answered request, even if it was repeated later.
type Attempt struct {
	Ended time.Duration // since the start of the rehearsal
	Took  time.Duration
}

// Calls returns all claims of the rehearsal, in a new, large slice.
func (r *Report) Calls() []Call {
	calls := make([]Call, len(r.records))
	for i := range r.records {
		one := &r.records[i]
		calls[i] = Call{
			User: one.user, Outcome: one.label(), Kind: KindOf(one.label()),
			Sent: one.sent - r.opened, Began: one.began.Mono - r.opened, Ended: one.ended.Mono - r.opened,
		}
	}
	return calls
}

// Attempts returns all answered requests, in order of their ends.
func (r *Report) Attempts() []Attempt { return r.attempts }

// Kind classifies the answers to claims. A few kinds cover all outcomes.
type Kind int

// Kinds of answers.
const (
	Given      Kind = iota // accepted: it has units, or has entered a draw
	GivenAgain             // a repeated request of an accepted claim
	NoneLeft               // no units, permanently or at the moment
	AtLimit                // the user has reached the limit
	Refused                // for another reason
	Undecided              // undecided or unknown: an error to the client
)

// KindOf returns the kind of an outcome of Report.Outcomes.
func KindOf(outcome string) Kind {
	o := api.Outcome(outcome)
	switch {
	case o.Accepted():
		return Given
	case outcome == string(api.Replayed):
		return GivenAgain
	}
	switch o {
	case api.SoldOut, api.NoneNow, api.UnitsTaken, api.NotAdjacent:
		return NoneLeft
	case api.LimitReached:
		return AtLimit
	}
	if row := o.Row(); row.Retry == api.Again || row.Status == http.StatusInternalServerError { // the latter: it has no row
		return Undecided
	}
	return Refused
}

// Ordered returns outcomes in the order of their kinds.
func Ordered[V any](outcomes map[string]V) []string {
	return slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(KindOf(a), KindOf(b)), cmp.Compare(a, b))
	})
}
