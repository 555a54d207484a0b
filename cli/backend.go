package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"runtime/debug"
	"time"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/rules"
	"salectl/spec"
	"salectl/units"
)

// drivers are the functions that read documents and open stores.
type drivers struct {
	read  func(paths []string, stdin io.Reader) (sales []spec.Sale, foreign []string, err error)
	open  func(spec.Sale, *slog.Logger) (*backends.Store, error)
	nodes func(spec.Sale) (nodes []quorum.Node, closeNodes func() error, err error)
	files func(spec.Sale) (int, error)                                      // number of files that are open
	check func(context.Context, spec.Sale) error                            // of the sale's users
	users func(spec.Sale, *rules.Schema) (rules.Users, func() error, error) // attributes for rules
}

var ownDrivers = drivers{spec.Load, backends.Open, backends.OpenNodes, backends.Files, backends.CheckUsers, backends.OpenUsers}

// usersPatience bounds the wait for the servers of users.
const usersPatience = 10 * time.Second

// checkUsers returns an error if the users of a sale cannot be read.
func (d drivers) checkUsers(ctx context.Context, sale spec.Sale) error {
	ctx, cancel := context.WithTimeout(ctx, usersPatience)
	defer cancel()
	return d.check(ctx, sale)
}

// withStore opens the store of a sale while use runs.
func (d drivers) withStore(sale spec.Sale, use func(*backends.Store) error) (err error) {
	store, err := d.open(sale, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return withRemedy(store, use(store))
}

// withRemedy adds the remedy to an error of the ledger's store.
func withRemedy(store *backends.Store, err error) error {
	remedy := store.Remedy
	switch {
	case remedy == "" || errors.As(err, new(shown)) || errors.Is(err, fs.ErrPermission): // the store is up and has returned its own reason
		return err
	case errors.Is(err, planner.ErrStore):
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(waited)):
		remedy += " If they are up, use a longer --timeout."
	default:
		return err
	}
	return advised{err.Error(), remedy, err}
}

// readError converts an error of reading whole logs without planner to one like planner's:
// ErrStore, unless the log itself is invalid.
func readError(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ledger.ErrGone) || errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, planner.ErrRefused) || ctx.Err() != nil {
		return err
	}
	return &planner.StoreError{Err: err}
}

// reader is current.Read, or ReadSale for commands that make no table.
type reader func(context.Context, machine.Backends, string) (*planner.Actual, error)

// withActual is withStore for commands that begin by reading the actual state.
func (p *program) withActual(ctx context.Context, sale spec.Sale, read reader, use func(apply.Config, *planner.Actual) error) error {
	return p.withStore(sale, func(store *backends.Store) error {
		cfg := p.planning(store)
		actual, err := read(ctx, cfg.Backends, sale.Name)
		if err != nil {
			return err
		}
		return use(cfg, actual)
	})
}

// withSale is withActual for commands on a sale that was applied, if only in part. The error of
// any other is ledger.NoSale.
func (p *program) withSale(ctx context.Context, sale spec.Sale, use func(apply.Config, *planner.Actual) error) error {
	return p.withActual(ctx, sale, current.ReadSale, func(cfg apply.Config, actual *planner.Actual) error {
		if actual.Sale.UID() == "" {
			return ledger.NoSale{Sale: sale.Name}
		}
		return use(cfg, actual)
	})
}

// planning returns the planner's configuration for this run of the program.
func (p *program) planning(store *backends.Store) apply.Config {
	writer := make([]byte, 8)
	rand.Read(writer) // never fails
	return apply.Config{
		Backends: machine.Backends{
			Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Patience: store.Patience,
			Clock:  clock.System(),
			Rand:   rand.Reader,
			Logger: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		},
		Options: apply.Options{Writer: writer, Who: who()},
	}
}

// who returns user@host, for readers of the ledger.
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

// garbagePercent is the garbage collection target of a command that holds a whole ledger in
// memory. With Go's default of 100 it would need half as much again as the server does, on a
// host that may have room for one of them only. A ledger has few pointers, so frequent
// collections cost little.
const garbagePercent = 10

// sparing makes the collector run often until restore is called.
func sparing() (restore func()) {
	before := debug.SetGCPercent(garbagePercent)
	if before < garbagePercent { // the environment has set a lower one, or turned it off
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}

// Payloads of units that are more than numbers. Nil stands for numbers.

// readPayloads reads the declared units of a sale, and their changes, for the plan.
func readPayloads(ctx context.Context, logs ledger.Logs, sale spec.Sale, actual *planner.Actual) error {
	source, err := units.ForSale(sale, os.LookupEnv)
	if err == nil {
		actual.Units = current.ReadUnits(ctx, logs, sale.Units, source, actual)
	}
	return err
}

// payloadReader returns a reader of a sale's payloads, given the sale's log. It refuses a key
// that decrypts none of them, even before anything is sold.
func payloadReader(ctx context.Context, logs ledger.Logs, sale spec.Sale, log *ledger.Sale) (*payload.Reader, error) {
	if len(log.Newest().GetUnits()) == 0 {
		return nil, nil
	}
	key, err := units.PayloadKey(sale, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if err := payload.CheckKey(ctx, logs, log, key); err != nil {
		return nil, err
	}
	return payload.NewReaderOfSale(logs, log, key), nil
}

// drawKeyFits refuses to plan a draw whose key is missing, or does not decrypt the committed
// secret: the draw could not be revealed.
func drawKeyFits(sale spec.Sale, live *ledger.Sale) error {
	if sale.Draw == nil || live.Live() && live.Drawn() != nil {
		return nil
	}
	key, err := units.DrawKey(sale, os.LookupEnv)
	if err != nil {
		return err
	}
	return apply.FitsDraw(live, key)
}
