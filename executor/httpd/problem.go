package httpd

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"salectl/api"
)

// Header values are shared by all answers: to set them one by one would cost
// every answer an allocation each. Nobody writes to them.
var (
	typeJSON    = []string{api.TypeJSON}
	typeProblem = []string{api.TypeProblem}
	noStore     = []string{"no-store"}
)

// problem is one refusal, an api.Problem.
type problem struct {
	// outcome is what a claim came to; "" where no claim was looked at. Then
	// the type is about:blank and the status says it all.
	outcome       api.Outcome
	status        int
	title, detail string
	retryAfter    time.Duration

	// What only some outcomes have. now and opensAt are left out when zero.
	now     time.Time
	opensAt time.Time
	rule    string // left out, with reason, when empty
	reason  string
	claims  []byte // a JSON array; nil: left out
	count   int    // left out when 0

	refundDue bool // left out when false

	exportDigest string // in hex; left out when empty

	scope string // the right that the token lacks; only in the header
}

// problemOf returns what the table of outcomes has for an outcome.
func problemOf(o api.Outcome) problem {
	row := o.Row()
	return problem{outcome: o, status: row.Status, title: row.Title, detail: row.Detail, retryAfter: row.RetryAfter}
}

// appendTo appends the document. Its members stand in the order of the RFC.
func (p *problem) appendTo(b []byte) []byte {
	b = append(b, `{"type":"`...)
	if p.outcome == "" {
		b = append(b, "about:blank"...)
	} else {
		b = append(append(b, api.OutcomeType...), p.outcome...)
	}
	b = appendString(append(b, `","title":`...), p.title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.status), 10)
	b = appendString(append(b, `,"detail":`...), p.detail)
	if p.outcome != "" {
		b = appendString(append(b, `,"outcome":`...), string(p.outcome))
	}
	if !p.now.IsZero() {
		b = appendTime(append(b, `,"serverTime":`...), p.now)
	}
	if !p.opensAt.IsZero() {
		b = appendTime(append(b, `,"opensAt":`...), p.opensAt)
	}
	if p.rule != "" {
		b = appendString(append(b, `,"rule":`...), p.rule)
		b = appendString(append(b, `,"reason":`...), p.reason)
	}
	if p.claims != nil {
		b = append(append(b, `,"claims":`...), p.claims...)
	}
	if p.count != 0 {
		b = strconv.AppendInt(append(b, `,"count":`...), int64(p.count), 10)
	}
	if p.refundDue {
		b = append(b, `,"refundDue":true`...)
	}
	if p.exportDigest != "" {
		b = appendString(append(b, `,"exportDigest":`...), p.exportDigest)
	}
	return append(b, '}')
}

func (p *problem) write(w http.ResponseWriter) {
	note(w, p.outcome)
	writeProblem(w, p.status, p.retryAfter, p.appendTo(make([]byte, 0, 512)))
}

func writeProblem(w http.ResponseWriter, status int, retryAfter time.Duration, body []byte) {
	h := w.Header()
	h["Content-Type"] = typeProblem
	if retryAfter > 0 {
		h["Retry-After"] = retryAfterHeader(retryAfter)
	}
	w.WriteHeader(status)
	w.Write(body) // an error here means that the client has gone
}

var retryAfterOne = []string{"1"}

// retryAfterHeader gives whole seconds, as HTTP wants them: rounded up, so that
// nobody comes back too early, and at least 1.
func retryAfterHeader(d time.Duration) []string {
	if d <= time.Second {
		return retryAfterOne
	}
	return []string{strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)}
}

// document is an outcome's row, and its whole problem document.
type document struct {
	row  api.Row
	body []byte
}

// prepared are the documents of all outcomes, so that to refuse a buyer with no
// more than an outcome costs no more than to copy one.
var prepared = func() map[api.Outcome]document {
	m := make(map[api.Outcome]document)
	for _, row := range api.Outcomes() {
		p := problemOf(row.Outcome)
		m[row.Outcome] = document{row, p.appendTo(nil)}
	}
	return m
}()

func writeOutcome(w http.ResponseWriter, o api.Outcome) {
	p := problemOf(o)
	p.write(w)
}

// writeBadRequest says what is wrong with a request, as `bad_request`.
func writeBadRequest(w http.ResponseWriter, f *fault) {
	p := problemOf(api.BadRequest)
	p.status, p.detail = f.status, f.detail
	p.write(w)
}

// writeNotServed says that a sale is not served here: that there is none, or, where this server
// is to serve it and cannot yet, that it may be asked again.
func (s *Server) writeNotServed(w http.ResponseWriter, name string) {
	p := problemOf(api.NoSuchSale)
	if lack, declared := (*s.unserved.Load())[name]; declared && !lack.Absent {
		p = problemOf(api.Standby)
		p.detail = "This server is to serve the sale, and cannot yet; this request was not looked at. Ask again, here or at another process of the sale."
	}
	p.write(w)
}

// nothingHere is what every answer begins with to a request for a path that there is not.
const nothingHere = "There is nothing at this path. "

func writeNoSuchPath(w http.ResponseWriter) {
	(&problem{status: http.StatusNotFound, title: "Not Found", detail: nothingHere + "Claims go to /v1/sales/{sale}/claims."}).write(w)
}

// writeOtherAddress says that this address has nothing at a path, and the server's other one
// has. It is a bad_request, which clients show and do not send again.
func writeOtherAddress(w http.ResponseWriter, whose string) {
	writeBadRequest(w, &fault{http.StatusNotFound, nothingHere + whose})
}

func writeMethodNotAllowed(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	(&problem{status: http.StatusMethodNotAllowed, title: "Method Not Allowed",
		detail: "This path takes " + allowed + "."}).write(w)
}

func writeForbidden(w http.ResponseWriter, detail string) {
	(&problem{status: http.StatusForbidden, title: "Forbidden", detail: detail}).write(w)
}

// challenge says of a request that was not let in, by RFC 6750, what is missing.
func (p *problem) challenge(h http.Header, r *http.Request) {
	says := "Bearer"
	switch {
	case p.scope != "":
		says = `Bearer error="insufficient_scope", scope="` + p.scope + `"`
	case r.Header.Get("Authorization") != "":
		says = `Bearer error="invalid_token"`
	}
	h.Set("WWW-Authenticate", says)
}
