package wire

import (
	"crypto/rand"
	"log/slog"
	"net/http"
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

// traceID returns the trace id of a W3C traceparent: 32 hexadecimal digits, or "" if the
// request is part of no trace.
func traceID(r *http.Request) string {
	values := r.Header["Traceparent"]
	if len(values) != 1 {
		return ""
	}
	// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01; a later version may go on
	// behind a dash.
	v := values[0]
	const version, trace, parent, flags = 2, 35, 52, 55
	switch {
	case len(v) < flags || len(v) > flags && (v[:version] == "00" || v[flags] != '-'):
		return ""
	case v[version] != '-' || v[trace] != '-' || v[parent] != '-':
		return ""
	case !hexadecimal(v[:version]) || !hexadecimal(v[version+1:trace]) || !hexadecimal(v[trace+1:parent]) || !hexadecimal(v[parent+1:flags]):
		return ""
	case v[:version] == "ff" || strings.Trim(v[version+1:trace], "0") == "" || strings.Trim(v[trace+1:parent], "0") == "":
		return "" // which the standard calls invalid
	}
	return v[version+1 : trace]
}

// hexadecimal reports whether a text has only small hexadecimal digits, as the standard wants.
func hexadecimal(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// LogAttrs returns the attributes by which a line of the log is found from a request.
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
func (o *Recorder) WriteHeader(status int) {
	o.Status = status
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (o *Recorder) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// Note records the outcome of a request, if w is a Recorder.
func Note(w http.ResponseWriter, outcome api.Outcome) {
	if o, ok := w.(*Recorder); ok {
		o.Outcome = outcome
	}
}
