// Package wire has the form of requests and responses over HTTP: the JSON of claims, settlements
// and problem documents, and request ids.
//
// A parser accepts no more than the API describes: an object with an unknown or repeated field, or
// with text that is not UTF-8, is refused with a Problem that names the field. A refusal has the status,
// the document and the headers of its Problem: handlers return it, and Handler.ServeHTTP alone writes it.
//
// The package depends on no sale and no server. Which requests are permitted, how large a body may be,
// and what an answer is, is up to its callers.
package wire

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// Header values that all responses share, which saves each of them an allocation. They must not be
// changed.
var (
	JSONType    = []string{api.TypeJSON} // of Content-Type
	typeProblem = []string{api.TypeProblem}
	NoStore     = []string{"no-store"} // of Cache-Control
)

// Problem is an api.Problem as it is written, with what HTTP has in headers.
type Problem struct {
	api.Problem
	RetryAfter time.Duration
	Scope      string // the right that the token lacks
	Allow      string // the methods of the path, if the request has another

	claims  []byte // a JSON array, in place of Claims; nil: left out
	encoded []byte // the document; nil: Append encodes it
}

// Handler answers a request and returns nil, or writes no response and returns why it refuses the request.
type Handler func(http.ResponseWriter, *http.Request) *Problem

// ServeHTTP makes Handler an http.Handler. All refusals are written here.
func (handler Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if problem := handler(w, r); problem != nil {
		problem.write(w, r)
	}
}

// NewProblem returns the problem of a request that concerns no claim. Its title is that of the status.
func NewProblem(status int, detail string) *Problem {
	return &Problem{Problem: api.Problem{Type: "about:blank", Status: status, Title: http.StatusText(status), Detail: detail}}
}

// ProblemOf returns the problem of an outcome, as the table of outcomes has it.
func ProblemOf(o api.Outcome) *Problem {
	row := o.Row()
	return &Problem{Problem: row.Problem(), RetryAfter: row.RetryAfter}
}

// BadRequest returns the problem of an error in the form of a request, of outcome `bad_request`. The
// status is 400, 404, 413, 415 or 422. The detail names the field and the correct form.
func BadRequest(status int, detail string) *Problem {
	p := ProblemOf(api.BadRequest)
	p.Status, p.Detail = status, detail
	return p
}

// Append appends the document. Its members stand in the order of the RFC.
func (problem *Problem) Append(b []byte) []byte {
	b = AppendString(append(b, `{"type":`...), problem.Type)
	b = AppendString(append(b, `,"title":`...), problem.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(problem.Status), 10)
	b = AppendString(append(b, `,"detail":`...), problem.Detail)
	if problem.Outcome != "" {
		b = AppendString(append(b, `,"outcome":`...), string(problem.Outcome))
	}
	if !problem.ServerTime.IsZero() {
		b = appendTime(append(b, `,"serverTime":`...), problem.ServerTime)
	}
	if !problem.OpensAt.IsZero() {
		b = appendTime(append(b, `,"opensAt":`...), problem.OpensAt)
	}
	if problem.Rule != "" {
		b = AppendString(append(b, `,"rule":`...), problem.Rule)
		b = AppendString(append(b, `,"reason":`...), problem.Reason)
	}
	if problem.claims != nil {
		b = append(append(b, `,"claims":`...), problem.claims...)
	}
	if problem.Count != 0 {
		b = strconv.AppendInt(append(b, `,"count":`...), int64(problem.Count), 10)
	}
	if problem.RefundDue {
		b = append(b, `,"refundDue":true`...)
	}
	if problem.ExportDigest != "" {
		b = AppendString(append(b, `,"exportDigest":`...), problem.ExportDigest)
	}
	if problem.Known != nil {
		b = append(append(b, `,"known":`...), MustMarshal(problem.Known)...)
	}
	return append(b, '}')
}

// write writes the problem as the response to a request.
func (problem *Problem) write(w http.ResponseWriter, r *http.Request) {
	RecordOutcome(w, problem.Outcome)
	h := w.Header()
	h["Content-Type"] = typeProblem
	if problem.RetryAfter > 0 {
		h["Retry-After"] = retryAfterHeader(problem.RetryAfter)
	}
	if problem.Allow != "" {
		h.Set("Allow", problem.Allow)
	}
	if problem.Scope != "" || problem.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", problem.challenge(r))
	}
	body := problem.encoded
	if body == nil {
		body = problem.Append(make([]byte, 0, 512))
	}
	w.WriteHeader(problem.Status)
	w.Write(body) // an error here means that the client has gone
}

var retryAfterOne = []string{"1"}

// retryAfterHeader returns the value of the header Retry-After: whole seconds, rounded up, so that no
// client retries too early, and at least 1.
func retryAfterHeader(d time.Duration) []string {
	if d <= time.Second {
		return retryAfterOne
	}
	return []string{strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)}
}

// outcomeProblems has the problem of each outcome, encoded. They are shared and must not be changed.
var outcomeProblems = func() map[api.Outcome]*Problem {
	m := make(map[api.Outcome]*Problem)
	for _, row := range api.Outcomes() {
		p := ProblemOf(row.Outcome)
		p.encoded = p.Append(nil)
		m[row.Outcome] = p
	}
	return m
}()

// NothingHere begins the detail of each answer for a path that does not exist.
const NothingHere = "There is nothing at this path. "

// NoSuchPath returns the problem of a path that does not exist.
func NoSuchPath() *Problem {
	return NewProblem(http.StatusNotFound, NothingHere+"Claims go to /v1/sales/{sale}/claims.")
}

// Unavailable returns the problem of a request that may be repeated after a time.
func Unavailable(retryAfter time.Duration, detail string) *Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = retryAfter
	return p
}

// Forbidden returns the problem of a request that its sender may not send, whatever its token.
func Forbidden(detail string) *Problem { return NewProblem(http.StatusForbidden, detail) }

// Refusal returns the problem of an answer other than an accepted claim, a claim that was settled as
// requested, or what a query is about. It must not be changed.
func Refusal(sale string, now clock.Clock, a *executor.Answer) *Problem {
	row, about := a.Outcome.Row(), a.Claim.User != "" // about a claim that was accepted
	if p := outcomeProblems[a.Outcome]; p != nil && !row.Timed && a.Message == "" && a.Outcome != api.LimitReached && !about && !a.RefundDue {
		if a.RetryAfter > p.RetryAfter {
			p = new(*p)
			p.RetryAfter = a.RetryAfter
		}
		return p
	}
	p := ProblemOf(a.Outcome)
	p.RetryAfter, p.Detail = max(a.RetryAfter, p.RetryAfter), cmp.Or(a.Message, p.Detail)
	p.Rule, p.Reason, p.RefundDue = a.Rule, a.Reason, a.RefundDue
	switch {
	case a.Outcome == api.LimitReached:
		p.claims, p.Count = appendClaims(nil, sale, a.Claims), a.Count
	case about:
		p.claims = appendClaims(nil, sale, []executor.Claim{a.Claim})
	}
	if row.Timed { // the clocks of buyers differ
		p.ServerTime, p.OpensAt = now().Wall, a.OpensAt
	}
	return p
}

// SetNotSettledMessage sets the message of the answer to a settlement that was not carried out, unless it
// has one, if the detail in api.Outcomes is about a key: a settlement has none.
func SetNotSettledMessage(a *executor.Answer) {
	if detail, keyed := strings.CutSuffix(a.Outcome.Row().Detail, api.RepeatAdvice); keyed && a.Message == "" {
		a.Message = detail + " Repeat the request: it takes effect once."
	}
}

// challenge returns the header WWW-Authenticate of a response to a request that lacks a right, as RFC 6750
// describes it.
func (problem *Problem) challenge(r *http.Request) string {
	switch {
	case problem.Scope != "":
		return `Bearer error="insufficient_scope", scope="` + problem.Scope + `"`
	case r.Header.Get("Authorization") != "":
		return `Bearer error="invalid_token"`
	}
	return "Bearer"
}
