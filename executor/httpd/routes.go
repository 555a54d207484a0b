package httpd

import (
	"cmp"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/stream"
	"salectl/executor/httpd/wire"
)

// route is the handler of one path, with the methods and the rights that it requires.
type route struct {
	methods string        // as in the header Allow; GET includes HEAD
	needs   access.Rights // of the token; 0: none is needed
	handle  handler
}

// handler answers a request or returns the Problem for which it refuses the request, as a wire.Handler does.
type handler = func(target, http.ResponseWriter, *http.Request) *wire.Problem

// target is the sale, id and rights that a request's path and token determine. Its methods are the handlers.
type target struct {
	*Server
	sale  *sale   // nil for a path of no single sale
	id    string  // of a claim or user: the part of the path at *, still escaped
	how   api.How // the part of the path after the id
	grant access.Grant
	admin bool // the request came to the admin address
}

// routes are the routes for buyers, by path. {sale} stands for the path of a sale, and * for an id.
var routes = map[string]route{
	api.OpenAPIPath:           {http.MethodGet, 0, target.getOpenAPI},
	api.AllSalesPath:          {http.MethodGet, access.MayClaim, target.getSales},
	"{sale}":                  {http.MethodGet, access.MayClaim, target.getSale},
	"{sale}/claims":           {http.MethodPost, access.MayClaim, counted(target.postClaim, (*saleMetrics).Count)},
	"{sale}/claims/*":         {http.MethodGet, access.MayClaim, target.getClaim},
	"{sale}/claims/*/confirm": {http.MethodPost, access.MayConfirm, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/return":  {http.MethodPost, access.MayConfirm, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/extend":  {http.MethodPost, access.MayClaim, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/cancel":  {http.MethodPost, access.MayClaim, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/users/*":          {http.MethodGet, access.MayClaim, target.getUser},
	"{sale}/events":           {http.MethodGet, access.MayFollow, target.getEvents},
	"{sale}/stream":           {http.MethodPost, access.MayClaim, target.postStream},
	"{sale}" + paymentPath:    {http.MethodPost, 0, counted(target.postWebhook, (*saleMetrics).countWebhook)},
}

// adminRoutes are the routes for operators. The address of buyers is open to every application that sells.
// No such application may refund a claim or drain a process, so both are here. Reading needs no token: the
// listener controls access.
var adminRoutes = map[string]route{
	api.AlivePath:            {http.MethodGet, 0, target.getAlive},
	api.ReadyPath:            {http.MethodGet, 0, target.getReady},
	api.OpenAPIPath:          {http.MethodGet, 0, target.getOpenAPI},
	api.AllSalesPath:         {http.MethodGet, 0, target.getSales},
	"{sale}":                 {http.MethodGet, 0, target.getSale},
	"{sale}/claims/*/return": {http.MethodPost, access.MayConfirm, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/refund": {http.MethodPost, access.MayOperate, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/drain":           {"GET, POST", access.MayOperate, target.drain},
	"/":                      {http.MethodGet, 0, target.redirectToDashboard},
	"/dashboard":             {http.MethodGet, 0, target.redirectToDashboard},
	"/metrics":               {http.MethodGet, 0, target.getMetrics},
}

// counted returns a handler that calls answer, and then count with the outcome and the duration. The outcome of
// a refusal is that of its Problem or, if it has none, rejected.
func counted(
	answer func(target, http.ResponseWriter, *http.Request) (label api.Outcome, _ *wire.Problem),
	count func(*saleMetrics, api.How, api.Outcome, time.Duration),
) handler {
	return func(target target, w http.ResponseWriter, r *http.Request) *wire.Problem {
		began := target.config.Clock().Mono
		label, refusal := answer(target, w, r)
		if refusal != nil {
			label = cmp.Or(refusal.Outcome, rejected)
		}
		count(target.sale.saleMetrics, target.how, label, target.config.Clock().Mono-began)
		wire.RecordOutcome(w, label)
		return refusal
	}
}

// answerBuyer answers a request to the address of buyers.
func (server *Server) answerBuyer(w http.ResponseWriter, r *http.Request) *wire.Problem {
	return server.route(w, r, routes, target{Server: server})
}

// adminHandler returns the handler of the admin address, for adminRoutes and the pages of package dashboard.
func (server *Server) adminHandler() wire.Handler {
	pages := server.dashboard.Handler()
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		p := r.URL.EscapedPath()
		if !strings.HasPrefix(p, dashboard.Path) || strings.TrimSuffix(p, "/") != path.Clean(p) { // the mux of dashboard would redirect an unclean path
			return server.route(w, r, adminRoutes, target{Server: server, admin: true})
		}
		refusal := checkMethod(r, http.MethodGet)
		if refusal == nil {
			pages.ServeHTTP(w, r)
		}
		return refusal
	}
}

// route calls the handler of a request's path in routes, or returns the Problem of a path, token or method
// that is not accepted.
//
// It does not use http.ServeMux, which would redirect the user ids "." and ".." to other pages. The 404 and
// 405 responses of ServeMux are no problem documents either.
func (server *Server) route(w http.ResponseWriter, r *http.Request, routes map[string]route, target target) *wire.Problem {
	path, name := r.URL.EscapedPath(), ""
	pattern := path // a key of routes; allocated on the stack for a claim
	below, ofSale := strings.CutPrefix(path, api.SalesPath)
	if ofSale {
		name, _, _ = strings.Cut(below, "/")
		rest := below[len(name):]
		kind := "/claims/"
		if strings.HasPrefix(rest, "/users/") {
			kind = "/users/"
		}
		if after, named := strings.CutPrefix(rest, kind); !named || rest == "/claims/" {
			pattern = "{sale}" + rest
		} else {
			var how string
			target.id, how, _ = strings.Cut(after, "/")
			target.how = api.How(how)
			pattern = "{sale}" + kind + "*" + after[len(target.id):]
		}
	}
	route, known := routes[pattern]
	needs := route.needs
	switch {
	case pattern == "{sale}/stream" && stream.FromPeer(r):
		needs = access.MayOperate
	case !known && ofSale && !target.admin:
		needs = access.MayClaim
	}
	var refusal *wire.Problem
	if needs != 0 {
		target.grant, refusal = server.authorize(r, needs)
	}
	if refusal == nil && !known {
		refusal = noSuchRoute(pattern)
	}
	if refusal == nil {
		refusal = checkMethod(r, route.methods)
	}
	switch {
	case refusal != nil:
		return refusal
	case ofSale:
		if pattern != "{sale}/stream" && !target.admin { // stream.Server waits for clients; a peer must not wait
			server.awaitOpened(r.Context())
		}
		if target.sale = server.sales()[name]; target.sale == nil {
			return server.notServed(name)
		}
	}
	return route.handle(target, w, r)
}

// noSuchRoute returns the problem of a path that does not exist at the address of the request. If it exists at
// the other address of the server, the outcome is bad_request, so that clients show the detail and do not retry.
func noSuchRoute(pattern string) *wire.Problem {
	_, ofBuyers := routes[pattern]
	_, ofAdmin := adminRoutes[pattern]
	switch {
	case ofBuyers:
		return wire.BadRequest(http.StatusNotFound, wire.NothingHere+
			"This is the admin address: claims, users, streams, events and webhooks are at the address of --listen of 'salectl serve'.")
	case ofAdmin && strings.HasPrefix(pattern, "{sale}"):
		return wire.BadRequest(http.StatusNotFound, wire.NothingHere+
			"Refunds and drains are requested at the admin address, that of --admin-listen of 'salectl serve'.")
	}
	return wire.NoSuchPath()
}

// authorize returns the rights of a request. It returns a Problem if the request lacks one of the rights needs,
// or was sent by a web page of another site.
func (server *Server) authorize(r *http.Request, needs access.Rights) (access.Grant, *wire.Problem) {
	grant := server.config.Tokens.OfRequest(r)
	missing := grant.May(needs)
	if missing == nil && access.CrossOrigin(r) {
		missing = wire.Forbidden("Web pages of other sites may not send this request.")
	}
	return grant, missing
}

// checkMethod returns a problem unless the method of a request is one of methods, as in route.
func checkMethod(r *http.Request, methods string) *wire.Problem {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for one := range strings.SplitSeq(methods, ", ") {
		if one == method {
			return nil
		}
	}
	p := wire.NewProblem(http.StatusMethodNotAllowed, "This path takes "+methods+".")
	p.Allow = methods
	return p
}

// notServed returns the problem of a request for a sale that the server does not serve. Either the sale does
// not exist, or the server cannot serve it yet.
func (server *Server) notServed(name string) *wire.Problem {
	p := wire.ProblemOf(api.NoSuchSale)
	if lack, declared := (*server.unserved.Load())[name]; declared && !lack.Absent {
		p = wire.ProblemOf(api.Standby)
		p.Detail = "This server cannot serve the sale yet; this request was not processed. Repeat it here, or at another process of the sale."
	}
	return p
}

// getAlive handles GET /healthz: the process answers requests.
func (target) getAlive(w http.ResponseWriter, _ *http.Request) *wire.Problem {
	io.WriteString(w, "ok\n")
	return nil
}

// redirectToDashboard handles GET / and /dashboard.
func (target) redirectToDashboard(w http.ResponseWriter, r *http.Request) *wire.Problem {
	http.Redirect(w, r, dashboard.Path, http.StatusFound)
	return nil
}

// getMetrics handles GET /metrics.
func (target target) getMetrics(w http.ResponseWriter, r *http.Request) *wire.Problem {
	if target.config.Metrics == nil {
		return wire.NoSuchPath()
	}
	promhttp.HandlerFor(target.config.Metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

// getEvents handles GET /v1/sales/{sale}/events.
func (target target) getEvents(w http.ResponseWriter, r *http.Request) *wire.Problem {
	return target.feeds.Serve(w, r, target.sale.feed, target.grant)
}

// postStream handles POST /v1/sales/{sale}/stream.
func (target target) postStream(w http.ResponseWriter, r *http.Request) *wire.Problem {
	return target.streams.Serve(w, r, target.sale, target.grant)
}
