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

// route answers the requests for one path.
type route struct {
	methods string        // as in the header Allow; GET includes HEAD
	needs   access.Rights // of the token; 0: none is needed
	handle  handler
}

// handler answers a request or returns why it refuses it, as a wire.Handler does.
type handler = func(target, http.ResponseWriter, *http.Request) *wire.Problem

// target is what the path and the token of a request determine. Its methods are the handlers.
type target struct {
	*Server
	sale  *sale  // nil for a path of no single sale
	id    string // in place of * in the path, with its escapes
	how   api.How
	grant access.Grant
	admin bool // the request came to the admin address
}

// routes are the paths for buyers. {sale} is a placeholder for the path of a sale, and * for an id.
var routes = map[string]route{
	api.OpenAPIPath:           {http.MethodGet, 0, target.getOpenAPI},
	api.AllSalesPath:          {http.MethodGet, access.MayClaim, target.getSales},
	"{sale}":                  {http.MethodGet, access.MayClaim, target.getSale},
	"{sale}/claims":           {http.MethodPost, access.MayClaim, counted(target.postClaim, (*saleMetrics).Count)},
	"{sale}/claims/*":         {http.MethodGet, access.MayClaim, target.getClaim},
	"{sale}/claims/*/confirm": {http.MethodPost, access.MayConfirm, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/extend":  {http.MethodPost, access.MayClaim, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/cancel":  {http.MethodPost, access.MayClaim, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/users/*":          {http.MethodGet, access.MayClaim, target.getUser},
	"{sale}/events":           {http.MethodGet, access.MayFollow, target.getEvents},
	"{sale}/stream":           {http.MethodPost, access.MayClaim, target.postStream},
	"{sale}" + paymentPath:    {http.MethodPost, 0, counted(target.postWebhook, (*saleMetrics).countWebhook)},
}

// adminRoutes are the paths for operators. The address of buyers is open to every application that
// sells. None of these may refund a claim or take a process out of service, so both are here. Reading
// needs no token: the listener controls access.
var adminRoutes = map[string]route{
	api.AlivePath:            {http.MethodGet, 0, target.getAlive},
	api.ReadyPath:            {http.MethodGet, 0, target.getReady},
	api.OpenAPIPath:          {http.MethodGet, 0, target.getOpenAPI},
	api.AllSalesPath:         {http.MethodGet, 0, target.getSales},
	"{sale}":                 {http.MethodGet, 0, target.getSale},
	"{sale}/claims/*/refund": {http.MethodPost, access.MayOperate, counted(target.postSettlement, (*saleMetrics).Count)},
	"{sale}/drain":           {"GET, POST", access.MayOperate, target.drain},
	"/":                      {http.MethodGet, 0, target.getRoot},
	"/dashboard":             {http.MethodGet, 0, target.getRoot},
	"/metrics":               {http.MethodGet, 0, target.getMetrics},
}

// counted returns a handler that counts its answers and their durations. The label of a refusal is its
// outcome; a refusal that is not about a claim has none, and counts as rejected.
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

// answer handles a request of buyers.
func (server *Server) answer(w http.ResponseWriter, r *http.Request) *wire.Problem {
	return server.route(w, r, routes, target{Server: server})
}

// admin returns a handler for operators: /healthz, /readyz, /openapi.json, the state of sales with
// their lock nodes and shards, the pages of package dashboard and, if Config.Metrics is set,
// /metrics. A refund and a drain need a token that may operate, if there are tokens.
func (server *Server) admin() wire.Handler {
	pages := server.dashboard.Handler()
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		p := r.URL.EscapedPath()
		if !strings.HasPrefix(p, dashboard.Path) || strings.TrimSuffix(p, "/") != path.Clean(p) { // its mux would redirect the latter
			return server.route(w, r, adminRoutes, target{Server: server, admin: true})
		}
		refusal := checkMethod(r, http.MethodGet)
		if refusal == nil {
			pages.ServeHTTP(w, r)
		}
		return refusal
	}
}

// route calls the handler of a request's path, or returns why it must not.
//
// It parses paths without http.ServeMux for two reasons. The id of a user may be any text, and
// ServeMux would redirect the ids "." and ".." to other pages. And its 404 and 405 responses are no
// problem documents.
func (server *Server) route(w http.ResponseWriter, r *http.Request, routes map[string]route, t target) *wire.Problem {
	path, name := r.URL.EscapedPath(), ""
	pattern := path // of a claim, on the stack
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
			t.id, how, _ = strings.Cut(after, "/")
			t.how = api.How(how)
			pattern = "{sale}" + kind + "*" + after[len(t.id):]
		}
	}
	route, known := routes[pattern]
	needs := route.needs
	switch {
	case pattern == "{sale}/stream" && stream.FromPeer(r):
		needs = access.MayOperate
	case !known && ofSale && !t.admin:
		needs = access.MayClaim
	}
	var refusal *wire.Problem
	if needs != 0 {
		t.grant, refusal = server.letIn(r, needs)
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
		if pattern != "{sale}/stream" && !t.admin { // a stream of clients waits itself; one of a peer must not wait
			server.awaitOpened(r.Context())
		}
		if t.sale = server.sales()[name]; t.sale == nil {
			return server.notServed(name)
		}
	}
	return route.handle(t, w, r)
}

// noSuchRoute returns the problem of a path that the address does not have. If the server has the path at
// its other address, the outcome is bad_request, which clients show and do not send again.
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

// letIn returns the rights of a request, and why it must not be answered, if its token lacks one.
func (server *Server) letIn(r *http.Request, needs access.Rights) (access.Grant, *wire.Problem) {
	grant := server.config.Tokens.OfRequest(r)
	missing := grant.May(needs)
	if missing == nil && access.CrossOrigin(r) {
		missing = wire.Forbidden("Web pages of other sites may not send this request.")
	}
	return grant, missing
}

// checkMethod returns a problem unless a request has one of the methods.
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

// notServed returns the problem of a sale that is not served here: the sale does not exist, or this
// server should serve it but cannot yet.
func (server *Server) notServed(name string) *wire.Problem {
	p := wire.ProblemOf(api.NoSuchSale)
	if lack, declared := (*server.unserved.Load())[name]; declared && !lack.Absent {
		p = wire.ProblemOf(api.Standby)
		p.Detail = "This server cannot serve the sale yet; this request was not processed. Repeat it here, or at another process of the sale."
	}
	return p
}

func (target) getAlive(w http.ResponseWriter, _ *http.Request) *wire.Problem {
	io.WriteString(w, "ok\n")
	return nil
}

func (target) getRoot(w http.ResponseWriter, r *http.Request) *wire.Problem {
	http.Redirect(w, r, dashboard.Path, http.StatusFound)
	return nil
}

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
