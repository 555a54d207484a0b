// Package hbase stores logs in a table of HBase: one row per log, with one cell per slot and
// one for the head. An append is a check-and-put on the head, which HBase executes atomically,
// so that two writers never both get a slot.
//
// It needs a table with one family that keeps one version of each cell for ever. CreateTable
// creates it, and CheckTable reports what is wrong with an existing one.
//
// Every call is sent once and bounded by its context, whatever the state of the servers.
// Idempotent calls are repeated where that may help; an append never is. Its outcome may be
// unknown, and it may be stored long after its error. Package ledger determines the outcome by
// reading the log's slot.
package hbase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"salectl/backends/ledger"
	"salectl/spec"
)

// Options names a table and the way to reach it.
type Options struct {
	Zookeeper     []string // hosts of the quorum, host:port each; one that answers suffices
	ZookeeperRoot string   // HBase's parent znode; empty: spec.DefaultZookeeperRoot
	Table         string   // with its namespace and a colon, unless that is the default one

	// Logger gets a warning when a server loses a connection with pending calls, at most once a
	// minute per server, and gohbase's messages at debug level. nil: no logging.
	Logger *slog.Logger

	// Dial connects to region servers and the master, for instance through a proxy. nil: a
	// plain net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Logs implements ledger.Logs and ledger.Table on one table.
type Logs struct {
	table    string
	where    string // the table and its ZooKeeper, for errors
	maxEntry int    // maximum size of entry and head
	servers  *servers
	regions  *regions

	end     context.CancelFunc
	calls   sync.RWMutex // read-locked by each call; Close locks it for good
	closing sync.Once
	busy    sync.WaitGroup // goroutines that calls have started
}

var (
	_ ledger.Logs  = (*Logs)(nil)
	_ ledger.Table = (*Logs)(nil)
)

// Open returns a handle on the logs of a table. It connects to nothing, so unreachable servers
// are no error, and creates nothing. Close releases its connections.
func Open(o Options) (*Logs, error) {
	switch {
	case len(o.Zookeeper) == 0:
		return nil, errors.New("no ZooKeeper host of HBase is given")
	case o.Table == "":
		return nil, errors.New("no HBase table is given")
	}
	o.ZookeeperRoot = cmp.Or(o.ZookeeperRoot, spec.DefaultZookeeperRoot)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	l := &Logs{
		table:    o.Table,
		where:    fmt.Sprintf("HBase table %s (ZooKeeper %s)", o.Table, strings.Join(o.Zookeeper, ",")),
		maxEntry: maxEntry,
	}
	l.servers = &servers{
		dial: o.Dial, logger: o.Logger, inner: demoted(o.Logger), calls: &l.calls, start: l.busy.Go,
		open: make(map[endpoint]*server), conns: make(map[*conn]struct{}), warned: make(map[string]time.Time),
	}
	l.servers.life, l.end = context.WithCancel(context.Background())
	l.regions = &regions{table: []byte(o.Table), servers: l.servers, zookeeper: &zookeeper{
		hosts: o.Zookeeper, root: o.ZookeeperRoot, servers: l.servers, logger: l.servers.inner,
	}}
	return l, nil
}

// Close closes all connections and waits for the calls under way. They fail; an append among
// them may be stored nevertheless.
func (l *Logs) Close() error {
	l.end()
	l.servers.close()
	l.closing.Do(l.calls.Lock)
	l.busy.Wait()
	return nil
}

// call makes a call of the handle. Its error names the operation and the table.
func (l *Logs) call(what string, do func() error) error {
	if !l.calls.TryRLock() {
		return fmt.Errorf("%s: %w", l.where, errClosed)
	}
	defer l.calls.RUnlock()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %s: %w", what, l.where, err)
	}
	return nil
}

// orEmpty drops the error of a missing table, for calls to which such a table has no logs.
func orEmpty(err error) error {
	if errors.Is(err, ledger.ErrNoTable) {
		return nil
	}
	return err
}

// demoted returns a logger for gohbase that logs at debug level. gohbase logs as errors what a
// call returns anyway, and would fill the log while a server is unreachable.
func demoted(to *slog.Logger) *slog.Logger { return slog.New(demoter{to.Handler()}) }

type demoter struct{ slog.Handler }

func (d demoter) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

func (d demoter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	return d.Handler.Handle(ctx, r)
}

func (d demoter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoter{d.Handler.WithAttrs(attrs)}
}

func (d demoter) WithGroup(name string) slog.Handler { return demoter{d.Handler.WithGroup(name)} }
