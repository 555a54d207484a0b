// Package httpd serves sales over HTTP.
//
// It guarantees that an answer means what the executor said: 201 and 200 only for claims that are durable, 503
// `unknown` wherever the outcome is not known, and the same status for the same outcome everywhere
// (api.Outcomes). It decides nothing about stock, users or time, which is left to the executor, but
// checks the form of requests, so that an executor only gets well-formed ones.
//
// Buyers and operators have an address each: Serve answers /v1/..., ServeAdmin answers /healthz, /readyz,
// /metrics and the dashboard, and refunds claims. A request passes through serve.go (listener, bounds,
// request id), buyers.go or admin.go (route, token, method, sale) and one handler, such as claim.go, which
// calls the sale and writes its answer by package wire. Streams and feeds are requests that last: packages
// stream and events serve them. Package access has tokens, certificates and bounds.
//
// A Server is open from the start (or Config.Opened), may be leaving (Retire: not ready, but it answers),
// and drains when the context of Serve ends: claims are refused, or still passed on to peers (Retired),
// and requests in flight are answered.
package httpd

import (
	"log/slog"
	"maps"
	"net/http"
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

// Config is what a Server needs. Only Sales is required.
type Config struct {
	// Sales are what is sold here. Their names differ.
	Sales []executor.Service

	// Payments are the checks and webhooks of the sales that may have them, by name.
	Payments map[string]Payments

	// Tokens are those that senders of requests must have. nil: everything is permitted.
	Tokens *access.Tokens

	// Certificates are for TLS. Without one of the server, Serve and ServeAdmin speak plain HTTP.
	Certificates *access.Certificates

	// Hosts are names by which loopback listeners are reached, beside the usual ones.
	Hosts []string

	// Address is that of this process for others; "": unknown.
	Address string

	// Peers takes streams of other processes. nil: they are refused.
	Peers stream.Peers

	// Opened is closed when requests may be answered: earlier ones wait, except streams of peers. nil: from
	// the start.
	Opened <-chan struct{}

	// Streams bounds the open streams of clients, and those of other processes. Zero:
	// stream.DefaultLimit.
	Streams int

	// Followers bounds the open feeds. Zero: events.DefaultLimit.
	Followers int

	// Connections bounds the open connections of buyers. Zero: MostConnections. ServeAdmin has
	// AdminConnections of its own.
	Connections int

	// ClaimTimeout is how long a claim or a settlement may take before it is answered `unknown`. Zero:
	// DefaultClaimTimeout.
	ClaimTimeout time.Duration

	// DrainTimeout is how long Serve waits for requests in flight when it ends. Zero: ClaimTimeout and a
	// little more, by which time every claim has its answer.
	DrainTimeout time.Duration

	// IdleTimeout is how long an idle connection is kept. Zero: DefaultIdleTimeout.
	IdleTimeout time.Duration

	// Clock is that of answers and timeouts. nil: the system's.
	Clock clock.Clock

	// Log gets what goes wrong and, at level debug, a line for each request. nil: slog's default.
	Log *slog.Logger

	// Metrics is what /metrics shows; the Collectors have to be registered there. nil: there is no
	// /metrics.
	Metrics prometheus.Gatherer
}

// Payments are how a sale learns of payments. Each may be nil.
type Payments struct {
	Checker *payments.Checker // whose state is shown with the sale
	Webhook *payments.Webhook // which reads messages of the payment service
}

// DefaultClaimTimeout is that of Config.ClaimTimeout.
const DefaultClaimTimeout = 5 * time.Second

// DefaultIdleTimeout is that of Config.IdleTimeout. A load balancer that keeps a connection for longer than
// the server would send a request into one that is being closed; most keep them for 60 seconds.
const DefaultIdleTimeout = 75 * time.Second

// How many connections may be open at a time, of buyers by default, and at the admin address. The viewers of
// the dashboard leave some to health checks and metrics.
const (
	MostConnections  = 20_000
	AdminConnections = 16 + dashboard.MostViewers
)

// New returns a Server. It starts nothing.
func New(config Config) *Server {
	config.Connections = orDefault(config.Connections, MostConnections)
	config.Streams = orDefault(config.Streams, stream.DefaultLimit)
	config.Followers = orDefault(config.Followers, events.DefaultLimit)
	config.ClaimTimeout = orDefault(config.ClaimTimeout, DefaultClaimTimeout)
	config.DrainTimeout = orDefault(config.DrainTimeout, config.ClaimTimeout+5*time.Second)
	config.IdleTimeout = orDefault(config.IdleTimeout, DefaultIdleTimeout)
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Server{
		config:    config,
		metrics:   newMetrics(),
		dashboard: dashboard.New(dashboard.Config{Process: config.Address, Clock: config.Clock}),
		bodies:    access.NewMemory(maxBodies),
		unsigned:  access.NewMemory(maxUnsigned),
	}
	s.streams, s.feeds = stream.New(s.streamConfig()), events.New(s.feedConfig())
	s.served.Store(new(map[string]*sale))
	s.unserved.Store(new(map[string]reload.Lack))
	for _, service := range config.Sales {
		s.Add(service, config.Payments[service.Sale()])
	}
	return s
}

// streamConfig returns the configuration of streams.
func (server *Server) streamConfig() stream.Config {
	c := &server.config
	return stream.Config{
		Tokens: c.Tokens, Peers: c.Peers, Limit: c.Streams, Address: c.Address, AwaitOpened: server.awaitOpened, Draining: server.draining.Load,
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

// orDefault returns n, or the default if n is not positive.
func orDefault[T int | time.Duration](n, byDefault T) T {
	if n <= 0 {
		return byDefault
	}
	return n
}

// Add has the server serve another sale. One goroutine calls it and Remove.
func (server *Server) Add(service executor.Service, payment Payments) {
	name, all := service.Sale(), maps.Clone(server.sales())
	if all == nil {
		all = make(map[string]*sale)
	}
	added := &sale{
		Service: service, saleMetrics: server.metrics.of(name), name: name, clock: server.config.Clock, log: server.config.Log, feed: events.NewSale(name, service),
		checker: payment.Checker, webhook: payment.Webhook,
	}
	all[name] = added
	server.served.Store(&all)
	server.dashboard.Add(dashboard.Sale{Name: name, Look: func() dashboard.Look { return added.look(server.unready(added)) }})
}

// Remove has the server serve a sale no longer, and forget what it counted of it.
func (server *Server) Remove(name string) {
	gone := server.sales()[name]
	if gone == nil {
		return
	}
	all := maps.Clone(server.sales())
	delete(all, name)
	server.served.Store(&all)
	gone.removed.Store(true)
	server.streams.Remove(gone)
	server.dashboard.Remove(name)
	server.metrics.forget(name)
}

// Declare sets the sales that this server should serve and does not, by name: while there is one that is not
// over it is not ready, and a request for one that may exist is answered to try again.
func (server *Server) Declare(unserved map[string]reload.Lack) { server.unserved.Store(&unserved) }

// ServeHTTP answers buyers.
func (server *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	server.identified(server.answer)(w, r)
}
