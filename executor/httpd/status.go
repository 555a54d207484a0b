package httpd

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"gopkg.in/yaml.v3"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// getSales handles GET /v1/sales.
func (target target) getSales(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if !target.admin {
		target.awaitOpened(r.Context())
	}
	sales := target.sales()
	all := api.Sales{Sales: make([]api.SaleSummary, 0, len(sales)), ServerTime: target.config.Clock().Wall.UTC()}
	for _, name := range slices.Sorted(maps.Keys(sales)) {
		status := sales[name].Status()
		all.Sales = append(all.Sales, status.View(all.ServerTime).SaleSummary)
	}
	wire.WriteJSON(w, http.StatusOK, all)
	return nil
}

// getSale handles GET /v1/sales/{sale}. The response has more for a sender that may operate, and
// yet more at the admin address.
func (target target) getSale(w http.ResponseWriter, _ *http.Request) *wire.Problem {
	sale, admin := target.sale, target.admin
	status, operates := sale.Status(), target.grant.Rights()&access.MayOperate != 0
	if status.Outcome != "" {
		p := wire.ProblemOf(status.Outcome)
		if operates && p.Status == http.StatusServiceUnavailable { // what is known
			p.Known = sale.operations(&status, admin)
		}
		return p
	}
	view := status.View(sale.clock().Wall)
	if operates {
		view.Known = *sale.operations(&status, admin)
	}
	wire.WriteJSON(w, http.StatusOK, view)
	return nil
}

// getReady returns 200 only while every sale can sell on every shard, except those that have ended.
func (target target) getReady(w http.ResponseWriter, _ *http.Request) *wire.Problem {
	sales, unserved := target.sales(), *target.unserved.Load()
	names := slices.AppendSeq(slices.Collect(maps.Keys(sales)), maps.Keys(unserved))
	slices.Sort(names)
	names = slices.Compact(names)
	view := api.Readiness{Ready: true, Sales: make([]api.SaleReadiness, 0, len(names))}
	for _, name := range names {
		sale, why, over := sales[name], unserved[name].Why, unserved[name].Over
		if sale != nil {
			_, another := unserved[name] // another run of the sale is declared
			ended := ledger.Over(sale.Status().Phase) && !target.goingDown()
			if !ended || !another {
				why, over = target.unready(sale), ended
			}
		}
		view.Ready = view.Ready && (why == "" || over)
		view.Sales = append(view.Sales, api.SaleReadiness{Sale: name, Ready: why == "", Reason: why})
	}
	status := http.StatusOK
	if !view.Ready {
		status = http.StatusServiceUnavailable
	}
	wire.WriteJSON(w, status, view)
	return nil
}

// openAPI returns the OpenAPI document as JSON, converted once. A test ensures that it is valid YAML.
var openAPI = sync.OnceValue(func() []byte {
	var document map[string]any
	if err := yaml.Unmarshal([]byte(api.OpenAPI), &document); err != nil {
		panic(err)
	}
	return wire.MustMarshal(document)
})

// getOpenAPI handles GET /openapi.json. It needs no token: the document concerns no sale.
func (target) getOpenAPI(w http.ResponseWriter, _ *http.Request) *wire.Problem {
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(openAPI())
	return nil
}

// getUser handles GET /v1/sales/{sale}/users/{user}.
func (target target) getUser(w http.ResponseWriter, r *http.Request) *wire.Problem {
	sale := target.sale
	user, _ := url.PathUnescape(target.id) // URL.EscapedPath returns valid escapes
	if err := api.CheckUser(user); err != nil {
		return wire.Unacceptable(err)
	}
	page, f := pageOf(r)
	if f != nil {
		return f
	}
	a := sale.Do(r.Context(), executor.Request{Query: &executor.Query{User: user, Page: page}})
	sale.setPlace(w.Header(), sale.Place(user))
	if a.Outcome != "" {
		return wire.Refusal(sale.name, sale.clock, &a)
	}
	wire.WriteBody(w, http.StatusOK, wire.AppendUser(nil, sale.name, user, a.Claims, a.Next))
	return nil
}

// pageOf returns the page that a request specifies.
func pageOf(r *http.Request) (p api.Page, _ *wire.Problem) {
	query, f := wire.ParseQuery(r, "before", "limit")
	if f != nil {
		return p, f
	}
	p.Before = query.Get("before")
	if query.Has("limit") {
		text := query.Get("limit")
		if p.Limit, _ = strconv.Atoi(text); p.Limit < 1 || text != strconv.Itoa(p.Limit) {
			p.Limit = -1
		}
	}
	if err := p.Check(); err != nil {
		return p, wire.Unacceptable(err)
	}
	return p, nil
}

// getClaim handles GET /v1/sales/{sale}/claims/{claim}.
func (target target) getClaim(w http.ResponseWriter, r *http.Request) *wire.Problem {
	sale := target.sale
	id, ok := api.ParseClaimID(target.id)
	a := executor.Answer{Outcome: api.NoSuchClaim}
	page, f := pageOf(r)
	if f != nil {
		return f
	}
	if ok {
		a = sale.Do(r.Context(), executor.Request{Query: &executor.Query{Claim: id, Page: page}})
		sale.setPlace(w.Header(), sale.PlaceOf(id.Shard))
	}
	if a.Outcome != "" {
		return wire.Refusal(sale.name, sale.clock, &a)
	}
	wire.WriteBody(w, http.StatusOK, wire.AppendClaim(nil, a.Claim.State, sale.name, &a.Claim))
	return nil
}
