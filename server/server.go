// Package server runs the processes that sell: an executor for each sale behind one HTTP
// server, the links to other processes, payments, and the sale files, which it reads again.
//
// A Server serves what was applied; a sale file only names the sale and its place. It
// guarantees that a sale whose ledger or keys are unfit is not served, that a process that ends
// first hands its shards over to others or answers accepted requests, and that connections of
// buyers leave enough open files for the ledger, the lock nodes and operators. It prints
// nothing and parses no flags: listeners, credentials, the log and the texts of remedies are
// the caller's.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/executor/ownership"
	"salectl/executor/payments"
	"salectl/executor/peers"
	"salectl/executor/reload"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/rules"
	"salectl/spec"
	"salectl/units"
)

// Config configures a Server. Sales, Opened and Metrics of the HTTP server are set by Run.
type Config struct {
	HTTP    httpd.Config
	Admin   string // address for operators, for others to read
	Standby bool   // own no shard
	Build   Build
	Env     payments.Lookup

	// Open opens the store of a sale.
	Open func(spec.Sale, *slog.Logger) (*backends.Store, error)
	// Planning returns the configuration of plans, which only compare.
	Planning func(*backends.Store) apply.Config
	// Read reads the sale files again.
	Read func() ([]spec.Sale, error)
	// Watch makes the server read them periodically, and not only at SIGHUP. Then it also
	// runs without a sale.
	Watch bool
	// Complete adds the flags for a sale and its files to the commands in a text.
	Complete func(text, sale string) string
}

// Build describes the build of the program.
type Build struct {
	Version  string `json:"version"` // a tag, or "devel"
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Modified bool   `json:"modified,omitempty"` // changed since the commit
	Platform string `json:"platform"`
}

// Server serves sales: an executor for each of them behind one HTTP server.
type Server struct {
	Config
	stores backends.Stores
	keeper *reload.Keeper
	hup    chan os.Signal // requests a read of the sale files

	mu    sync.Mutex
	sales map[string]*hosted // served; before Run, to be served. Only the keeper changes it, so the keeper reads it without mu
}

// New returns a server that serves nothing yet. From now on SIGHUP makes it read the sale
// files, and no longer ends the process. The caller must call Close.
func New(cfg Config) *Server {
	s := &Server{Config: cfg, stores: backends.Stores{Logger: cfg.HTTP.Log, Opener: cfg.Open}, hup: make(chan os.Signal, 1), sales: make(map[string]*hosted)}
	s.keeper = reload.New(cfg.HTTP.Log, lackOf)
	signal.Notify(s.hup, syscall.SIGHUP)
	return s
}

// Close closes the stores of the sales.
func (s *Server) Close() error {
	signal.Stop(s.hup)
	return s.stores.Close()
}

// hosted is a sale served by the server, with its store.
type hosted struct {
	*executor.Executor
	store *backends.Store
	end   func() // ends the service of the sale; set by run.serve
}

// Add adds a declared sale before Run, or returns why it cannot be served. With Watch, Run
// retries that.
func (s *Server) Add(ctx context.Context, sale spec.Sale) error {
	e, err := s.prepare(ctx, sale)
	if s.keeper.AddDeclared(sale, err); err != nil {
		return err
	}
	s.sales[sale.Name] = e
	return nil
}

// Sales returns the number of sales that are served or, before Run, were added.
func (s *Server) Sales() int { return len(s.all()) }

// prepare prepares one sale, which must have been applied. A file that differs from the ledger
// is only reported: the ledger counts.
func (s *Server) prepare(ctx context.Context, sale spec.Sale) (*hosted, error) {
	store, err := s.stores.Open(sale)
	if err != nil {
		return nil, err
	}
	actual, key, err := s.ready(ctx, store, sale)
	if err != nil {
		return nil, err
	}
	s.differs(sale, actual)
	return &hosted{store: store, Executor: executor.New(executor.Config{
		Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Sale: sale.Name, Address: s.HTTP.Address, Admin: s.Admin,
		Users: UsersOf(sale), Clock: clock.System(), Logger: s.HTTP.Log,
		Dial: peers.Dialer(peers.Config{
			Sale: sale.Name, Token: s.HTTP.Tokens.Shown, TLS: s.HTTP.Certificates.Client,
			Secure: s.HTTP.Certificates.Leaf() != nil, Log: s.HTTP.Log,
		}),
		Version: s.Build.Version, Standby: s.Standby, Key: key,
	})}, nil
}

// ready reads a sale, or returns why it cannot be served.
func (s *Server) ready(ctx context.Context, store *backends.Store, sale spec.Sale) (*planner.Actual, *units.Key, error) {
	actual, err := s.read(ctx, store, sale.Name)
	if err != nil {
		return nil, nil, err
	}
	if !actual.Sale.Live() || actual.Sale.Applied() == 0 {
		return nil, nil, notApplied(sale, actual)
	}
	for _, f := range actual.Faults() { // not refused: a live sale is safe in its ledger
		s.HTTP.Log.Warn("a lock node is misconfigured", "sale", sale.Name, "node", f.Node, "why", f.Why)
	}
	if err := ownership.Permitted(ctx, store.Nodes, actual.Sale.UID()); err != nil {
		return nil, nil, fmt.Errorf("sale %s cannot be served: %w", sale.Name, err)
	}
	key, err := units.PayloadKey(sale, s.Env)
	if err != nil {
		return nil, nil, err
	}
	if err := payload.CheckKey(ctx, store.Logs, actual.Sale, key); err != nil {
		return nil, nil, err
	}
	if draw, missing := units.DrawKey(sale, s.Env); missing != nil {
		s.HTTP.Log.Warn("the key of the draw is missing; draw reveal needs it", "sale", sale.Name, "error", missing)
	} else if err := apply.FitsDraw(actual.Sale, draw); err != nil && draw != nil {
		return nil, nil, err
	}
	applied, err := spec.FromJSON(actual.Sale.Newest().GetSpec())
	if err != nil {
		return nil, nil, err
	}
	return actual, key, payments.Ready(applied, s.Env)
}

func (s *Server) read(ctx context.Context, store *backends.Store, name string) (*planner.Actual, error) {
	cfg := s.Planning(store)
	cfg.Logger = s.HTTP.Log
	return current.Read(ctx, cfg.Backends, name)
}

// differs reports the differences between a sale's file and the applied declaration.
func (s *Server) differs(sale spec.Sale, actual *planner.Actual) {
	actual.KeepUnits() // the file of the payloads may be elsewhere
	switch plan, err := planner.Make(sale, actual); {
	case err != nil:
		refusal := new(planner.Refusal)
		errors.As(err, &refusal)
		s.HTTP.Log.Warn("the sale file cannot be applied; serving what was applied", "sale", sale.Name,
			"why", err, "remedy", s.Complete(refusal.Remedy, sale.Name))
	case len(plan.Payload) > 0: // other actions are no difference
		s.HTTP.Log.Warn("the file differs from what was applied; serving what was applied", "sale", sale.Name,
			"generation", actual.Sale.Generation(), "remedy", s.Complete("'salectl plan' shows the difference", sale.Name))
	}
}

// all returns the served sales, by name.
func (s *Server) all() []*hosted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.sales), func(a, b *hosted) int { return cmp.Compare(a.Sale(), b.Sale()) })
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
		return &absent{error: ledger.NoSale{Sale: sale.Name}}
	case !actual.Sale.Live():
		return &absent{&planner.Refusal{
			Reason: fmt.Sprintf("sale %s is %s", sale.Name, phase),
			Remedy: fmt.Sprintf("To sell under this name again, write metadata.run: %d and run 'salectl apply'.", actual.Sale.Run()+1),
		}, sale.Run <= actual.Sale.Run()}
	}
	return &absent{error: &planner.Refusal{Reason: fmt.Sprintf("sale %s is not applied in full", sale.Name), Remedy: "Run 'salectl apply' again."}}
}

// UsersOf opens the users of a sale as applied. If they are in a file, only the sale's file
// names it.
func UsersOf(sale spec.Sale) executor.OpenUsers {
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
