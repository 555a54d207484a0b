package httpd

import (
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/wire"
)

// Admin answers operators: /healthz, /readyz, /openapi.json, how sales stand with all that is
// known of their lock nodes and shards, the pages of package dashboard and, if Config.Metrics is
// set, /metrics. It asks no one who only looks for a token; who may reach it is up to its
// listener. A refund needs a token that may operate, if there are tokens, and so does what an
// operator may have the process do (operate.go).
func (s *Server) Admin() http.Handler { return s.identified(s.admin()) }

func (s *Server) admin() http.HandlerFunc {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.AlivePath, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET "+api.ReadyPath, s.getReady)
	mux.HandleFunc(api.SalesPath+"{sale}/claims/{claim}/"+string(api.Refund), func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.letIn(w, r, access.MayOperate); ok {
			s.postSettlement(w, r, r.PathValue("sale"), r.PathValue("claim")+"/"+string(api.Refund))
		}
	})
	mux.HandleFunc(api.SalesPath+"{sale}", func(w http.ResponseWriter, r *http.Request) {
		s.withSale(w, r, http.MethodGet, r.PathValue("sale"), func(sale *sale) { s.getSale(w, sale, access.MayAll, true) })
	})
	mux.HandleFunc(api.AllSalesPath, func(w http.ResponseWriter, r *http.Request) { s.getSales(w, r) })
	mux.HandleFunc(api.OpenAPIPath, getOpenAPI)
	s.operators(mux)
	mux.Handle("GET "+dashboard.Path, s.dashboard.Handler())
	mux.Handle("GET /{$}", http.RedirectHandler(dashboard.Path, http.StatusFound))
	if s.gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch h, pattern := mux.Handler(r); {
		case !clean(r.URL.EscapedPath()): // the mux would send the client elsewhere
			wire.WriteNoSuchPath(w)
		case pattern == "":
			refuseRoute(w, r, h)
		default:
			mux.ServeHTTP(w, r)
		}
	}
}

// clean reports whether a path has no empty parts, and none that mean others.
func clean(p string) bool {
	return strings.TrimSuffix(p, "/") == strings.TrimSuffix(path.Clean(p), "/")
}

// refuseRoute says in a problem document that there is nothing at a path, or not with the method,
// as the handler would say in plain text.
func refuseRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	said := unsent{header: http.Header{}}
	h.ServeHTTP(&said, r)
	if allowed := said.header.Get("Allow"); said.status == http.StatusMethodNotAllowed {
		wire.WriteMethodNotAllowed(w, allowed)
		return
	}
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath)
	_, rest, _ = strings.Cut(rest, "/")
	switch kind, _, _ := strings.Cut(rest, "/"); kind {
	case "claims", "users", "stream", "events", "webhooks":
		wire.WriteOtherAddress(w, "This is the admin address: claims, users, streams, events and webhooks are at the address that 'salectl serve' was told with --listen.")
	default:
		wire.WriteNoSuchPath(w)
	}
}

// unsent is an answer that nobody gets.
type unsent struct {
	header http.Header
	status int
}

func (u *unsent) Header() http.Header         { return u.header }
func (u *unsent) WriteHeader(status int)      { u.status = status }
func (u *unsent) Write(b []byte) (int, error) { return len(b), nil }

// getReady says 200 only while every sale can be sold on every shard, but for those that have
// ended for good.
func (s *Server) getReady(w http.ResponseWriter, _ *http.Request) {
	view := api.Readiness{Ready: true, Sales: make([]api.SaleReadiness, 0, len(s.sales()))}
	say := func(name, why string, over bool) {
		one := api.SaleReadiness{Sale: name, Ready: why == "", Reason: why}
		view.Ready = view.Ready && (one.Ready || over)
		view.Sales = append(view.Sales, one)
	}
	sales, unserved := s.sales(), *s.unserved.Load()
	for name, sale := range sales {
		why := s.unready(sale)
		over := ledger.Over(sale.Status().Phase) && !s.goingDown()
		if lack, declared := unserved[name]; over && declared { // another run of it
			why, over = lack.Why, lack.Over
		}
		say(name, why, over)
	}
	for name, lack := range unserved {
		if sales[name] == nil {
			say(name, lack.Why, lack.Over)
		}
	}
	slices.SortFunc(view.Sales, func(a, b api.SaleReadiness) int { return strings.Compare(a.Sale, b.Sale) })
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	wire.WriteJSON(w, status, view)
}

func (s *Server) goingDown() bool { return s.draining.Load() || s.leaving.Load() }

// unready says why a sale cannot be sold on every shard; "": it can.
func (s *Server) unready(sale *sale) string {
	if s.goingDown() {
		return "the server is going down"
	}
	if err := sale.Ready(); err != nil {
		return err.Error()
	}
	return ""
}
