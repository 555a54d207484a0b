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

// identified sets the X-Request-Id of responses and, at level debug, logs each request. A request
// without an id gets one only if it is logged.
func (server *Server) identified(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !server.config.Log.Enabled(r.Context(), slog.LevelDebug) {
			if r.Header[api.RequestIDHeader] != nil {
				wire.RequestID(w, r)
			}
			handler(w, r)
			return
		}
		attrs := append(wire.LogAttrs(w, r), "method", r.Method, "path", r.URL.EscapedPath())
		response := &wire.Recorder{ResponseWriter: w, Status: http.StatusOK}
		began := server.config.Clock().Mono
		defer func() {
			if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath); ok {
				if name, _, _ := strings.Cut(rest, "/"); server.sales()[name] != nil {
					attrs = append(attrs, "sale", name)
				}
			}
			attrs = append(attrs, "status", response.Status)
			if response.Outcome != "" {
				attrs = append(attrs, "outcome", string(response.Outcome))
			}
			took := (server.config.Clock().Mono - began).Round(time.Microsecond)
			server.config.Log.DebugContext(context.WithoutCancel(r.Context()), "request answered", append(attrs, "duration", took)...)
		}()
		handler(response, r)
	}
}
