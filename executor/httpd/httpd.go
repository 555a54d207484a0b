// Package httpd lets buyers reach a sale over HTTP.
//
// It promises that an answer means what the executor said: 201 and 200 only for
// claims that are durable, 503 `unknown` wherever that is not known, and the
// same status for the same outcome everywhere (api.Outcomes). It decides nothing
// about stock, users or time; that is the executor's. It does check the form of
// a request, so that an executor only meets well-formed ones.
//
// Buyers' and operators' requests arrive on two listeners: Serve answers
// /v1/..., ServeAdmin answers /healthz, /readyz, /metrics and the dashboard, and undoes
// sold claims.
package httpd

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/wire"
	"salectl/executor/payments"
	"salectl/executor/reload"
)

// Config is what a Server needs. Only Sales is required.
type Config struct {
	// Sales are what is sold here. Their names differ.
	Sales []executor.Service

	// Payments are the checks and webhooks of the sales that may have them, by name.
	Payments map[string]Payments

	// Tokens are what is sent as "Authorization: Bearer <token>", and say what its sender may
	// do. nil: no one is asked for one, and everything is permitted.
	Tokens *access.Tokens

	// Certificates are what Serve and ServeAdmin speak TLS with. nil, or without one of the
	// server: they speak plain HTTP.
	Certificates *access.Certificates

	// Hosts are names under which loopback listeners are reached, beside the usual
	// ones: see withHosts.
	Hosts []string

	// Address is what this process calls itself to others; "": it does not say.
	Address string

	// Peers takes streams of other processes. Zero: they are refused.
	Peers Peers

	// Opened is closed when requests are to be looked at: what comes before waits, but for
	// the streams of peers. nil: from the first.
	Opened <-chan struct{}

	// Streams bounds those of clients that are open at a time, and those of other processes of
	// the sales. Zero: MostStreams.
	Streams int

	// Followers bounds those who follow feeds at a time. Zero: MostFollowers.
	Followers int

	// Connections bounds those of buyers that are open at a time. Zero:
	// MostConnections. ServeAdmin has AdminConnections of its own.
	Connections int

	// ClaimTimeout is how long a claim, or a settlement of one, may take before its
	// buyer is told `unknown`. Zero: DefaultClaimTimeout.
	ClaimTimeout time.Duration

	// DrainTimeout is how long Serve waits for requests under way once it has
	// been told to end. Zero: ClaimTimeout and a little more, by which time
	// every claim has its answer.
	DrainTimeout time.Duration

	// IdleTimeout is how long a connection is kept on which there is no request. Zero:
	// DefaultIdleTimeout.
	IdleTimeout time.Duration

	// Clock tells the time in answers. Zero: the host's.
	Clock clock.Clock

	// Log gets what goes wrong with connections, and at level debug a line for each
	// request. Zero: slog's default logger.
	Log *slog.Logger

	// Metrics is what /metrics shows. Whoever makes the registry also registers
	// Collectors and the executors' there. Zero: there is no /metrics.
	Metrics prometheus.Gatherer
}

// Payments is what tells of the payments of one sale. Each may be nil.
type Payments struct {
	Checker *payments.Checker // shown with the sale
	Webhook *payments.Webhook // asked what messages say
}

// DefaultClaimTimeout is how long a claim may take where Config does not say.
const DefaultClaimTimeout = 5 * time.Second

// DefaultIdleTimeout is how long an idle connection is kept where Config does not say. A load
// balancer that keeps one for longer than the server would send a request into a connection
// that is being closed; most keep them for 60 seconds.
const DefaultIdleTimeout = 75 * time.Second

// How many connections may be open at a time: the buyers', where Config does not
// say, and those of the admin address. All who watch the dashboard leave some to those who
// ask for health and metrics.
const (
	MostConnections  = 20_000
	AdminConnections = 16 + dashboard.MostViewers
)

// Server answers HTTP requests for one or several sales.
type Server struct {
	served        atomic.Pointer[map[string]*sale]       // by name; replaced as a whole
	unserved      atomic.Pointer[map[string]reload.Lack] // see Declare
	hosts         []string
	address       string
	peers         Peers
	opened        <-chan struct{}
	mostStreams   int
	mostFollowers int
	heartbeat     time.Duration // of a feed
	beginWithin   time.Duration // so is its first batch there
	tokens        *access.Tokens
	certs         *access.Certificates // nil: there is no TLS
	connections   int
	claimTimeout  time.Duration
	drainTimeout  time.Duration
	idleTimeout   time.Duration
	stall         time.Duration // how long one write to a stream may take
	now           clock.Clock
	log           *slog.Logger
	gatherer      prometheus.Gatherer
	metrics       *metrics
	dashboard     *dashboard.Dashboard

	// draining is set once by Serve and read by every claim.
	draining  atomic.Bool
	leaving   atomic.Bool // see Retire
	retired   atomic.Bool // see Retired
	ending    atomic.Bool // Serve is: set once, before streams are told to go away
	buyers    atomic.Pointer[http.Server]
	streams   streams
	memory    *access.Memory // of the requests of all streams
	bodies    *access.Memory // of large bodies that are being read
	unsigned  *access.Memory // of messages whose signatures are not checked yet
	followers followers
}

// New makes a Server. It starts nothing.
func New(c Config) *Server {
	s := &Server{
		hosts:         c.Hosts,
		address:       c.Address,
		tokens:        c.Tokens,
		certs:         c.Certificates,
		peers:         c.Peers,
		opened:        c.Opened,
		mostStreams:   c.Streams,
		mostFollowers: c.Followers,
		heartbeat:     heartbeat,
		beginWithin:   beginWithin,
		connections:   c.Connections,
		claimTimeout:  c.ClaimTimeout,
		drainTimeout:  c.DrainTimeout,
		idleTimeout:   c.IdleTimeout,
		stall:         answerTimeout,
		now:           c.Clock,
		log:           c.Log,
		gatherer:      c.Metrics,
		metrics:       newMetrics(),
		memory:        access.NewMemory(mostOfStreams),
		bodies:        access.NewMemory(mostBodies),
		unsigned:      access.NewMemory(mostUnsigned),
	}
	if s.connections <= 0 {
		s.connections = MostConnections
	}
	if s.mostStreams <= 0 {
		s.mostStreams = MostStreams
	}
	if s.mostFollowers <= 0 {
		s.mostFollowers = MostFollowers
	}
	if s.claimTimeout <= 0 {
		s.claimTimeout = DefaultClaimTimeout
	}
	if s.drainTimeout <= 0 {
		s.drainTimeout = s.claimTimeout + 5*time.Second
	}
	if s.idleTimeout <= 0 {
		s.idleTimeout = DefaultIdleTimeout
	}
	if s.now == nil {
		s.now = clock.System()
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.served.Store(new(map[string]*sale))
	s.unserved.Store(new(map[string]reload.Lack))
	s.dashboard = dashboard.New(dashboard.Config{Process: s.address, Clock: s.now})
	for _, service := range c.Sales {
		s.Add(service, c.Payments[service.Sale()])
	}
	return s
}

// Add has the server answer for another sale, from now on. One goroutine calls it and Remove.
func (s *Server) Add(service executor.Service, p Payments) {
	name, all := service.Sale(), maps.Clone(s.sales())
	if all == nil {
		all = make(map[string]*sale)
	}
	added := &sale{Service: service, name: name, metrics: s.metrics.of(name), checker: p.Checker, webhook: p.Webhook, logs: readsOf(service)}
	all[name] = added
	s.served.Store(&all)
	s.dashboard.Add(dashboard.Sale{Name: name, Look: func() dashboard.Look { return s.look(added) }})
}

// Remove has the server answer for a sale no more, and forget what it counted of it.
func (s *Server) Remove(name string) {
	gone := s.sales()[name]
	if gone == nil {
		return
	}
	all := maps.Clone(s.sales())
	delete(all, name)
	s.served.Store(&all)
	s.streams.goAway(gone)
	s.dashboard.Remove(name)
	s.metrics.forget(name)
}

// sales are those that the server answers for.
func (s *Server) sales() map[string]*sale { return *s.served.Load() }

// Declare says which sales this server should answer for and does not, by name: while there is
// one that is not over it is not ready, and who asks for one that there may be is told to ask again.
func (s *Server) Declare(unserved map[string]reload.Lack) { s.unserved.Store(&unserved) }

// ServeHTTP answers buyers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.identified(s.answer)(w, r) }

// answer answers a request of buyers.
//
// The paths are taken apart here and not by http.ServeMux, for two reasons: a
// user's id may be any text, and ServeMux would redirect the ids "." and ".." to
// other pages; and its own 404 and 405 are no problem documents.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath)
	if !ok {
		s.answerElsewhere(w, r)
		return
	}
	name, rest, deeper := strings.Cut(rest, "/")
	kind, id, named := strings.Cut(rest, "/")
	if kind != "stream" {
		s.untilOpened(r.Context())
	}
	if kind == "webhooks" && id == paymentWebhook {
		s.postWebhook(w, r, name)
		return
	}
	if kind == "stream" && !named && r.ProtoMajor < 2 && r.Method == http.MethodPost {
		writeWantsHTTP2(w)
		return
	}
	needs := access.MayClaim
	switch {
	case kind == "events":
		needs = access.MayFollow
	case kind == "stream" && r.Header[api.PeerHeader] != nil:
		needs = access.MayOperate
	case kind == "claims" && strings.HasSuffix(id, "/"+string(api.Confirm)):
		needs = access.MayConfirm
	}
	by, ok := s.letIn(w, r, needs)
	if !ok {
		return
	}
	switch {
	case !deeper:
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getSale(w, sale, by.Rights(), false) })
	case kind == "claims" && !named:
		s.postClaim(w, r, name)
	case kind == "claims" && ofBuyers(id):
		s.postSettlement(w, r, name, id)
	case kind == "claims" && id != "" && !strings.Contains(id, "/"):
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getClaim(w, r, sale, id) })
	case kind == "stream" && !named:
		s.postStream(w, r, name, by)
	case kind == "events" && !named:
		s.getEvents(w, r, name, by)
	case kind == "users" && named && !strings.Contains(id, "/"):
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getUser(w, r, sale, id) })
	case kind == "claims" && strings.HasSuffix(id, "/"+string(api.Refund)):
		wire.WriteOtherAddress(w, "Refunds are asked of the admin address, which 'salectl serve' was told with --admin.")
	default:
		wire.WriteNoSuchPath(w)
	}
}

// answerElsewhere answers what is asked of no one sale.
func (s *Server) answerElsewhere(w http.ResponseWriter, r *http.Request) {
	switch r.URL.EscapedPath() {
	case api.OpenAPIPath:
		getOpenAPI(w, r)
	case api.AllSalesPath:
		s.untilOpened(r.Context())
		if _, ok := s.letIn(w, r, access.MayClaim); ok {
			s.getSales(w, r)
		}
	default:
		wire.WriteNoSuchPath(w)
	}
}

// untilOpened waits until requests are looked at.
func (s *Server) untilOpened(ctx context.Context) {
	if s.opened == nil {
		return
	}
	select {
	case <-s.opened:
	case <-ctx.Done():
	}
}

// letIn reports whether a request may ask for something of a sale that needs a right, and if not
// answers it.
func (s *Server) letIn(w http.ResponseWriter, r *http.Request, needs access.Rights) (by access.Grant, ok bool) {
	by = s.tokens.OfRequest(r)
	switch missing := by.May(needs); {
	case missing != nil:
		missing.Challenge(w.Header(), r)
		missing.Write(w)
		return by, false
	case access.CrossOrigin(r):
		wire.WriteForbidden(w, "Web pages of other sites may not do this.")
		return by, false
	}
	return by, true
}

// withSale calls f with the sale of that name, if it is served here and the
// method is the right one, and otherwise says what is wrong.
func (s *Server) withSale(w http.ResponseWriter, r *http.Request, method, name string, f func(*sale)) {
	switch {
	case r.Method == method:
	case r.Method == http.MethodHead && method == http.MethodGet:
	default:
		wire.WriteMethodNotAllowed(w, method)
		return
	}
	sale, ok := s.sales()[name]
	if !ok {
		s.writeNotServed(w, name)
		return
	}
	f(sale)
}

// writeNotServed says that a sale is not served here: that there is none, or, where this server
// is to serve it and cannot yet, that it may be asked again.
func (s *Server) writeNotServed(w http.ResponseWriter, name string) {
	p := wire.ProblemOf(api.NoSuchSale)
	if lack, declared := (*s.unserved.Load())[name]; declared && !lack.Absent {
		p = wire.ProblemOf(api.Standby)
		p.Detail = "This server is to serve the sale, and cannot yet; this request was not looked at. Ask again, here or at another process of the sale."
	}
	p.Write(w)
}
