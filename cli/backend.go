package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"os/user"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/planner"
	"salectl/spec"
)

// withStore opens where a sale is kept, for as long as use takes.
func withStore(sale spec.Sale, use func(*backends.Store) error) (err error) {
	store, err := backends.Open(sale)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return use(store)
}

// withActual is withStore for commands that begin with what there is.
func (p *program) withActual(ctx context.Context, sale spec.Sale, use func(planner.Config, *planner.Actual) error) error {
	return withStore(sale, func(store *backends.Store) error {
		cfg := p.planning(store)
		actual, err := planner.ReadActual(ctx, cfg, sale.Name)
		if err != nil {
			return err
		}
		return use(cfg, actual)
	})
}

// planning is what the planner works with in this run of the program.
func (p *program) planning(store *backends.Store) planner.Config {
	writer := make([]byte, 8)
	rand.Read(writer) // never fails
	return planner.Config{
		Logs: store.Logs, Nodes: store.Nodes,
		Clock:  clock.System(),
		Writer: writer,
		Rand:   rand.Reader,
		Who:    who(),
		Logger: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// who is user@host, for those who read the ledger.
func who() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
