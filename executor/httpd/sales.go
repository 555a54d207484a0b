package httpd

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/httpd/wire"
)

// getSales answers GET /v1/sales.
func (s *Server) getSales(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		wire.WriteMethodNotAllowed(w, http.MethodGet)
		return
	}
	all := api.Sales{Sales: make([]api.SaleSummary, 0, len(s.sales())), ServerTime: s.now().Wall.UTC()}
	for _, name := range slices.Sorted(maps.Keys(s.sales())) {
		all.Sales = append(all.Sales, s.summary(s.sales()[name]))
	}
	wire.WriteJSON(w, http.StatusOK, all)
}

// summary is the most important of how a sale stands.
func (s *Server) summary(sale *sale) api.SaleSummary {
	status := sale.Status()
	if status.Away != "" {
		return api.SaleSummary{Sale: sale.name, Phase: cmp.Or(status.Phase, ledger.PhaseUnknown), Outcome: status.Away}
	}
	v := sale.stands(&status, s.now().Wall)
	return api.SaleSummary{
		Sale: v.Sale, UID: v.UID, Generation: v.Generation, Phase: v.Phase, SoldOut: v.SoldOut,
		Stock: v.Stock, Available: v.Available, Held: v.Held, Sold: v.Sold, OpensAt: v.OpensAt, ClosesAt: v.ClosesAt,
	}
}
