package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"salectl/backends"
	"salectl/executor"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/server"
	"salectl/spec"
	"salectl/units"
)

// copied is the temporary copy of a sale that a rehearsal sells.
type copied struct {
	*program
	store *backends.Store
	sale  spec.Sale
	units *planner.UnitsActual // as applied; nil: units are numbers

	// Of a draw; generated for the copy and kept in memory only.
	drawKey *units.Key
	beacon  []byte // nil: the sale declares no beacon
}

const (
	// cleanTimeout bounds the removal of a copy.
	cleanTimeout = 30 * time.Second
	// orphanAge is the age from which an unserved rehearsal counts as left behind. It exceeds
	// the duration of any lease.
	orphanAge = time.Duration(spec.MaxLockTTL) + 5*time.Second
)

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
	if err := readPayloads(ctx, c.store.Logs, c.sale, actual); err != nil {
		return err
	}
	plan, err := planner.Make(c.sale, actual)
	if err != nil {
		return err
	}
	if cfg.Units, err = apply.PayloadsOf(actual); err != nil {
		return err
	}
	defer cfg.Units.Close()
	c.units = actual.Units
	result, err := apply.Run(ctx, cfg, plan)
	if ctx.Err() != nil {
		return context.Cause(ctx) // a partly applied copy is removed anyway
	}
	if err != nil && result != nil && len(result.Unmarked) > 0 {
		c.warn([]string{"the copy is sold without unreachable lock nodes: " + strings.Join(result.Unmarked, ", ")})
		return nil
	}
	return err
}

// places returns the names of the units of the copy, in order, and the lengths of their rows.
func (c *copied) places(ctx context.Context) (names []string, rows []int64, err error) {
	if c.units == nil {
		return nil, nil, nil // numbers
	}
	err = c.units.Source.Read(ctx, nil, func(u units.Unit, _ bool) error {
		names = append(names, u.Name)
		return nil
	})
	return names, c.units.Rows, err
}

// serve serves the copy while use runs.
func (c *copied) serve(ctx context.Context, use func(url, admin string) error) error {
	return server.Temporarily(ctx, executor.Config{
		Logs: c.store.Logs, Nodes: c.store.Nodes, Lists: c.store.Lists, Sale: c.sale.Name, Users: server.UsersOf(c.sale),
		Logger: slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, use)
}
