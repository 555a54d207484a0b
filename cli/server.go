package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger/payload"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/executor/httpd/access"
	"salectl/executor/ownership"
	"salectl/executor/payments"
	"salectl/executor/peers"
	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
	"salectl/units"
)

// server is the process of serve: an executor for each sale behind one HTTP server.
type server struct {
	log          *slog.Logger
	address      string               // address for buyers, as published to other processes
	standby      bool                 // own no shard
	hosts        []string             // names in the addresses of the command line
	most         int                  // maximum number of connections of buyers
	followers    int                  // maximum number of followers of feeds
	idle         time.Duration        // time for which an idle connection is kept
	tokens       *access.Tokens       // nil: no token is required
	certificates *access.Certificates // nil: no TLS
	stores       backends.Stores
	env          payments.Lookup

	mu    sync.Mutex
	sales []hosted
}

// hosted is a sale served by the server, with its store.
type hosted struct {
	*executor.Executor
	store *backends.Store
}

// prepare prepares one sale, which must have been applied. A file that differs from the ledger
// is only reported: the ledger counts.
func (s *server) prepare(ctx context.Context, p *program, sale spec.Sale) (hosted, error) {
	store, err := s.stores.Open(sale)
	if err != nil {
		return hosted{}, err
	}
	actual, key, err := s.ready(ctx, p, store, sale)
	if err != nil {
		return hosted{}, err
	}
	s.differs(p, sale, actual)
	return hosted{executor.New(executor.Config{
		Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Sale: sale.Name, Address: s.address,
		Users: usersOf(sale), Clock: clock.System(), Logger: s.log,
		Dial: peers.Dialer(peers.Config{Sale: sale.Name, Token: s.tokens.Shown, TLS: s.certificates.Client, Secure: s.certificates.Server(), Log: s.log}), Version: builtFrom().Version, Standby: s.standby, Key: key,
	}), store}, nil
}

// ready reads a sale, or returns why it cannot be served.
func (s *server) ready(ctx context.Context, p *program, store *backends.Store, sale spec.Sale) (*planner.Actual, *units.Key, error) {
	actual, err := s.read(ctx, p, store, sale.Name)
	if err != nil {
		return nil, nil, err
	}
	if !actual.Sale.Live() || actual.Sale.Applied() == 0 {
		return nil, nil, notApplied(sale, actual)
	}
	for _, f := range actual.Faults() { // not refused: a live sale is safe in its ledger
		s.log.Warn("a lock node is not set up as it must be", "sale", sale.Name, "node", f.Node, "why", f.Why)
	}
	if err := ownership.Permitted(ctx, store.Nodes, actual.Sale.UID()); err != nil {
		return nil, nil, fmt.Errorf("sale %s cannot be served: %w", sale.Name, err)
	}
	key, err := payloadKey(sale)
	if err != nil {
		return nil, nil, err
	}
	if err := payload.CheckKey(ctx, store.Logs, actual.Sale, key); err != nil {
		return nil, nil, err
	}
	if draw, missing := units.DrawKey(sale, s.env); missing != nil {
		s.log.Warn("the key of the draw is not here; draw reveal needs it", "sale", sale.Name, "error", missing)
	} else if err := planner.FitsDraw(actual.Sale, draw); err != nil && draw != nil {
		return nil, nil, err
	}
	applied, err := spec.FromJSON(actual.Sale.Newest().GetSpec())
	if err != nil {
		return nil, nil, err
	}
	return actual, key, payments.Ready(applied, s.env)
}

func (s *server) read(ctx context.Context, p *program, store *backends.Store, name string) (*planner.Actual, error) {
	cfg := p.planning(store)
	cfg.Logger = s.log
	return planner.ReadActual(ctx, cfg, name)
}

// compare reports the differences between the file of a served sale and the applied
// declaration.
func (s *server) compare(ctx context.Context, p *program, sale spec.Sale) error {
	for _, e := range s.all() {
		if e.Sale() != sale.Name {
			continue
		}
		actual, err := s.read(ctx, p, e.store, sale.Name)
		if err != nil {
			return err
		}
		s.differs(p, sale, actual)
	}
	return nil
}

// differs reports the differences between a sale's file and the applied declaration.
func (s *server) differs(p *program, sale spec.Sale, actual *planner.Actual) {
	actual.KeepUnits() // the file of the payloads may be elsewhere
	switch plan, err := planner.Make(sale, actual); {
	case err != nil:
		s.log.Warn("the file asks for what cannot be applied; serving what was applied", "sale", sale.Name, "why", err)
	case len(plan.Payload) > 0: // other actions are no difference
		s.log.Warn("the file differs from what was applied; serving what was applied", "sale", sale.Name,
			"generation", actual.Sale.Generation(), "remedy", p.withFlags("'salectl plan' shows the difference", sale.Name))
	}
}

// all returns the served sales.
func (s *server) all() []hosted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sales)
}

// absent reports that there is no such sale to serve.
type absent struct {
	error
	over bool // the declared run has ended for good
}

func (a *absent) Unwrap() error { return a.error }

// notApplied returns why a sale cannot be served.
func notApplied(sale spec.Sale, actual *planner.Actual) error {
	switch phase := actual.Sale.Phase(); {
	case phase == "":
		return &absent{error: missing(sale.Name)}
	case !actual.Sale.Live():
		return &absent{&planner.Refusal{
			Reason: fmt.Sprintf("sale %s is %s", sale.Name, phase),
			Remedy: fmt.Sprintf("To sell under this name again, write metadata.run: %d and run 'salectl apply'.", actual.Sale.Run()+1),
		}, sale.Run <= actual.Sale.Run()}
	}
	return &absent{error: &planner.Refusal{Reason: fmt.Sprintf("sale %s is not applied in full", sale.Name), Remedy: "Run 'salectl apply' again."}}
}

// run serves until ctx ends, or until no sale is left to follow and no other may come. At the
// end it answers pending requests and stops queries to payment services, then releases the
// leases, and then stops the admin address.
func (s *server) run(ctx context.Context, buyers, admin net.Listener, first []hosted, k *keeper) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	host := &peers.Host{Log: s.log}
	opened := make(chan struct{})
	h := httpd.New(httpd.Config{Peers: host, Opened: opened, Tokens: s.tokens, Certificates: s.certificates, Address: s.address, Hosts: s.hosts, Connections: s.most, IdleTimeout: s.idle, Followers: s.followers, Log: s.log, Metrics: registry})
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
	k.lack = h.Declare
	k.serve = func(e hosted) {
		p := httpd.Payments{
			Checker: payments.NewChecker(payments.Config{Sale: e, Env: s.env, Logger: s.log}),
			Webhook: payments.NewWebhook(e, s.env, s.log),
		}
		collectors := append(e.Collectors(), p.Checker.Collectors()...)
		registry.MustRegister(collectors...)
		s.mu.Lock()
		s.sales = append(s.sales, e)
		s.mu.Unlock()
		owning, disown := context.WithCancel(owning)
		executors.Go(func() {
			if err := e.Run(owning); err != nil {
				s.log.Error("a sale is served no more", "sale", e.Sale(), "why", err)
				s.mu.Lock()
				failures = errors.Join(failures, err)
				s.mu.Unlock()
			}
		})
		checking, uncheck := context.WithCancel(serving)
		checkers.Go(func() { p.Checker.Run(checking) })
		host.Add(e.Executor)
		h.Add(e, p)
		ends[e.Sale()] = func() {
			h.Remove(e.Sale())
			host.Remove(e.Executor)
			uncheck()
			disown()
			for _, c := range collectors {
				registry.Unregister(c)
			}
		}
	}
	goOn := sync.OnceFunc(func() { executors.Go(func() { <-serving.Done() }) }) // keeps the server running for later sales
	k.drop = func(sale string) {
		goOn()
		s.mu.Lock()
		s.sales = slices.DeleteFunc(s.sales, func(e hosted) bool { return e.Sale() == sale })
		s.mu.Unlock()
		ends[sale]()
		delete(ends, sale)
	}
	for _, e := range first {
		k.serve(e)
	}
	if k.watches() {
		k.lack(k.Lacks()) // not ready before the first read of the files
		goOn()
	}
	opening.Go(func() { k.keep(serving) }) // ended first: until then it may start checkers and executors
	opening.Go(func() { s.open(serving); close(opened) })
	checkers.Go(func() { access.Watch(serving, s.log, clock.System(), s.reloaded()...) })
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
	s.log.Info("listening", "url", s.url(buyers), "admin", s.url(admin), "sales", len(first))
	err := h.Serve(serving, buyers)
	stop()
	opening.Wait()
	checkers.Wait()
	release()
	executors.Wait()
	leave()
	admins.Wait()
	s.log.Info("ended")
	return errors.Join(failures, err, adminErr)
}

// buildInfo returns a metric with the version of this program.
func buildInfo() prometheus.Collector {
	b := builtFrom()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "salectl_build_info", Help: "1, with what this program was built from.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Commit, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// url returns the URL of a listener.
func (s *server) url(l net.Listener) string {
	if s.certificates.Server() {
		return "https://" + reached(l)
	}
	return "http://" + reached(l)
}

// named warns of a certificate that is not valid for the address published to other processes:
// they reject it.
func (s *server) named() {
	if !s.certificates.Server() {
		return
	}
	host, _, err := net.SplitHostPort(strings.TrimPrefix(s.address, "https://"))
	if err == nil {
		err = s.certificates.Names(host)
	}
	if err != nil {
		s.log.Warn("the certificate does not name the host under which others reach this process, and they will refuse it",
			"address", s.address, "why", err, "remedy", "have the certificate name it, or say --advertise with a host that it names")
	}
}

// reloaded returns the files that are reread while the server runs.
func (s *server) reloaded() (all []access.Reloaded) {
	if s.tokens != nil {
		all = append(all, s.tokens)
	}
	if s.certificates != nil {
		all = append(all, s.certificates)
	}
	return all
}

// openWithin bounds the wait of early requests until the process knows who can answer them.
// After that they are answered with the current state.
const openWithin = time.Second

// open waits until this process can answer for each of its sales, by itself or by a peer, or
// the time is up.
func (s *server) open(ctx context.Context) {
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
func (s *server) retire(h *httpd.Server) {
	h.Retire()
	bound, cancel := context.WithTimeout(context.Background(), retireWithin)
	defer cancel()
	var all sync.WaitGroup
	var left atomic.Int64
	for _, e := range s.all() {
		all.Go(func() {
			n := e.Retire(bound, func(n int) { s.log.Info("giving shards to other processes", "sale", e.Sale(), "left", n) })
			left.Add(int64(n))
		})
	}
	if all.Wait(); left.Load() == 0 {
		h.Retired()
		time.Sleep(closeWithin)
	}
}

// usersOf opens the users of a sale as applied. If they are in a file, only the sale's file
// names it.
func usersOf(sale spec.Sale) executor.OpenUsers {
	return func(declared spec.Sale, schema *rules.Schema) (rules.Users, func() error, error) {
		if declared.Users != nil && sale.Users != nil && declared.Users.Table == nil {
			users := *declared.Users
			users.File = sale.Users.File
			declared.Users = &users
		}
		if declared.History != nil && sale.History != nil {
			history := *declared.History
			history.Files = sale.History.Files
			declared.History = &history
		}
		return backends.OpenUsers(declared, schema)
	}
}
