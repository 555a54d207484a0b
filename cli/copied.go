package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"salectl/backends"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

// copied is the temporary copy of a sale that a rehearsal sells.
type copied struct {
	*program
	store   *backends.Store
	of      string // name of the original sale
	sale    spec.Sale
	planned bool       // the copy may exist and must be removed
	drawKey *units.Key // of a draw; generated for the copy and kept in memory only
}

const (
	// cleanTimeout bounds the removal of a copy.
	cleanTimeout = 30 * time.Second
	// readyTimeout bounds the time until the own server has taken the copy over.
	readyTimeout = 30 * time.Second
	// orphanAge is the age from which an unserved rehearsal counts as left behind. It exceeds
	// the duration of any lease.
	orphanAge = time.Duration(spec.MaxLockTTL) + 5*time.Second
)

// create removes what killed rehearsals of the sale have left, and applies the copy.
func (c *copied) create(ctx context.Context) error {
	if err := apply.RemoveCopies(ctx, c.planning(c.store), c.of, orphanAge); err != nil {
		return err
	}
	c.planned = true
	return c.apply(ctx)
}

// planning returns the program's configuration with the copy's own key.
func (c *copied) planning(store *backends.Store) apply.Config {
	cfg := c.program.planning(store)
	cfg.DrawKey = c.drawKey
	return cfg
}

// apply applies the current declaration of the copy.
func (c *copied) apply(ctx context.Context) error {
	cfg := c.planning(c.store)
	actual, err := current.Read(ctx, cfg.Backends, c.sale.Name)
	if err != nil {
		return err
	}
	plan, err := planner.Make(c.sale, actual)
	if err != nil {
		return err
	}
	result, err := apply.Run(ctx, cfg, plan)
	if ctx.Err() != nil {
		return context.Cause(ctx) // a partly applied copy is removed anyway
	}
	if err != nil && result != nil && len(result.Unmarked) > 0 {
		c.warn([]string{"the copy is sold without the lock nodes that are away: " + strings.Join(result.Unmarked, ", ")})
		return nil
	}
	return err
}

// remove removes the copy without a trace.
func (c *copied) remove(ctx context.Context) error {
	if !c.planned {
		return nil
	}
	if _, err := apply.Purge(ctx, c.planning(c.store), c.sale.Name); err != nil {
		return fmt.Errorf("the copy %s was not removed, the next rehearsal will: %w", c.sale.Name, err)
	}
	return nil
}

// serve runs a real server for the copy, as serve would, while use runs. use receives the URLs
// for buyers and for operators.
func (c *copied) serve(ctx context.Context, use func(url, admin string) error) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Close()
		return err
	}
	log := slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	e := executor.New(executor.Config{
		Logs: c.store.Logs, Nodes: c.store.Nodes, Lists: c.store.Lists, Sale: c.sale.Name,
		Users: usersOf(c.sale), Address: l.Addr().String(), Logger: log,
	})
	h := httpd.New(httpd.Config{Sales: []executor.Service{e}, Log: log})

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	owned, served := make(chan error, 1), make(chan error, 2)
	go func() { owned <- e.Run(running) }()
	err = ready(ctx, e)
	if err != nil {
		l.Close()
		admin.Close()
		stop()
		return errors.Join(err, <-owned)
	}
	// Requests end before the leases are released.
	serving, drain := context.WithCancel(running)
	defer drain()
	go func() { served <- h.Serve(serving, l) }()
	go func() { served <- h.ServeAdmin(serving, admin) }()
	err = use("http://"+l.Addr().String(), "http://"+admin.Addr().String())
	drain()
	err = errors.Join(err, <-served, <-served)
	stop()
	return errors.Join(err, <-owned)
}

// ready waits until the sale can be sold.
func ready(ctx context.Context, e *executor.Executor) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, errTimeout)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		err := e.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: the copy could not be served: %w", context.Cause(ctx), err)
		case <-look.C:
		}
	}
}
