package httpd

import (
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/wire"
)

// Admin returns a handler for operators: /healthz, /readyz, /openapi.json, the state of sales with
// their lock nodes and shards, the pages of package dashboard and, if Config.Metrics is set,
// /metrics. Reading needs no token: the listener controls access. A refund and a drain need a token
// that may operate, if there are tokens.
func (server *Server) Admin() http.Handler { return server.identified(server.admin()) }

func (server *Server) admin() http.HandlerFunc {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.AlivePath, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET "+api.ReadyPath, server.getReady)
	mux.HandleFunc(api.SalesPath+"{sale}/claims/{claim}/"+string(api.Refund), func(w http.ResponseWriter, r *http.Request) {
		if _, ok := server.letIn(w, r, access.MayOperate); ok {
			server.withSale(w, r, http.MethodPost, r.PathValue("sale"), func(sale *sale) { server.postSettlement(w, r, sale, r.PathValue("claim")+"/"+string(api.Refund)) })
		}
	})
	mux.HandleFunc(api.SalesPath+"{sale}", func(w http.ResponseWriter, r *http.Request) {
		server.withSale(w, r, http.MethodGet, r.PathValue("sale"), func(sale *sale) { sale.getSale(w, access.AllRights, true) })
	})
	mux.HandleFunc(api.AllSalesPath, func(w http.ResponseWriter, r *http.Request) {
		if hasMethod(w, r, http.MethodGet) {
			writeSales(w, server.sales(), server.config.Clock().Wall)
		}
	})
	mux.HandleFunc(api.OpenAPIPath, func(w http.ResponseWriter, r *http.Request) {
		if hasMethod(w, r, http.MethodGet) {
			getOpenAPI(w)
		}
	})
	mux.HandleFunc(api.SalesPath+"{sale}/drain", server.drain)
	mux.Handle("GET "+dashboard.Path, server.dashboard.Handler())
	mux.Handle("GET /{$}", http.RedirectHandler(dashboard.Path, http.StatusFound))
	if server.config.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(server.config.Metrics, promhttp.HandlerOpts{}))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch h, pattern := mux.Handler(r); {
		case !clean(r.URL.EscapedPath()): // the mux would redirect the client
			wire.WriteNoSuchPath(w)
		case pattern == "":
			refuseRoute(w, r, h)
		default:
			mux.ServeHTTP(w, r)
		}
	}
}

// clean reports whether a path has no empty parts, "." or "..".
func clean(p string) bool {
	return strings.TrimSuffix(p, "/") == strings.TrimSuffix(path.Clean(p), "/")
}

// refuseRoute writes a problem document for an unknown path or method, in place of the plain text
// that handler h of the mux would write.
func refuseRoute(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	response := discardWriter{header: http.Header{}}
	handler.ServeHTTP(&response, r)
	if allowed := response.header.Get("Allow"); response.status == http.StatusMethodNotAllowed {
		wire.WriteMethodNotAllowed(w, allowed)
		return
	}
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath)
	_, rest, _ = strings.Cut(rest, "/")
	switch kind, _, _ := strings.Cut(rest, "/"); kind {
	case "claims", "users", "stream", "events", "webhooks":
		wire.WriteOtherAddress(w, "This is the admin address: claims, users, streams, events and webhooks are at the address of --listen of 'salectl serve'.")
	default:
		wire.WriteNoSuchPath(w)
	}
}

// discardWriter is a ResponseWriter that keeps only the header and status.
type discardWriter struct {
	header http.Header
	status int
}

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) WriteHeader(status int)      { d.status = status }
func (d *discardWriter) Write(b []byte) (int, error) { return len(b), nil }
