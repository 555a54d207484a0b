// Package httpd serves sales over HTTP.
//
// An answer means what the executor reported: 201 and 200 only for durable claims, 503 `unknown`
// for every unknown outcome, and one status per outcome (api.Outcomes). The package makes no
// decision about stock, users or time, which belong to the executor. It checks the form of
// requests, so that an executor gets only well-formed ones.
//
// Buyers and operators have separate addresses. Serve answers /v1/...; ServeAdmin answers /healthz,
// /readyz, /metrics and the dashboard, and refunds claims. A request passes through serve.go
// (listener, limits, request id), routes.go (route, token, method, sale) and one handler, such as
// that of claim.go. The handler calls the sale and writes its answer, or returns a refusal, with package
// wire, which alone writes refusals.
// Packages stream and events serve long-lived requests: streams and feeds. Package access provides
// tokens, certificates and limits.
//
// A Server is open from the start (or Config.Opened). After Retire it is not ready but still
// answers. It drains when the context of Serve ends: it refuses claims, or forwards them to peers
// (Retired), and answers requests in flight.
package httpd

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/events"
	"salectl/executor/httpd/stream"
	"salectl/executor/payments"
	"salectl/executor/reload"
)

// Config configures a Server. Only Sales is required.
type Config struct {
	// Sales are the sales to serve, without payments. Their names differ.
	Sales []executor.Service

	// Tokens are the accepted tokens. nil permits everything.
	Tokens *access.Tokens

	// Certificates provide TLS. Without a server certificate, Serve and ServeAdmin use plain HTTP.
	Certificates *access.Certificates

	// Hosts are names that loopback listeners accept, in addition to the usual ones.
	Hosts []string

	// Address is the address of this process for others; "": unknown.
	Address string

	// Opened is closed when requests may be answered. Earlier requests wait, except streams of
	// peers. nil means from the start.
	Opened <-chan struct{}

	// Streams limits the open streams of clients, and separately those of other processes. Zero
	// means stream.DefaultLimit.
	Streams int

	// Followers limits the open feeds. Zero means events.DefaultLimit.
	Followers int

	// Connections limits the open connections of buyers. Zero means MostConnections. ServeAdmin has
	// a limit of its own, AdminConnections.
	Connections int

	// ClaimTimeout is the time after which a claim or a settlement is answered `unknown`. Zero
	// means DefaultClaimTimeout.
	ClaimTimeout time.Duration

	// DrainTimeout is how long Serve waits for requests in flight at its end. Zero means slightly
	// more than ClaimTimeout, by which time every claim has its answer.
	DrainTimeout time.Duration

	// IdleTimeout is the timeout of an idle connection. Zero means DefaultIdleTimeout.
	IdleTimeout time.Duration

	// Clock provides the time of answers and timeouts. nil means the system's.
	Clock clock.Clock

	// Log receives errors and, at level debug, a line for each request. nil means slog's default.
	Log *slog.Logger

	// Metrics provides /metrics; the Collectors must be registered there. nil disables /metrics.
	Metrics prometheus.Gatherer
}

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

// DefaultClaimTimeout is the default of Config.ClaimTimeout.
const DefaultClaimTimeout = 5 * time.Second

// DefaultIdleTimeout is the default of Config.IdleTimeout. It must exceed that of load balancers,
// most of which keep connections for 60 seconds. Otherwise one would send a request into a
// connection that is being closed.
const DefaultIdleTimeout = 75 * time.Second

// Limits of open connections: the default for buyers, and that of the admin address. The latter
// exceeds the viewers of the dashboard, to leave some for health checks and metrics.
const (
	MostConnections  = 20_000
	AdminConnections = 16 + dashboard.MostViewers
)

// New returns a Server. It starts nothing.
func New(config Config) *Server {
	config.Connections = cmp.Or(config.Connections, MostConnections)
	config.Streams = cmp.Or(config.Streams, stream.DefaultLimit)
	config.Followers = cmp.Or(config.Followers, events.DefaultLimit)
	config.ClaimTimeout = cmp.Or(config.ClaimTimeout, DefaultClaimTimeout)
	config.DrainTimeout = cmp.Or(config.DrainTimeout, config.ClaimTimeout+5*time.Second)
	config.IdleTimeout = cmp.Or(config.IdleTimeout, DefaultIdleTimeout)
	config.Log = cmp.Or(config.Log, slog.Default())
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	s := &Server{
		config:    config,
		metrics:   newMetrics(),
		dashboard: dashboard.New(config.Address, dashboard.MostViewers, config.Clock),
		bodies:    access.NewMemory(maxBodies),
		unsigned:  access.NewMemory(maxUnsigned),
	}
	s.streams, s.feeds = stream.New(s.streamConfig()), events.New(s.feedConfig())
	s.served.Store(&map[string]*sale{})
	s.unserved.Store(new(map[string]reload.Lack))
	for _, service := range config.Sales {
		s.Add(service, nil, nil)
	}
	return s
}

// streamConfig returns the configuration of streams.
func (server *Server) streamConfig() stream.Config {
	c := &server.config
	return stream.Config{
		Tokens: c.Tokens, Limit: c.Streams, Address: c.Address, AwaitOpened: server.awaitOpened, Draining: server.draining.Load,
		ClaimTimeout: c.ClaimTimeout, DrainTimeout: c.DrainTimeout, WriteTimeout: writeTimeout, Clock: c.Clock,
	}
}

// feedConfig returns the configuration of feeds.
func (server *Server) feedConfig() events.Config {
	return events.Config{
		Limit: server.config.Followers, BeginTimeout: 10 * time.Second, Heartbeat: 10 * time.Second, WriteTimeout: writeTimeout,
		Clock: server.config.Clock, Log: server.config.Log, Leaving: server.leaving.Load,
	}
}

// Add starts serving a sale. The health of checker is shown with the sale, and webhook reads messages of
// the payment service; each may be nil. Add must not be called concurrently with itself or Remove.
func (server *Server) Add(service executor.Service, checker *payments.Checker, webhook *payments.Webhook) {
	name, all := service.Sale(), maps.Clone(server.sales())
	added := &sale{
		Service: service, saleMetrics: server.metrics.of(name), name: name, clock: server.config.Clock, log: server.config.Log, feed: events.NewSale(name, service),
		checker: checker, webhook: webhook,
	}
	all[name] = added
	server.served.Store(&all)
	server.dashboard.Add(dashboard.Sale{Name: name, State: func() dashboard.State { return added.dashboardState(server.unready(added)) }})
}

// Remove stops serving a sale and drops its metrics.
func (server *Server) Remove(name string) {
	gone := server.sales()[name]
	if gone == nil {
		return
	}
	all := maps.Clone(server.sales())
	delete(all, name)
	server.served.Store(&all)
	gone.removed.Store(true)
	server.streams.GoAway(gone)
	server.dashboard.Remove(name)
	server.metrics.forget(name)
}

// Declare sets the sales that this server should serve but does not, by name. While one of them is
// not over, the server is not ready. The answer to a request for one that may exist is to retry.
func (server *Server) Declare(unserved map[string]reload.Lack) { server.unserved.Store(&unserved) }

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
		return "the server is shutting down"
	}
	if err := sale.Ready(); err != nil {
		return err.Error()
	}
	return ""
}
