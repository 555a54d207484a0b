package httpd

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"salectl/api"
)

// identified answers with a request's X-Request-Id, and at level debug has a line in the log
// for each request. A request that has no id is given one only where something is logged of
// it: so it costs those who ask for nothing a look into two maps.
func (s *Server) identified(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.log.Enabled(r.Context(), slog.LevelDebug) {
			s.logged(w, r, h)
			return
		}
		if r.Header[api.RequestIDHeader] != nil {
			requestID(w, r)
		}
		h(w, r)
	}
}

// requestID returns a request's id and has the answer say it: the client's, or a new one where
// the client gave none that can be taken.
func requestID(w http.ResponseWriter, r *http.Request) string {
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

// about is what ties a line of the log to a request.
func about(w http.ResponseWriter, r *http.Request) []any {
	attrs := []any{slog.String("request", requestID(w, r))}
	if trace := traceID(r); trace != "" {
		attrs = append(attrs, slog.String("trace", trace))
	}
	return attrs
}

// observed is a ResponseWriter that remembers what the answer was.
type observed struct {
	http.ResponseWriter
	status  int
	outcome api.Outcome
}

func (o *observed) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// note has the log say what a request came to, where requests are logged.
func note(w http.ResponseWriter, outcome api.Outcome) {
	if o, ok := w.(*observed); ok {
		o.outcome = outcome
	}
}

// logged answers a request and logs it.
func (s *Server) logged(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	attrs := about(w, r)
	o := &observed{ResponseWriter: w, status: http.StatusOK}
	began := s.now().Mono
	defer func() {
		attrs = append(attrs, "method", r.Method, "path", r.URL.EscapedPath())
		if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath); ok {
			if name, _, _ := strings.Cut(rest, "/"); s.sales()[name] != nil {
				attrs = append(attrs, "sale", name)
			}
		}
		attrs = append(attrs, "status", o.status)
		if o.outcome != "" {
			attrs = append(attrs, "outcome", string(o.outcome))
		}
		took := (s.now().Mono - began).Round(time.Microsecond)
		s.log.DebugContext(context.WithoutCancel(r.Context()), "request answered", append(attrs, "duration", took)...)
	}()
	h(o, r)
}
