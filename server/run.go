package server

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"salectl/backends/clock"
	"salectl/executor/httpd"
	"salectl/executor/httpd/access"
	"salectl/executor/payments"
)

// Run serves until ctx ends, or until no sale is left to follow and no other may come. At the
// end it answers pending requests and stops queries to payment services, then releases the
// leases, and then stops the admin address.
func (s *Server) Run(ctx context.Context, buyers, admin net.Listener) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.Build.metric())
	opened := make(chan struct{})
	cfg := s.HTTP
	cfg.Opened, cfg.Metrics = opened, registry
	h := httpd.New(cfg)
	registry.MustRegister(h.Collectors()...)

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	owning, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	operating, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	var executors, opening, checkers, admins sync.WaitGroup
	var failures error              // guarded by s.mu
	ends := make(map[string]func()) // ends of the served sales, by name; used by the keeper
	s.lack = h.Declare
	s.serve = func(e hosted) {
		p := httpd.Payments{
			Checker: payments.NewChecker(e, s.Env, s.HTTP.Log),
			Webhook: payments.NewWebhook(e, s.Env, s.HTTP.Log),
		}
		collectors := append(e.Collectors(), p.Checker.Collectors()...)
		registry.MustRegister(collectors...)
		s.mu.Lock()
		s.sales = append(s.sales, e)
		s.mu.Unlock()
		owning, disown := context.WithCancel(owning)
		executors.Go(func() {
			if err := e.Run(owning); err != nil {
				s.HTTP.Log.Error("this process no longer serves a sale", "sale", e.Sale(), "why", err)
				s.mu.Lock()
				failures = errors.Join(failures, err)
				s.mu.Unlock()
			}
		})
		checking, uncheck := context.WithCancel(serving)
		checkers.Go(func() { p.Checker.Run(checking) })
		h.Add(e, p)
		ends[e.Sale()] = func() {
			h.Remove(e.Sale())
			uncheck()
			disown()
			for _, c := range collectors {
				registry.Unregister(c)
			}
		}
	}
	goOn := sync.OnceFunc(func() { executors.Go(func() { <-serving.Done() }) }) // keeps the server running for later sales
	s.drop = func(sale string) {
		goOn()
		s.mu.Lock()
		s.sales = slices.DeleteFunc(s.sales, func(e hosted) bool { return e.Sale() == sale })
		s.mu.Unlock()
		ends[sale]()
		delete(ends, sale)
	}
	first := s.all()
	s.sales = nil
	for _, e := range first {
		s.serve(e)
	}
	if s.Watch {
		s.lack(s.keeper.Lacks()) // not ready before the first read of the files
		goOn()
	}
	opening.Go(func() { s.keep(serving) }) // ended first: until then it may start checkers and executors
	opening.Go(func() { s.open(serving); close(opened) })
	checkers.Go(func() { access.Watch(serving, s.HTTP.Log, clock.System(), s.HTTP.Tokens, s.HTTP.Certificates) })
	// Without a sale there is nothing to answer.
	go func() { executors.Wait(); stop() }()
	var adminErr error
	admins.Go(func() { adminErr = h.ServeAdmin(operating, admin) })

	retiring := context.AfterFunc(ctx, func() {
		s.retire(h)
		stop()
	})
	defer retiring()
	s.named()
	s.HTTP.Log.Info("listening", "url", s.url(buyers), "admin", s.url(admin), "sales", len(first))
	err := h.Serve(serving, buyers)
	stop()
	opening.Wait()
	checkers.Wait()
	release()
	executors.Wait()
	leave()
	admins.Wait()
	s.HTTP.Log.Info("ended")
	return errors.Join(failures, err, adminErr)
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

// named warns of a certificate that is not valid for the address published to other processes:
// they reject it.
func (s *Server) named() {
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

// openWithin bounds the wait of early requests until the process knows who can answer them.
// After that they are answered with the current state.
const openWithin = time.Second

// open waits until this process can answer for each of its sales, by itself or by a peer, or
// the time is up.
func (s *Server) open(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	for bound.Err() == nil && slices.ContainsFunc(s.all(), func(e hosted) bool { return e.Ready() != nil }) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-bound.Done():
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
			n := e.Retire(bound, func(n int) { s.HTTP.Log.Info("giving shards to other processes", "sale", e.Sale(), "left", n) })
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
