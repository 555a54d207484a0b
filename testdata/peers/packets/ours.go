package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// ours is salectl's Redis engine: the packets in one list on the same Redis, an
// executor in this process that gives them away, and a ledger in a file that it
// drains the list into meanwhile. Packet i is unit i+1.
type ours struct {
	sale  spec.Sale
	store *backends.Store
	dir   string
	made  []packet
	*executor.Executor
	stop func() error
}

// newOurs returns salectl on a Redis of its own, with acknowledgement by that.
func newOurs(address string, _ int) contender {
	return &ours{sale: spec.Sale{
		Name: "packets", Run: 1, LockCount: 1, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL,
		Engine: spec.EngineRedis, Ack: spec.AckRedis, Backlog: spec.MaxBacklog,
		Redis: &spec.Redis{Nodes: []string{address}},
	}}
}

// onHBase is newOurs with the ledger in an HBase.
func onHBase(zookeeper, table string) opener {
	return func(address string, callers int) contender {
		o := newOurs(address, callers).(*ours)
		o.sale.HBase = &spec.HBase{Zookeeper: []string{zookeeper}, ZookeeperRoot: spec.DefaultZookeeperRoot, Table: table}
		return o
	}
}

func (o *ours) prepare(ctx context.Context, packets []packet) (err error) {
	if o.dir, err = os.MkdirTemp("", "packets-"); err != nil {
		return err
	}
	o.made = packets
	o.sale.Stock = int64(len(packets))
	if o.sale.HBase == nil {
		o.sale.Embedded = &spec.Embedded{Dir: o.dir}
	}
	if o.store, err = backends.Open(o.sale, nil); err != nil {
		return err
	}
	if err := o.apply(ctx); err != nil {
		return err
	}
	return o.serve(ctx)
}

func (o *ours) apply(ctx context.Context) error {
	cfg := apply.Config{
		Backends: machine.Backends{Logs: o.store.Logs, Nodes: o.store.Nodes, Lists: o.store.Lists, Clock: clock.System(), Rand: rand.Reader},
		Options:  apply.Options{Writer: make([]byte, 8), Who: "bench"},
	}
	if _, err := rand.Read(cfg.Writer); err != nil {
		return err
	}
	actual, err := current.Read(ctx, cfg.Backends, o.sale.Name)
	if err != nil {
		return err
	}
	plan, err := planner.Make(o.sale, actual)
	if err != nil {
		return err
	}
	_, err = apply.Run(ctx, cfg, plan)
	return err
}

// serve runs an executor until close, and returns once it can give packets away.
func (o *ours) serve(ctx context.Context) error {
	e := executor.New(executor.Config{
		Logs: o.store.Logs, Nodes: o.store.Nodes, Lists: o.store.Lists, Sale: o.sale.Name, Address: "127.0.0.1:1", Queue: atOnce,
	})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	o.Executor, o.stop = e, func() error { cancel(); return <-ended }
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		switch why := e.Ready(); {
		case why == nil:
			return nil
		case ctx.Err() != nil || time.Now().After(deadline):
			return fmt.Errorf("the packets are not served: %w", why)
		}
	}
}

func (o *ours) run(ctx context.Context, callers int) (int, time.Duration, error) {
	return untilEmpty(ctx, callers, 1, func(ctx context.Context, users []string) (int, bool, error) {
		switch a := o.claim(ctx, users[0]); a.Outcome {
		case api.Sold:
			return 1, false, nil
		case api.LimitReached:
			return 0, false, nil
		case api.SoldOut, api.NoneNow: // there is one list: it is empty
			return 0, true, nil
		default:
			return 0, false, fmt.Errorf("%s: %s", a.Outcome, a.Message)
		}
	})
}

func (o *ours) grab(ctx context.Context, user string) (bool, error) {
	switch a := o.claim(ctx, user); a.Outcome {
	case api.Sold:
		return true, nil
	case api.LimitReached, api.SoldOut, api.NoneNow:
		return false, nil
	default:
		return false, fmt.Errorf("%s: %s", a.Outcome, a.Message)
	}
}

func (o *ours) claim(ctx context.Context, user string) executor.Answer {
	return o.Do(ctx, executor.Request{User: user, Quantity: 1})
}

// drained waits until the ledger has so many grabs.
func (o *ours) drained(ctx context.Context, grabs int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		sold := int64(0)
		for _, s := range o.Status().Shards {
			sold += s.Sold
		}
		switch {
		case sold == int64(grabs):
			return nil
		case ctx.Err() != nil || time.Now().After(deadline):
			return errors.Join(fmt.Errorf("the ledger has %d of %d grabs", sold, grabs), ctx.Err())
		}
	}
}

// taken reads the ledger, once all that was given is in it.
func (o *ours) taken(ctx context.Context) (all []packet, err error) {
	stop := o.stop
	o.stop = nil
	if err := stop(); err != nil {
		return nil, err
	}
	sale := ledger.NewSale(spec.SaleLog(o.sale.Name))
	if _, err := ledger.Load(ctx, o.store.Logs, spec.SaleLog(o.sale.Name), sale); err != nil {
		return nil, err
	}
	shards, err := ledger.LoadShards(ctx, o.store.Logs, sale)
	if err != nil {
		return nil, err
	}
	for _, s := range shards {
		for i := range s.Claims() {
			c := s.Claim(i)
			for _, unit := range c.Units {
				all = append(all, packet{ID: unit - 1, Money: o.made[unit-1].Money, User: c.User})
			}
		}
	}
	return all, nil
}

func (o *ours) close() error {
	var errs []error
	if o.stop != nil {
		errs = append(errs, o.stop())
	}
	if o.store != nil {
		errs = append(errs, o.store.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(o.dir))...)
}
