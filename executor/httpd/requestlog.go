package httpd

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"salectl/api"
	"salectl/executor/httpd/wire"
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
			wire.RequestID(w, r)
		}
		h(w, r)
	}
}

// logged answers a request and logs it.
func (s *Server) logged(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	attrs := wire.LogAttrs(w, r)
	o := &wire.Recorder{ResponseWriter: w, Status: http.StatusOK}
	began := s.now().Mono
	defer func() {
		attrs = append(attrs, "method", r.Method, "path", r.URL.EscapedPath())
		if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath); ok {
			if name, _, _ := strings.Cut(rest, "/"); s.sales()[name] != nil {
				attrs = append(attrs, "sale", name)
			}
		}
		attrs = append(attrs, "status", o.Status)
		if o.Outcome != "" {
			attrs = append(attrs, "outcome", string(o.Outcome))
		}
		took := (s.now().Mono - began).Round(time.Microsecond)
		s.log.DebugContext(context.WithoutCancel(r.Context()), "request answered", append(attrs, "duration", took)...)
	}()
	h(o, r)
}
