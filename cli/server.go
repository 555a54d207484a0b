package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
)

// server is what serve runs: an executor for each sale behind one HTTP server.
type server struct {
	log     *slog.Logger
	address string   // of buyers, as other processes read it
	hosts   []string // names in the addresses that it was told to listen at
	most    int      // connections of buyers at a time
	token   string
	stores  backends.Stores
	sales   []*executor.Executor
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
	switch plan, err := planner.Make(sale, actual); {
	case err != nil:
		s.log.Warn("the file asks for what cannot be applied; serving what was applied", "sale", sale.Name, "why", err)
	case len(plan.Payload) > 0: // what else there is to do is no difference
		s.log.Warn("the file differs from what was applied; serving what was applied", "sale", sale.Name,
			"generation", actual.Sale.Generation(), "remedy", "salectl plan shows the difference")
	}
	s.sales = append(s.sales, executor.New(executor.Config{
		Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Sale: sale.Name, Address: s.address,
		Users: usersOf(sale), Clock: clock.System(), Logger: s.log,
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
// the requests under way, then give the leases back, then stop telling
// operators how it goes.
func (s *server) run(ctx context.Context, buyers, admin net.Listener) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var services []executor.Service
	for _, e := range s.sales {
		services = append(services, e)
		registry.MustRegister(e.Collectors()...)
	}
	h := httpd.New(httpd.Config{Sales: services, Token: s.token, Hosts: s.hosts, Connections: s.most, Log: s.log, Metrics: registry})
	registry.MustRegister(h.Collectors()...)

	serving, stop := context.WithCancel(ctx)
	defer stop()
	owning, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	operating, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()

	var executors, admins sync.WaitGroup
	executorErrs := make([]error, len(s.sales))
	for i, e := range s.sales {
		executors.Go(func() {
			if executorErrs[i] = e.Run(owning); executorErrs[i] != nil {
				s.log.Error("a sale is served no more", "sale", e.Sale(), "why", executorErrs[i])
			}
		})
	}
	// With the last sale gone there is nothing to answer.
	go func() { executors.Wait(); stop() }()
	var adminErr error
	admins.Go(func() { adminErr = h.ServeAdmin(operating, admin) })

	s.log.Info("listening", "url", reach(buyers), "admin", reach(admin), "sales", len(s.sales))
	err := h.Serve(serving, buyers)
	release()
	executors.Wait()
	leave()
	admins.Wait()
	s.log.Info("ended")
	return errors.Join(append(executorErrs, err, adminErr)...)
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
