package wire

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"salectl/api"
)

// RequestID returns the id of a request, the client's or, where that is missing or unusable, a new one,
// and sets the header of the response.
func RequestID(w http.ResponseWriter, r *http.Request) string {
	if answered := w.Header()[api.RequestIDHeader]; len(answered) == 1 {
		return answered[0]
	}
	ids := r.Header[api.RequestIDHeader]
	if len(ids) != 1 || !api.GoodRequestID(ids[0]) {
		ids = []string{rand.Text()}
	}
	w.Header()[api.RequestIDHeader] = ids
	return ids[0]
}

// traceParent is a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01. A later
// version than 00 may go on behind a dash.
var traceParent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// traceID returns the trace id of a request, or "" if it is part of no trace.
func traceID(r *http.Request) string {
	values := r.Header["Traceparent"]
	if len(values) != 1 {
		return ""
	}
	m := traceParent.FindStringSubmatch(values[0])
	if m == nil || m[1] == "ff" || m[1] == "00" && m[4] != "" || strings.Trim(m[2], "0") == "" || strings.Trim(m[3], "0") == "" {
		return ""
	}
	return m[2]
}

// LogAttrs returns the attributes that identify a request in the log: its request id and, if it has one,
// its trace id.
func LogAttrs(w http.ResponseWriter, r *http.Request) []any {
	attrs := []any{slog.String("request", RequestID(w, r))}
	if trace := traceID(r); trace != "" {
		attrs = append(attrs, slog.String("trace", trace))
	}
	return attrs
}

// Recorder is a ResponseWriter that remembers the status and the outcome of the response.
type Recorder struct {
	http.ResponseWriter
	Status  int
	Outcome api.Outcome
}

// WriteHeader is that of http.ResponseWriter.
func (recorder *Recorder) WriteHeader(status int) {
	recorder.Status = status
	recorder.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (recorder *Recorder) Unwrap() http.ResponseWriter { return recorder.ResponseWriter }

// RecordOutcome records the outcome of a request, if w is a Recorder and has none yet.
func RecordOutcome(w http.ResponseWriter, outcome api.Outcome) {
	if o, ok := w.(*Recorder); ok {
		o.Outcome = cmp.Or(o.Outcome, outcome)
	}
}
