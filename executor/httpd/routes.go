package httpd

import (
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

type handler = func(*Server, http.ResponseWriter, *http.Request, target)

// target is what the path and the token of a request determine.
type target struct {
	sale  *sale  // nil for a path of no single sale
	id    string // in place of * in the path, with its escapes
	how   api.How
	grant access.Grant
	admin bool // the request came to the admin address
}

// routes are the paths for buyers. {sale} is a placeholder for the path of a sale, and * for an id.
var routes = map[string]route{
	api.OpenAPIPath:           {http.MethodGet, 0, (*Server).getOpenAPI},
	api.AllSalesPath:          {http.MethodGet, access.MayClaim, (*Server).getSales},
	"{sale}":                  {http.MethodGet, access.MayClaim, (*Server).getSale},
	"{sale}/claims":           {http.MethodPost, access.MayClaim, counted((*Server).postClaim, (*saleMetrics).Count)},
	"{sale}/claims/*":         {http.MethodGet, access.MayClaim, (*Server).getClaim},
	"{sale}/claims/*/confirm": {http.MethodPost, access.MayConfirm, counted((*Server).postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/extend":  {http.MethodPost, access.MayClaim, counted((*Server).postSettlement, (*saleMetrics).Count)},
	"{sale}/claims/*/cancel":  {http.MethodPost, access.MayClaim, counted((*Server).postSettlement, (*saleMetrics).Count)},
	"{sale}/users/*":          {http.MethodGet, access.MayClaim, (*Server).getUser},
	"{sale}/events":           {http.MethodGet, access.MayFollow, (*Server).getEvents},
	"{sale}/stream":           {http.MethodPost, access.MayClaim, (*Server).postStream},
	"{sale}" + paymentPath:    {http.MethodPost, 0, counted((*Server).postWebhook, (*saleMetrics).countWebhook)},
}

// adminRoutes are the paths for operators. The address of buyers is open to every application that
// sells. None of these may refund a claim or take a process out of service, so both are here. Reading
// needs no token: the listener controls access.
var adminRoutes = map[string]route{
	api.AlivePath:            {http.MethodGet, 0, (*Server).getAlive},
	api.ReadyPath:            {http.MethodGet, 0, (*Server).getReady},
	api.OpenAPIPath:          {http.MethodGet, 0, (*Server).getOpenAPI},
	api.AllSalesPath:         {http.MethodGet, 0, (*Server).getSales},
	"{sale}":                 {http.MethodGet, 0, (*Server).getSale},
	"{sale}/claims/*/refund": {http.MethodPost, access.MayOperate, counted((*Server).postSettlement, (*saleMetrics).Count)},
	"{sale}/drain":           {"GET, POST", access.MayOperate, (*Server).drain},
	"/":                      {http.MethodGet, 0, (*Server).getRoot},
	"/dashboard":             {http.MethodGet, 0, (*Server).getRoot},
	"/metrics":               {http.MethodGet, 0, (*Server).getMetrics},
}

// counted returns a handler that counts its answers and their durations.
func counted(
	answer func(*Server, http.ResponseWriter, *http.Request, target) (label api.Outcome),
	count func(*saleMetrics, api.How, api.Outcome, time.Duration),
) handler {
	return func(server *Server, w http.ResponseWriter, r *http.Request, t target) {
		began := server.config.Clock().Mono
		label := answer(server, w, r, t)
		count(t.sale.saleMetrics, t.how, label, server.config.Clock().Mono-began)
		wire.RecordOutcome(w, label)
	}
}

// answer handles a request of buyers.
func (server *Server) answer(w http.ResponseWriter, r *http.Request) {
	server.route(w, r, routes, target{})
}

// admin returns a handler for operators: /healthz, /readyz, /openapi.json, the state of sales with
// their lock nodes and shards, the pages of package dashboard and, if Config.Metrics is set,
// /metrics. A refund and a drain need a token that may operate, if there are tokens.
func (server *Server) admin() http.HandlerFunc {
	pages := server.dashboard.Handler()
	return func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.EscapedPath()
		if !strings.HasPrefix(p, dashboard.Path) || strings.TrimSuffix(p, "/") != path.Clean(p) { // its mux would redirect the latter
			server.route(w, r, adminRoutes, target{admin: true})
		} else if hasMethod(w, r, http.MethodGet) {
			pages.ServeHTTP(w, r)
		}
	}
}

// route calls the handler of a request's path, or writes why it must not.
//
// It parses paths without http.ServeMux for two reasons. The id of a user may be any text, and
// ServeMux would redirect the ids "." and ".." to other pages. And its 404 and 405 responses are no
// problem documents.
func (server *Server) route(w http.ResponseWriter, r *http.Request, routes map[string]route, t target) {
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
	needs, ok := route.needs, true
	switch {
	case pattern == "{sale}/stream" && stream.FromPeer(r):
		needs = access.MayOperate
	case !known && ofSale && !t.admin:
		needs = access.MayClaim
	}
	if needs != 0 {
		t.grant, ok = server.letIn(w, r, needs)
	}
	switch {
	case !ok:
		return
	case !known:
		refuseRoute(w, pattern)
		return
	case !hasMethod(w, r, route.methods):
		return
	case ofSale:
		if pattern != "{sale}/stream" && !t.admin { // a stream of clients waits itself; one of a peer must not wait
			server.awaitOpened(r.Context())
		}
		if t.sale = server.sales()[name]; t.sale == nil {
			server.writeNotServed(w, name)
			return
		}
	}
	route.handle(server, w, r, t)
}

// refuseRoute answers a request for a path that the address does not have. If the server has the path at
// its other address, the outcome is bad_request, which clients show and do not send again.
func refuseRoute(w http.ResponseWriter, pattern string) {
	otherAddress := func(detail string) { wire.BadRequest(http.StatusNotFound, wire.NothingHere+detail).Write(w) }
	_, ofBuyers := routes[pattern]
	_, ofAdmin := adminRoutes[pattern]
	switch {
	case ofBuyers:
		otherAddress("This is the admin address: claims, users, streams, events and webhooks are at the address of --listen of 'salectl serve'.")
	case ofAdmin && strings.HasPrefix(pattern, "{sale}"):
		otherAddress("Refunds and drains are requested at the admin address, that of --admin-listen of 'salectl serve'.")
	default:
		wire.WriteNoSuchPath(w)
	}
}

// letIn reports whether the token of a request has a right. If not, it writes the response.
func (server *Server) letIn(w http.ResponseWriter, r *http.Request, needs access.Rights) (grant access.Grant, ok bool) {
	grant = server.config.Tokens.OfRequest(r)
	switch missing := grant.May(needs); {
	case missing != nil:
		missing.SetChallenge(w.Header(), r)
		missing.Write(w)
		return grant, false
	case access.CrossOrigin(r):
		wire.WriteForbidden(w, "Web pages of other sites may not send this request.")
		return grant, false
	}
	return grant, true
}

// hasMethod reports whether a request has one of the methods. If not, it writes the response.
func hasMethod(w http.ResponseWriter, r *http.Request, methods string) bool {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for one := range strings.SplitSeq(methods, ", ") {
		if one == method {
			return true
		}
	}
	w.Header().Set("Allow", methods)
	wire.NewProblem(http.StatusMethodNotAllowed, "This path takes "+methods+".").Write(w)
	return false
}

// writeNotServed answers a request for a sale that is not served here: the sale does not exist, or
// this server should serve it but cannot yet.
func (server *Server) writeNotServed(w http.ResponseWriter, name string) {
	p := wire.ProblemOf(api.NoSuchSale)
	if lack, declared := (*server.unserved.Load())[name]; declared && !lack.Absent {
		p = wire.ProblemOf(api.Standby)
		p.Detail = "This server cannot serve the sale yet; this request was not processed. Repeat it here, or at another process of the sale."
	}
	p.Write(w)
}

func (server *Server) getAlive(w http.ResponseWriter, _ *http.Request, _ target) {
	io.WriteString(w, "ok\n")
}

func (server *Server) getRoot(w http.ResponseWriter, r *http.Request, _ target) {
	http.Redirect(w, r, dashboard.Path, http.StatusFound)
}

func (server *Server) getMetrics(w http.ResponseWriter, r *http.Request, _ target) {
	if server.config.Metrics == nil {
		wire.WriteNoSuchPath(w)
		return
	}
	promhttp.HandlerFor(server.config.Metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// getEvents handles GET /v1/sales/{sale}/events.
func (server *Server) getEvents(w http.ResponseWriter, r *http.Request, t target) {
	server.feeds.Serve(w, r, t.sale.feed, t.grant)
}

// postStream handles POST /v1/sales/{sale}/stream.
func (server *Server) postStream(w http.ResponseWriter, r *http.Request, t target) {
	server.streams.Serve(w, r, t.sale, t.grant)
}
