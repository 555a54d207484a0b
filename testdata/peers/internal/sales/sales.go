// Package sales makes sales of salectl, serves them in this process and audits them.
package sales

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/executor"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
	"salectl/testdata/peers/internal/crowd"
)

// ErrWrong reports that a sale's books are not in order.
var ErrWrong = errors.New("the count is wrong")

// Plenty is a stock that no measurement sells out. Its units have numbers as those of real
// sales: a claim takes more memory for one beyond 32 bits.
const Plenty = 1 << 31

// Site is a store and the sales in it.
type Site struct {
	Declared spec.Sale // how a sale here is declared, without stock and locks; a name is one to begin with
	Store    *backends.Store
	names    int // given so far
}

// Declared is a sale of which a user may have one unit. It has no store yet.
func Declared() spec.Sale {
	return spec.Sale{Run: 1, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL}
}

// Quiet keeps the logs of clients out of tables.
var Quiet = slog.New(slog.DiscardHandler)

// Open opens the store of sales that are declared alike.
func Open(declared spec.Sale) (*Site, error) {
	store, err := backends.Open(declared, Quiet)
	if err != nil {
		return nil, err
	}
	return &Site{Declared: declared, Store: store}, nil
}

// Close closes the store.
func (s *Site) Close() error { return s.Store.Close() }

// Embedded makes an embedded store in a new folder under dir, and returns it while do
// runs. The folder is gone afterwards.
func Embedded(dir string, do func(*Site) error) error {
	own, err := os.MkdirTemp(dir, "sales-")
	if err != nil {
		return err
	}
	declared := Declared()
	declared.Embedded = &spec.Embedded{Dir: own}
	s, err := Open(declared)
	if err == nil {
		err = errors.Join(do(s), s.Close())
	}
	return errors.Join(err, os.RemoveAll(own))
}

// Fresh returns a name that nothing here had before, for a sale or a part of row
// keys.
func (s *Site) Fresh(what string) string {
	s.names++
	return fmt.Sprintf("%s-%d", what, s.names)
}

// Apply makes a new sale, as the command apply does, and returns its name.
func (s *Site) Apply(ctx context.Context, stock int64, shards int) (string, error) {
	sale := s.Declared
	sale.Name, sale.Stock, sale.LockCount = s.Fresh(cmp.Or(s.Declared.Name, "sale")), stock, shards
	cfg := apply.Config{
		Backends: machine.Backends{Logs: s.Store.Logs, Nodes: s.Store.Nodes, Clock: clock.System(), Rand: rand.Reader},
		Options:  apply.Options{Writer: make([]byte, 8), Who: "bench"},
	}
	if _, err := rand.Read(cfg.Writer); err != nil {
		return "", err
	}
	actual, err := current.Read(ctx, cfg.Backends, sale.Name)
	if err != nil {
		return "", err
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		return "", err
	}
	_, err = apply.Run(ctx, cfg, plan)
	return sale.Name, err
}

// Serving is an executor that sells.
type Serving struct {
	*executor.Executor
	Stop func() error
}

// Serve runs an executor over a store until stop, and returns once it can sell.
func Serve(ctx context.Context, store *backends.Store, sale string) (*Serving, error) {
	e := executor.New(executor.Config{Logs: store.Logs, Nodes: store.Nodes, Sale: sale, Address: "127.0.0.1:1"})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	s := &Serving{Executor: e, Stop: func() error { cancel(); return <-ended }}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		switch why := e.Ready(); {
		case why == nil:
			return s, nil
		case ctx.Err() != nil || time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("%s is not served: %w", sale, why), ctx.Err(), s.Stop())
		}
	}
}

// Selling makes a sale, has an executor serve it while do runs, and returns the
// sale's name.
func (s *Site) Selling(ctx context.Context, stock int64, shards int, do func(*Serving) error) (string, error) {
	sale, err := s.Apply(ctx, stock, shards)
	if err != nil {
		return "", err
	}
	e, err := Serve(ctx, s.Store, sale)
	if err != nil {
		return "", err
	}
	return sale, errors.Join(do(e), e.Stop())
}

// Written returns how many slots and bytes the shards' logs have.
func (s *Serving) Written() (slots, bytes int64) {
	for _, shard := range s.Status().Shards {
		slots, bytes = slots+int64(shard.Next), bytes+shard.Bytes
	}
	return slots, bytes
}

// Claimer claims one unit each for the users that name gives. A user who has a
// unit already, or comes after the last, is refused. A claim that was not decided is
// made again with the same key, as a client would, up to a minute later. Any other
// answer is an error.
func (s *Serving) Claimer(name func(i int64) string) crowd.Claimer {
	return func(_ context.Context, i int64) (bool, error) {
		r := executor.Request{User: name(i), Key: crowd.Key(i), Quantity: 1}
		for again := 0; ; again++ {
			// Real clients each have a context of their own. This crowd's is one, at
			// whose lock all of them would contend for, before and after each wait.
			a := s.Do(context.Background(), r)
			row := a.Outcome.Row()
			switch {
			case a.Outcome == api.Sold:
				return true, nil
			case a.Outcome == api.LimitReached, a.Outcome == api.SoldOut, a.Outcome == api.NoneNow:
				return false, nil
			case row.Retry == api.Again && again < 60:
				time.Sleep(row.RetryAfter)
			default:
				return false, fmt.Errorf("a claim on %s was answered %s %s", s.Sale(), a.Outcome, a.Message)
			}
		}
	}
}

// Audit fails unless the ledger has exactly the claims that were accepted.
func (s *Site) Audit(ctx context.Context, sale string, accepted int64) error {
	a, err := audit.Run(ctx, s.Store.Logs, sale, ledger.NewState, nil)
	switch {
	case err != nil:
		return err
	case !a.OK || a.Sold > a.Stock:
		return fmt.Errorf("%w: the audit of %s: %+v", ErrWrong, sale, a)
	case a.Sold != accepted:
		return fmt.Errorf("%w: %s accepted %d claims and its ledger has %d", ErrWrong, sale, accepted, a.Sold)
	}
	return nil
}
