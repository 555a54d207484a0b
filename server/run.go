package server

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/executor/httpd/access"
	"salectl/executor/payments"
)

// run is the state of Server.Run. It implements reload.Server: the keeper starts and drops sales.
type run struct {
	*Server
	http     *httpd.Server
	registry *prometheus.Registry

	serving     context.Context // ends when requests and checks of payments do
	owning      context.Context // ends when the leases are released
	executors   sync.WaitGroup
	checkers    sync.WaitGroup
	keepRunning func() // makes the server wait for later sales
	failures    error  // guarded by mu
}

// Run serves until ctx ends, or until no sale is left and no other may be added. At the
// end it answers pending requests and stops queries to payment services, then releases the
// leases, and then stops the admin address.
func (s *Server) Run(ctx context.Context, buyers, admin net.Listener) error {
	r := &run{Server: s, registry: prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.Build.metric())
	opened := make(chan struct{})
	cfg := s.HTTP
	cfg.Opened, cfg.Metrics = opened, r.registry
	r.http = httpd.New(cfg)
	r.registry.MustRegister(r.http.Collectors()...)

	var stop, release context.CancelFunc
	r.serving, stop = context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.owning, release = context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	operating, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	var opening sync.WaitGroup
	r.keepRunning = sync.OnceFunc(func() { r.executors.Go(func() { <-r.serving.Done() }) })
	for _, e := range s.all() {
		r.serve(e)
	}
	if s.Watch {
		r.Lack(s.keeper.Lacks()) // not ready before the first read of the files
		r.keepRunning()
	}
	opening.Go(func() { r.reread(r.serving) }) // ended first: until then it may start checkers and executors
	opening.Go(func() { s.open(r.serving); close(opened) })
	r.checkers.Go(func() { access.Watch(r.serving, s.HTTP.Log, clock.System(), s.HTTP.Tokens, s.HTTP.Certificates) })
	// Without a sale there are no requests.
	go func() { r.executors.Wait(); stop() }()
	operated := make(chan error, 1)
	go func() { operated <- r.http.ServeAdmin(operating, admin) }()

	retiring := context.AfterFunc(ctx, func() {
		s.retire(r.http)
		stop()
	})
	defer retiring()
	s.checkName()
	s.HTTP.Log.Info("listening", "url", s.url(buyers), "admin", s.url(admin), "sales", s.Sales())
	err := r.http.Serve(r.serving, buyers)
	stop()
	opening.Wait()
	r.checkers.Wait()
	release()
	r.executors.Wait()
	leave()
	err = errors.Join(r.failures, err, <-operated)
	s.HTTP.Log.Info("ended")
	return err
}

// serve starts to serve a sale.
func (r *run) serve(e *hosted) {
	checker := payments.NewChecker(e, r.Env, r.HTTP.Log)
	collectors := append(e.Collectors(), checker.Collectors()...)
	r.registry.MustRegister(collectors...)
	owning, disown := context.WithCancel(r.owning)
	checking, uncheck := context.WithCancel(r.serving)
	e.end = func() {
		r.http.Remove(e.Sale())
		uncheck()
		disown()
		for _, c := range collectors {
			r.registry.Unregister(c)
		}
	}
	r.mu.Lock()
	r.sales[e.Sale()] = e
	r.mu.Unlock()
	r.executors.Go(func() {
		if err := e.Run(owning); err != nil {
			r.HTTP.Log.Error("this process no longer serves a sale", "sale", e.Sale(), "why", err)
			r.mu.Lock()
			r.failures = errors.Join(r.failures, err)
			r.mu.Unlock()
		}
	})
	r.checkers.Go(func() { checker.Run(checking) })
	r.http.Add(e, checker, payments.NewWebhook(e, r.Env, r.HTTP.Log))
}

// metric returns a metric with the version of the program.
func (b Build) metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "salectl_build_info", Help: "1, with what this program was built from.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Commit, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// url returns the URL of a listener.
func (s *Server) url(l net.Listener) string {
	if s.HTTP.Certificates.Leaf() != nil {
		return "https://" + Reached(l)
	}
	return "http://" + Reached(l)
}

// checkName warns of a certificate that is not valid for the address published to other processes:
// they reject it.
func (s *Server) checkName() {
	leaf := s.HTTP.Certificates.Leaf()
	if leaf == nil {
		return
	}
	host, _, err := net.SplitHostPort(strings.TrimPrefix(s.HTTP.Address, "https://"))
	if err == nil {
		err = leaf.VerifyHostname(host)
	}
	if err != nil {
		s.HTTP.Log.Warn("the certificate does not name the advertised host of this process, so other processes will refuse it",
			"address", s.HTTP.Address, "why", err, "remedy", "get a certificate that names the host, or use --advertise with a host that the certificate names")
	}
}

// openWithin bounds the wait of early requests until the process has found who can answer them.
// After that they are answered with the current state.
const openWithin = time.Second

// open waits until this process can answer for each of its sales, by itself or by a peer, or
// the time is up.
func (s *Server) open(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	for _, e := range s.all() {
		_ = awaitReady(bound, e.Executor)
	}
}

// awaitReady waits until the sale can be sold. It returns why it cannot if ctx ends before.
func awaitReady(ctx context.Context, e *executor.Executor) error {
	for {
		err := e.Ready()
		if err == nil || api.Sleep(ctx, 5*time.Millisecond) != nil {
			return err
		}
	}
}

// Times for a stopping process to hand over its shards, and then for clients to close their
// connections.
const (
	retireWithin = 20 * time.Second
	closeWithin  = 200 * time.Millisecond
)

// retire hands over all shards of all sales to peers, while claims are answered as before.
// Shards that no peer takes in time are left to the end of Run.
func (s *Server) retire(h *httpd.Server) {
	h.Retire()
	bound, cancel := context.WithTimeout(context.Background(), retireWithin)
	defer cancel()
	var all sync.WaitGroup
	var left atomic.Int64
	for _, e := range s.all() {
		all.Go(func() {
			n := e.Retire(bound, func(n int) { s.HTTP.Log.Info("handing shards over to other processes", "sale", e.Sale(), "left", n) })
			left.Add(int64(n))
		})
	}
	if all.Wait(); left.Load() == 0 {
		h.Retired()
		time.Sleep(closeWithin)
	}
}

// Reached returns the address at which a listener can be reached.
func Reached(l net.Listener) string {
	address := l.Addr().String()
	// An unspecified address is not a destination.
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		name, err := os.Hostname()
		if err != nil || strings.ContainsAny(name, ": ") {
			name = "localhost"
		}
		address = net.JoinHostPort(name, port)
	}
	return address
}
