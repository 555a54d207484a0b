// Package httpd lets buyers reach a sale over HTTP.
//
// It promises that an answer means what the executor said: 201 and 200 only for
// claims that are durable, 503 `unknown` wherever that is not known, and the
// same status for the same outcome everywhere (api.Outcomes). It decides nothing
// about stock, users or time; that is the executor's. It does check the form of
// a request, so that an executor only meets well-formed ones.
//
// Buyers' and operators' requests arrive on two listeners: Serve answers
// /v1/..., ServeAdmin answers /healthz, /readyz and /metrics, and undoes sold claims.
package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/payments"
)

// Config is what a Server needs. Only Sales is required.
type Config struct {
	// Sales are what is sold here. Their names differ.
	Sales []executor.Service

	// Payments are the checks and webhooks of the sales that may have them, by name.
	Payments map[string]Payments

	// Token is what buyers, and operators who refund, send as "Authorization: Bearer
	// <token>". Empty: no one is asked for it. ReadToken reads it from a file.
	Token string

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

	// Streams bounds those that are open at a time. Zero: MostStreams.
	Streams int

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

	// Clock tells the time in answers. Zero: the host's.
	Clock clock.Clock

	// Log gets what goes wrong with connections. Zero: slog's default logger.
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

// How many connections may be open at a time: the buyers', where Config does not
// say, and those of the admin address.
const (
	MostConnections  = 20_000
	AdminConnections = 16
)

// Server answers HTTP requests for one or several sales.
type Server struct {
	sales        map[string]*sale
	hosts        []string
	address      string
	peers        Peers
	opened       <-chan struct{}
	mostStreams  int
	token        []byte // SHA-256 of Config.Token; nil: none
	connections  int
	claimTimeout time.Duration
	drainTimeout time.Duration
	stall        time.Duration // how long one write to a stream may take
	now          clock.Clock
	log          *slog.Logger
	gatherer     prometheus.Gatherer
	metrics      *metrics

	// draining is set once by Serve and read by every claim.
	draining atomic.Bool
	leaving  atomic.Bool // see Retire
	retired  atomic.Bool // see Retired
	ending   atomic.Bool // Serve is: set once, before streams are told to go away
	buyers   atomic.Pointer[http.Server]
	streams  streams
}

// New makes a Server. It starts nothing.
func New(c Config) *Server {
	s := &Server{
		sales:        make(map[string]*sale, len(c.Sales)),
		hosts:        c.Hosts,
		address:      c.Address,
		peers:        c.Peers,
		opened:       c.Opened,
		mostStreams:  c.Streams,
		connections:  c.Connections,
		claimTimeout: c.ClaimTimeout,
		drainTimeout: c.DrainTimeout,
		stall:        answerTimeout,
		now:          c.Clock,
		log:          c.Log,
		gatherer:     c.Metrics,
		metrics:      newMetrics(),
	}
	if s.connections <= 0 {
		s.connections = MostConnections
	}
	if s.mostStreams <= 0 {
		s.mostStreams = MostStreams
	}
	if s.claimTimeout <= 0 {
		s.claimTimeout = DefaultClaimTimeout
	}
	if s.drainTimeout <= 0 {
		s.drainTimeout = s.claimTimeout + 5*time.Second
	}
	if s.now == nil {
		s.now = clock.System()
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if c.Token != "" {
		sum := sha256.Sum256([]byte(c.Token))
		s.token = sum[:]
	}
	for _, service := range c.Sales {
		name := service.Sale()
		p := c.Payments[name]
		s.sales[name] = &sale{Service: service, name: name, metrics: s.metrics.of(name), checker: p.Checker, webhook: p.Webhook}
	}
	return s
}

// ServeHTTP answers buyers.
//
// The paths are taken apart here and not by http.ServeMux, for two reasons: a
// user's id may be any text, and ServeMux would redirect the ids "." and ".." to
// other pages; and its own 404 and 405 are no problem documents.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath)
	if !ok {
		writeNoSuchPath(w)
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
	if kind == "stream" && !named && r.ProtoMajor < 2 {
		writeWantsHTTP2(w)
		return
	}
	if !s.letIn(w, r) {
		return
	}
	switch {
	case !deeper:
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getSale(w, sale) })
	case kind == "claims" && !named:
		s.postClaim(w, r, name)
	case kind == "claims" && ofBuyers(id):
		s.postSettlement(w, r, name, id)
	case kind == "claims" && id != "" && !strings.Contains(id, "/"):
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getClaim(w, sale, id) })
	case kind == "stream" && !named:
		s.postStream(w, r, name)
	case kind == "users" && named && !strings.Contains(id, "/"):
		s.withSale(w, r, http.MethodGet, name, func(sale *sale) { s.getUser(w, sale, id) })
	default:
		writeNoSuchPath(w)
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

// letIn says whether a request may ask for something of a sale, and if not answers it.
func (s *Server) letIn(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !s.authorized(r):
		writeUnauthorized(w)
		return false
	case ofOtherSite(r):
		writeForbidden(w, "Web pages of other sites may not do this.")
		return false
	}
	return true
}

// withSale calls f with the sale of that name, if it is served here and the
// method is the right one, and otherwise says what is wrong.
func (s *Server) withSale(w http.ResponseWriter, r *http.Request, method, name string, f func(*sale)) {
	switch {
	case r.Method == method:
	case r.Method == http.MethodHead && method == http.MethodGet:
	default:
		writeMethodNotAllowed(w, method)
		return
	}
	sale, ok := s.sales[name]
	if !ok {
		writeNoSuchSale(w)
		return
	}
	f(sale)
}

// authorized says whether the request has the token, if one is asked for. Only
// digests are compared, so the time taken tells nothing, not even a length.
func (s *Server) authorized(r *http.Request) bool {
	if s.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], s.token) == 1 && strings.EqualFold(scheme, "Bearer")
}
