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

	claims []byte // a JSON array, in place of Claims; nil: left out
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
// status is 400, 404, 413, 415 or 422. The detail names the field and says what would be right.
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

// Write writes the problem as a response.
func (problem *Problem) Write(w http.ResponseWriter) {
	RecordOutcome(w, problem.Outcome)
	write(w, problem.Status, problem.RetryAfter, problem.Append(make([]byte, 0, 512)))
}

// write writes a problem document as a response, with the header Retry-After unless retryAfter is 0.
func write(w http.ResponseWriter, status int, retryAfter time.Duration, body []byte) {
	h := w.Header()
	h["Content-Type"] = typeProblem
	if retryAfter > 0 {
		h["Retry-After"] = retryAfterHeader(retryAfter)
	}
	w.WriteHeader(status)
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

// document is the row of an outcome and its complete problem document.
type document struct {
	row  api.Row
	body []byte
}

// outcomeDocuments has the encoded problem document of each outcome. A refusal without other fields is
// written from it.
var outcomeDocuments = func() map[api.Outcome]document {
	m := make(map[api.Outcome]document)
	for _, row := range api.Outcomes() {
		m[row.Outcome] = document{row, ProblemOf(row.Outcome).Append(nil)}
	}
	return m
}()

// WriteOutcome writes the problem of an outcome.
func WriteOutcome(w http.ResponseWriter, o api.Outcome) { ProblemOf(o).Write(w) }

// NothingHere begins the detail of each answer for a path that does not exist.
const NothingHere = "There is nothing at this path. "

// WriteNoSuchPath answers 404 for a path that does not exist.
func WriteNoSuchPath(w http.ResponseWriter) {
	NewProblem(http.StatusNotFound, NothingHere+"Claims go to /v1/sales/{sale}/claims.").Write(w)
}

// Unavailable returns the problem of a request that may be repeated after a time.
func Unavailable(retryAfter time.Duration, detail string) *Problem {
	p := NewProblem(http.StatusServiceUnavailable, detail)
	p.RetryAfter = retryAfter
	return p
}

// WriteForbidden answers 403.
func WriteForbidden(w http.ResponseWriter, detail string) {
	NewProblem(http.StatusForbidden, detail).Write(w)
}

// WriteRefusal writes an answer other than an accepted claim, a claim that was settled as requested, or
// what a query is about.
func WriteRefusal(w http.ResponseWriter, sale string, now clock.Clock, a *executor.Answer) {
	whole, known := outcomeDocuments[a.Outcome]
	about := a.Claim.User != "" // a claim that was accepted
	if known && !whole.row.Timed && a.Message == "" && a.Outcome != api.LimitReached && !about && !a.RefundDue {
		write(w, whole.row.Status, max(a.RetryAfter, whole.row.RetryAfter), whole.body)
		return
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
	if a.Outcome.Row().Timed { // the clocks of buyers differ
		p.ServerTime, p.OpensAt = now().Wall, a.OpensAt
	}
	p.Write(w)
}

// SetNotSettledMessage sets the message of the answer to a settlement that was not carried out, unless it
// has one, if the detail in api.Outcomes is about a key: a settlement has none.
func SetNotSettledMessage(a *executor.Answer) {
	if detail, keyed := strings.CutSuffix(a.Outcome.Row().Detail, api.RepeatAdvice); keyed && a.Message == "" {
		a.Message = detail + " Repeat the request: it takes effect once."
	}
}

// SetChallenge sets the header WWW-Authenticate of a response to a request that lacks a right, as RFC 6750
// describes it.
func (problem *Problem) SetChallenge(h http.Header, r *http.Request) {
	says := "Bearer"
	switch {
	case problem.Scope != "":
		says = `Bearer error="insufficient_scope", scope="` + problem.Scope + `"`
	case r.Header.Get("Authorization") != "":
		says = `Bearer error="invalid_token"`
	}
	h.Set("WWW-Authenticate", says)
}
