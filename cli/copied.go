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
	"salectl/spec"
	"salectl/units"
)

// copied is the throwaway copy of a sale that a rehearsal sells.
type copied struct {
	*program
	store   *backends.Store
	of      string // the name of the sale
	sale    spec.Sale
	planned bool       // there is something to remove
	drawKey *units.Key // of a draw; made for the copy, and known to nobody else
}

const (
	// cleanTimeout is for the removal of a copy.
	cleanTimeout = 30 * time.Second
	// readyTimeout is for a server of our own to take the copy over.
	readyTimeout = 30 * time.Second
	// orphanAge is how old a rehearsal is that nobody serves and that was not
	// just begun. It is more than any lease lasts.
	orphanAge = spec.MaxLockTTL + 5*time.Second
)

// create removes what killed rehearsals of the sale have left, and applies the copy.
func (c *copied) create(ctx context.Context) error {
	if err := planner.RemoveCopies(ctx, c.planning(c.store), c.of, orphanAge); err != nil {
		return err
	}
	c.planned = true
	return c.apply(ctx)
}

// planning is the program's, with the copy's own key.
func (c *copied) planning(store *backends.Store) planner.Config {
	cfg := c.program.planning(store)
	cfg.DrawKey = c.drawKey
	return cfg
}

// apply applies the copy as it is declared now.
func (c *copied) apply(ctx context.Context) error {
	cfg := c.planning(c.store)
	actual, err := planner.ReadActual(ctx, cfg, c.sale.Name)
	if err != nil {
		return err
	}
	plan, err := planner.Make(c.sale, actual)
	if err != nil {
		return err
	}
	result, err := planner.Apply(ctx, cfg, plan)
	if ctx.Err() != nil {
		return context.Cause(ctx) // that it is half applied matters to nobody: it is removed
	}
	if err != nil && result != nil && len(result.Unmarked) > 0 {
		c.warn([]string{"the copy is sold without the lock nodes that are away: " + strings.Join(result.Unmarked, ", ")})
		return nil
	}
	return err
}

// remove leaves nothing of the copy.
func (c *copied) remove(ctx context.Context) error {
	if !c.planned {
		return nil
	}
	if _, err := planner.Purge(ctx, c.planning(c.store), c.sale.Name); err != nil {
		return fmt.Errorf("the copy %s was not removed, the next rehearsal will: %w", c.sale.Name, err)
	}
	return nil
}

// serve runs a real server for the copy, as serve would, while use takes. Use gets the
// URLs for buyers and for operators.
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
	// Requests end before the leases are given back.
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

// ready waits until a sale can be bought.
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
