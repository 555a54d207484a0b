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

// identified sets the X-Request-Id of responses and, at level debug, logs each request. A request without an
// id gets one only if something is logged of it.
func (s *Server) identified(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.config.Log.Enabled(r.Context(), slog.LevelDebug) {
			if r.Header[api.RequestIDHeader] != nil {
				wire.RequestID(w, r)
			}
			h(w, r)
			return
		}
		attrs := append(wire.LogAttrs(w, r), "method", r.Method, "path", r.URL.EscapedPath())
		response := &wire.Recorder{ResponseWriter: w, Status: http.StatusOK}
		began := s.config.Clock().Mono
		defer func() {
			if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath); ok {
				if name, _, _ := strings.Cut(rest, "/"); s.sales()[name] != nil {
					attrs = append(attrs, "sale", name)
				}
			}
			attrs = append(attrs, "status", response.Status)
			if response.Outcome != "" {
				attrs = append(attrs, "outcome", string(response.Outcome))
			}
			took := (s.config.Clock().Mono - began).Round(time.Microsecond)
			s.config.Log.DebugContext(context.WithoutCancel(r.Context()), "request answered", append(attrs, "duration", took)...)
		}()
		h(response, r)
	}
}
