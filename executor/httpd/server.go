package httpd

import (
	"context"
	"net/http"
	"sync/atomic"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/events"
	"salectl/executor/httpd/stream"
	"salectl/executor/httpd/wire"
	"salectl/executor/reload"
)

// Server answers HTTP requests for one or several sales. New makes one.
type Server struct {
	config    Config // with its defaults
	metrics   *metrics
	dashboard *dashboard.Dashboard
	streams   *stream.Server
	feeds     *events.Server
	bodies    *access.Memory // of large bodies in transfer
	unsigned  *access.Memory // of messages with unverified signatures

	served   atomic.Pointer[map[string]*sale]       // by name; replaced as a whole
	unserved atomic.Pointer[map[string]reload.Lack] // see Declare

	draining atomic.Bool // set once by Serve: claims are refused
	leaving  atomic.Bool // see Retire
	retired  atomic.Bool // see Retired
	buyers   atomic.Pointer[http.Server]
}

// sales returns the served sales, by name.
func (server *Server) sales() map[string]*sale { return *server.served.Load() }

// awaitOpened blocks until requests may be answered or ctx ends.
func (server *Server) awaitOpened(ctx context.Context) {
	if server.config.Opened == nil {
		return
	}
	select {
	case <-server.config.Opened:
	case <-ctx.Done():
	}
}

// goingDown reports whether the server is about to exit or drains.
func (server *Server) goingDown() bool { return server.draining.Load() || server.leaving.Load() }

// unready returns the reason why some shard of a sale cannot sell, or "".
func (server *Server) unready(sale *sale) string {
	if server.goingDown() {
		return "the server is going down"
	}
	if err := sale.Ready(); err != nil {
		return err.Error()
	}
	return ""
}

// writeNotServed answers a request for a sale that is not served here: the sale does not exist, or
// this server should serve it but cannot yet.
func (server *Server) writeNotServed(w http.ResponseWriter, name string) {
	p := wire.ProblemOf(api.NoSuchSale)
	if lack, declared := (*server.unserved.Load())[name]; declared && !lack.Absent {
		p = wire.ProblemOf(api.Standby)
		p.Detail = "This server is to serve the sale, and cannot yet; this request was not looked at. Ask again, here or at another process of the sale."
	}
	p.Write(w)
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
		wire.WriteForbidden(w, "Web pages of other sites may not do this.")
		return grant, false
	}
	return grant, true
}

// hasMethod reports whether a request has the method, or HEAD for GET. If not, it writes the response.
func hasMethod(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
		return true
	}
	wire.WriteMethodNotAllowed(w, method)
	return false
}

// withSale calls f with the named sale if it is served here and the request has the method.
// Otherwise it writes the response.
func (server *Server) withSale(w http.ResponseWriter, r *http.Request, method, name string, f func(*sale)) {
	if !hasMethod(w, r, method) {
		return
	}
	sale, ok := server.sales()[name]
	if !ok {
		server.writeNotServed(w, name)
		return
	}
	f(sale)
}
