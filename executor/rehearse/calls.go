package rehearse

import (
	"time"

	"salectl/api"
)

// Call is one claim as its buyer saw it, in the order of the answers. Its times count from
// the begin of the rehearsal.
type Call struct {
	User     string
	Key      string
	Quantity int64
	Units    int64  // that it was given
	Outcome  string // as in Report.Outcomes
	Kind     Kind

	Sent         time.Duration // when it was sent first
	Began, Ended time.Duration // of the request that got the final answer
}

// Attempt is one request that was answered, also if it was sent again after that.
type Attempt struct {
	Ended time.Duration // since the begin of the rehearsal
	Took  time.Duration
}

// Calls are all claims of the rehearsal. It is long, and made anew each time.
func (r *Report) Calls() []Call {
	calls := make([]Call, len(r.records))
	for i := range r.records {
		one := &r.records[i]
		calls[i] = Call{
			User: one.user, Key: one.key, Quantity: one.quantity, Outcome: one.label(), Kind: KindOf(one.label()),
			Sent: one.sent - r.opened, Began: one.began.Mono - r.opened, Ended: one.ended.Mono - r.opened,
		}
		if one.accepted() {
			calls[i].Units = int64(len(one.Units))
		}
	}
	return calls
}

// Attempts are all requests that were answered, in order of their ends.
func (r *Report) Attempts() []Attempt {
	all := make([]Attempt, len(r.attempts))
	for i, a := range r.attempts {
		all[i] = Attempt{a.ended - r.opened, a.took}
	}
	return all
}

// Kind says in what way a claim was answered, in a few words that cover all outcomes.
type Kind int

// The kinds of answers.
const (
	Given      Kind = iota // it was accepted: it has units, or has entered a draw
	GivenAgain             // it was accepted before, and was told so once more
	NoneLeft               // there are no units, for good or at the moment
	AtLimit                // the user has as many as one may have
	Refused                // for another reason
	Undecided              // nobody knows, or it was not decided: an error to whoever asks
)

// Kinds are all kinds.
var Kinds = []Kind{Given, GivenAgain, NoneLeft, AtLimit, Refused, Undecided}

func (k Kind) String() string {
	return [...]string{"given", "given before", "none left", "limit reached", "refused otherwise", "no decision"}[k]
}

// KindOf says of what kind an outcome is, as in Report.Outcomes.
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
	for _, row := range api.Outcomes() {
		if row.Outcome == o && row.Retry != api.Again {
			return Refused
		}
	}
	return Undecided
}
