package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tsuna/gohbase"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/planner"
	"salectl/services"
	"salectl/spec"
)

// quiet keeps the clients' logs out of the table.
var quiet = slog.New(slog.DiscardHandler)

// site is three Redis and an HBase of our own, and the clients of both sides.
type site struct {
	declared spec.Sale // how a sale here is declared, without name, stock and locks
	names    int       // given so far
	store    *backends.Store
	redis    []*redis.Client // the naive protocol's
	hbase    gohbase.Client  // the naive protocol's

	stops []func()
}

func openSite(ctx context.Context) (_ *site, err error) {
	s := &site{declared: spec.Sale{Run: 1, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL, Redis: &spec.Redis{}}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	say("starting three Redis and an HBase")
	for range 3 {
		server, err := services.StartRedis(ctx, services.RedisOptions{})
		if err != nil {
			return nil, err
		}
		s.stops = append(s.stops, server.Stop)
		s.declared.Redis.Nodes = append(s.declared.Redis.Nodes, server.Addr())
		// A pool smaller than the callers would be what the naive protocol waits for.
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 256})
		s.stops = append(s.stops, func() { _ = client.Close() })
		s.redis = append(s.redis, client)
	}
	server, err := services.StartHBase(ctx, services.HBaseOptions{})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, server.Stop)
	s.declared.HBase = &spec.HBase{
		Zookeeper: []string{server.Zookeeper()}, ZookeeperRoot: spec.DefaultZookeeperRoot, Table: "sales",
	}
	s.hbase = gohbase.NewClient(server.Zookeeper(), gohbase.Logger(quiet))
	s.stops = append(s.stops, s.hbase.Close)
	if s.store, err = backends.Open(s.declared, quiet); err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() { _ = s.store.Close() })
	return s, s.store.Logs.(ledger.Table).CreateTable(ctx)
}

// close gives everything back, the last first.
func (s *site) close() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

// fresh returns a name that nothing here had before, for a sale or a part of row
// keys.
func (s *site) fresh(what string) string {
	s.names++
	return fmt.Sprintf("%s-%d", what, s.names)
}

// apply makes a new sale, as the command apply does, and returns its name.
func (s *site) apply(ctx context.Context, stock int64, shards int) (string, error) {
	sale := s.declared
	sale.Name, sale.Stock, sale.LockCount = s.fresh("sale"), stock, shards
	cfg := planner.Config{
		Logs: s.store.Logs, Nodes: s.store.Nodes, Clock: clock.System(), Writer: make([]byte, 8), Rand: rand.Reader, Who: "bench",
	}
	if _, err := rand.Read(cfg.Writer); err != nil {
		return "", err
	}
	actual, err := planner.ReadActual(ctx, cfg, sale.Name)
	if err != nil {
		return "", err
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		return "", err
	}
	_, err = planner.Apply(ctx, cfg, plan)
	return sale.Name, err
}

// serving is an executor that sells.
type serving struct {
	*executor.Executor
	stop func() error
}

// serve runs an executor over a store until stop, and returns once it can sell.
func serve(ctx context.Context, store *backends.Store, sale string) (*serving, error) {
	e := executor.New(executor.Config{Logs: store.Logs, Nodes: store.Nodes, Sale: sale, Address: "127.0.0.1:1"})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	s := &serving{Executor: e, stop: func() error { cancel(); return <-ended }}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		switch why := e.Ready(); {
		case why == nil:
			return s, nil
		case ctx.Err() != nil || time.Now().After(deadline):
			return nil, errors.Join(fmt.Errorf("%s is not served: %w", sale, why), ctx.Err(), s.stop())
		}
	}
}

// selling makes a sale, has an executor serve it while do runs, and returns the
// sale's name.
func (s *site) selling(ctx context.Context, stock int64, shards int, do func(*serving) error) (string, error) {
	sale, err := s.apply(ctx, stock, shards)
	if err != nil {
		return "", err
	}
	e, err := serve(ctx, s.store, sale)
	if err != nil {
		return "", err
	}
	return sale, errors.Join(do(e), e.stop())
}

// written returns how many slots and bytes the shards' logs have.
func (s *serving) written() (slots, bytes int64) {
	for _, shard := range s.Status().Shards {
		slots, bytes = slots+int64(shard.Slot)+1, bytes+shard.Bytes
	}
	return slots, bytes
}

// audit fails unless the ledger has exactly the claims that were accepted.
func (s *site) audit(ctx context.Context, sale string, accepted int64) error {
	a, err := ledger.NewAudit(ctx, s.store.Logs, sale)
	switch {
	case err != nil:
		return err
	case !a.OK || a.Sold > a.Stock:
		return fmt.Errorf("%w: the audit of %s: %+v", errWrong, sale, a)
	case a.Sold != accepted:
		return fmt.Errorf("%w: %s accepted %d claims and its ledger has %d", errWrong, sale, accepted, a.Sold)
	}
	return nil
}
