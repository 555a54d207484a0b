package httpd

import (
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"salectl/api"
)

// Admin answers operators: /healthz, /readyz and, if Config.Metrics is set,
// /metrics. It asks no one who only looks for a token; who may reach it is up to its
// listener. A refund needs the token, if there is one, and so does what an operator may have
// the process do (operate.go).
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.AlivePath, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET "+api.ReadyPath, s.getReady)
	mux.HandleFunc(api.SalesPath+"{sale}/claims/{claim}/"+string(api.Refund), func(w http.ResponseWriter, r *http.Request) {
		if s.letIn(w, r) {
			s.postSettlement(w, r, r.PathValue("sale"), r.PathValue("claim")+"/"+string(api.Refund))
		}
	})
	s.operators(mux)
	if s.gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}))
	}
	return mux
}

// getReady says 200 only while every sale can be sold on every shard.
func (s *Server) getReady(w http.ResponseWriter, _ *http.Request) {
	view := api.Readiness{Ready: true, Sales: make([]api.SaleReadiness, 0, len(s.sales))}
	for _, name := range slices.Sorted(maps.Keys(s.sales)) {
		one := api.SaleReadiness{Sale: name, Ready: true}
		if s.draining.Load() || s.leaving.Load() {
			one = api.SaleReadiness{Sale: name, Reason: "the server is going down"}
		} else if err := s.sales[name].Ready(); err != nil {
			one = api.SaleReadiness{Sale: name, Reason: err.Error()}
		}
		view.Ready = view.Ready && one.Ready
		view.Sales = append(view.Sales, one)
	}
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, view)
}
