package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/executor/links"
	"salectl/executor/payments"
	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
)

// server is what serve runs: an executor for each sale behind one HTTP server.
type server struct {
	log     *slog.Logger
	address string   // of buyers, as other processes read it
	standby bool     // it is to own no shard
	hosts   []string // names in the addresses that it was told to listen at
	most    int      // connections of buyers at a time
	token   string
	stores  backends.Stores
	sales   []*executor.Executor
	env     payments.Lookup
}

// add prepares one sale. It must have been applied; if its file says something
// else since, that is only told, for the ledger is what counts.
func (s *server) add(ctx context.Context, p *program, sale spec.Sale) error {
	store, err := s.stores.Open(sale)
	if err != nil {
		return err
	}
	cfg := p.planning(store)
	cfg.Logger = s.log
	actual, err := planner.ReadActual(ctx, cfg, sale.Name)
	if err != nil {
		return err
	}
	if !actual.Sale.Live() || actual.Sale.Applied() == 0 {
		return notApplied(sale, actual)
	}
	key, err := goodsKey(sale)
	if err != nil {
		return err
	}
	if err := ledger.FitsUnits(ctx, store.Logs, actual.Sale, key); err != nil {
		return err
	}
	actual.KeepUnits() // the file that says what they are may be elsewhere
	switch plan, err := planner.Make(sale, actual); {
	case err != nil:
		s.log.Warn("the file asks for what cannot be applied; serving what was applied", "sale", sale.Name, "why", err)
	case len(plan.Payload) > 0: // what else there is to do is no difference
		s.log.Warn("the file differs from what was applied; serving what was applied", "sale", sale.Name,
			"generation", actual.Sale.Generation(), "remedy", "salectl plan shows the difference")
	}
	applied, err := spec.FromJSON(actual.Sale.Newest().GetSpec())
	if err != nil {
		return err
	}
	if err := payments.Ready(applied, s.env); err != nil {
		return err
	}
	s.sales = append(s.sales, executor.New(executor.Config{
		Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Sale: sale.Name, Address: s.address,
		Users: usersOf(sale), Clock: clock.System(), Logger: s.log,
		Dial: links.Dialer(links.Config{Sale: sale.Name, Token: s.token, Log: s.log}), Version: builtFrom().Version, Standby: s.standby, Key: key,
	}))
	return nil
}

// notApplied says why there is nothing to serve.
func notApplied(sale spec.Sale, actual *planner.Actual) error {
	switch phase := actual.Sale.Phase(); {
	case phase == "":
		return &planner.Refusal{Reason: fmt.Sprintf("sale %s does not exist yet", sale.Name), Remedy: "Run 'salectl apply' first."}
	case !actual.Sale.Live():
		return &planner.Refusal{
			Reason: fmt.Sprintf("sale %s is %s", sale.Name, phase),
			Remedy: fmt.Sprintf("To sell under this name again, write metadata.run: %d and run 'salectl apply'.", actual.Sale.Run()+1),
		}
	}
	return &planner.Refusal{Reason: fmt.Sprintf("sale %s is not applied in full", sale.Name), Remedy: "Run 'salectl apply' again."}
}

// run serves until ctx ends or no sale is left. The order of the end is: answer
// the requests under way and ask no payment service any more, then give the leases back, then stop telling
// operators how it goes.
func (s *server) run(ctx context.Context, buyers, admin net.Listener) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var services []executor.Service
	paid := make(map[string]httpd.Payments)
	host := &links.Host{Sales: make(map[string]*executor.Executor), Log: s.log}
	for _, e := range s.sales {
		services = append(services, e)
		host.Sales[e.Sale()] = e
		p := httpd.Payments{
			Checker: payments.NewChecker(payments.Config{Sale: e, Env: s.env, Logger: s.log}),
			Webhook: payments.NewWebhook(e, s.env, s.log),
		}
		paid[e.Sale()] = p
		registry.MustRegister(e.Collectors()...)
		registry.MustRegister(p.Checker.Collectors()...)
	}
	opened := make(chan struct{})
	h := httpd.New(httpd.Config{Sales: services, Peers: host, Opened: opened, Payments: paid, Token: s.token, Address: s.address, Hosts: s.hosts, Connections: s.most, Log: s.log, Metrics: registry})
	registry.MustRegister(h.Collectors()...)

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	owning, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	operating, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	var executors, opening, checkers, admins sync.WaitGroup
	executorErrs := make([]error, len(s.sales))
	for i, e := range s.sales {
		executors.Go(func() {
			if executorErrs[i] = e.Run(owning); executorErrs[i] != nil {
				s.log.Error("a sale is served no more", "sale", e.Sale(), "why", executorErrs[i])
			}
		})
	}
	opening.Go(func() { s.open(serving); close(opened) })
	for _, p := range paid {
		checkers.Go(func() { p.Checker.Run(serving) })
	}
	// With the last sale gone there is nothing to answer.
	go func() { executors.Wait(); stop() }()
	var adminErr error
	admins.Go(func() { adminErr = h.ServeAdmin(operating, admin) })

	retiring := context.AfterFunc(ctx, func() {
		s.retire(h)
		stop()
	})
	defer retiring()
	s.log.Info("listening", "url", reach(buyers), "admin", reach(admin), "sales", len(s.sales))
	err := h.Serve(serving, buyers)
	stop()
	opening.Wait()
	checkers.Wait()
	release()
	executors.Wait()
	leave()
	admins.Wait()
	s.log.Info("ended")
	return errors.Join(append(executorErrs, err, adminErr)...)
}

// openWithin is for how long requests wait that come before the process knows who can
// answer them. Then they are told how it is.
const openWithin = time.Second

// open waits until this process can answer for each of its sales, by itself or by a peer,
// or has had the time to find out that it cannot.
func (s *server) open(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	for bound.Err() == nil && slices.ContainsFunc(s.sales, func(e *executor.Executor) bool { return e.Ready() != nil }) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-bound.Done():
		}
	}
}

// How long a process that ends takes to give its shards to its peers, and how long it then
// waits for connections to be closed by those who use them.
const (
	retireWithin = 20 * time.Second
	closeWithin  = 200 * time.Millisecond
)

// retire gives all shards of all sales to peers, while claims are answered as before. Where
// there is no peer, or none takes them in time, the rest is left to the end of Run.
func (s *server) retire(h *httpd.Server) {
	h.Retire()
	bound, cancel := context.WithTimeout(context.Background(), retireWithin)
	defer cancel()
	var all sync.WaitGroup
	var left atomic.Int64
	for _, e := range s.sales {
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

// usersOf opens the users of a sale as it was applied. Where they are in files, only the
// sale's file says which.
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
