package wire

import (
	"net/http"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// WriteRefusal writes an answer other than an accepted claim, a claim that was settled as requested, or
// what a query is about.
func WriteRefusal(w http.ResponseWriter, sale string, now clock.Clock, a *executor.Answer) {
	whole, known := outcomeDocuments[a.Outcome]
	about := a.Claim.User != "" // a claim that was accepted
	if known && !whole.row.Timed && a.Message == "" && a.Outcome != api.LimitReached && !about && !a.RefundDue {
		WriteProblem(w, whole.row.Status, max(a.RetryAfter, whole.row.RetryAfter), whole.body)
		return
	}
	Refusal(sale, now, a).Write(w)
}

// Refusal returns the problem of an answer other than an accepted claim or a claim that was settled as
// requested.
func Refusal(sale string, now clock.Clock, answer *executor.Answer) *Problem {
	about := answer.Claim.User != ""
	p := ProblemOf(answer.Outcome)
	p.RetryAfter = max(answer.RetryAfter, p.RetryAfter)
	if answer.Message != "" {
		p.Detail = answer.Message
	}
	p.Rule, p.Reason, p.RefundDue = answer.Rule, answer.Reason, answer.RefundDue
	switch {
	case answer.Outcome == api.LimitReached:
		p.claims, p.Count = appendClaims(nil, sale, answer.Claims), answer.Count
	case about:
		p.claims = appendClaims(nil, sale, []executor.Claim{answer.Claim})
	}
	if answer.Outcome.Row().Timed { // the clocks of buyers differ
		p.ServerTime, p.OpensAt = now().Wall, answer.OpensAt
	}
	return p
}

// SetNotSettledMessage sets the message of the answer to a settlement that was not carried out, unless it
// has one. It does so for outcomes whose detail in api.Outcomes is about the key of a claim: a settlement
// has no key.
func SetNotSettledMessage(a *executor.Answer) {
	if a.Message == "" {
		a.Message = notSettledMessages[a.Outcome]
	}
}

var notSettledMessages = map[api.Outcome]string{
	api.Overloaded: "Too many requests are waiting; this one was not processed. Repeat the request.",
	api.NoQuorum:   "This server cannot sell at the moment: it has no lease, or the ledger does not answer. It did not process this request. Repeat the request.",
	api.Unknown:    "It is not yet known whether this was done. Repeat the request: it takes effect once.",
	api.Standby:    "The owner of the shard cannot be reached at the moment; this request was not processed. Repeat the request.",
	api.NotChecked: "The rules of the sale could not be checked; this request was not processed. Repeat the request.",
	api.Draining:   "This server is shutting down; this request was not processed. Repeat the request.",
}
