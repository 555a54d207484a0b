package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// withStore opens where a sale is kept, for as long as use takes.
func withStore(sale spec.Sale, use func(*backends.Store) error) (err error) {
	store, err := backends.Open(sale, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return withPlace(sale, use(store))
}

// withPlace adds to an error of the ledger's store where that is.
func withPlace(sale spec.Sale, err error) error {
	if sale.HBase == nil || !errors.Is(err, planner.ErrStore) || errors.As(err, new(shown)) {
		return err
	}
	remedy := fmt.Sprintf("The ledger is in the HBase table %s, which is found through ZooKeeper at %s. See that its servers are up, then run it again.",
		sale.HBase.Table, strings.Join(sale.HBase.Zookeeper, ", "))
	return advised{err.Error(), remedy, err}
}

// readError marks an error of reading whole logs, which planner takes no part
// in, like those of planner: unless the log itself is wrong, its store is.
func readError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrCorrupt) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", planner.ErrStore, err)
}

// reader is planner.ReadActual, or ReadSale for those who make no table.
type reader func(context.Context, planner.Config, string) (*planner.Actual, error)

// withActual is withStore for commands that begin with what there is.
func (p *program) withActual(ctx context.Context, sale spec.Sale, read reader, use func(planner.Config, *planner.Actual) error) error {
	return withStore(sale, func(store *backends.Store) error {
		cfg := p.planning(store)
		actual, err := read(ctx, cfg, sale.Name)
		if err != nil {
			return err
		}
		return use(cfg, actual)
	})
}

// serverPatience is how long a server may be away: another one takes over from a
// region server that has died within 20 s.
const serverPatience = 30 * time.Second

// planning is what the planner works with in this run of the program.
func (p *program) planning(store *backends.Store) planner.Config {
	writer := make([]byte, 8)
	rand.Read(writer)            // never fails
	patience := time.Duration(0) // the planner's own: a disk that is full stays so
	if store.Name != "embedded" || len(store.Lists) > 0 {
		patience = serverPatience
	}
	return planner.Config{
		Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Patience: patience,
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
