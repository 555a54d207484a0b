package httpd

import (
	"net/http"
	"net/url"
	"strconv"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

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
