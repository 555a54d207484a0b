// Package backends opens the backends of a sale. It is the one package that imports all drivers;
// its users see only ledger.Logs and quorum.Node, and lists.Node for the Redis engine. OpenUsers
// opens the sources of users' attributes and earlier purchases.
package backends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"salectl/backends/embedded"
	"salectl/backends/hbase"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/spec"
)

// Store holds the open backends of a sale. It is safe for concurrent use.
type Store struct {
	Name string // kind of the ledger's store, as documents name it
	// Remedy is what an operator should do if the ledger fails, in whole sentences; "": the
	// error itself suffices.
	Remedy string
	// Patience is how long a planner retries while the store fails every call; 0: as
	// machine.Backends defines it.
	Patience time.Duration
	Logs     ledger.Logs   // the ledger; on HBase also a ledger.Table
	Nodes    []quorum.Node // lock nodes, which grant the leases
	// Lists are the nodes that store the lists of a sale with engine redis, in the order of its
	// redis.nodes; spec.ListNode returns the index for a shard. They are the servers of Nodes.
	// Nil for engine ledger.
	Lists []lists.Node

	// Closer releases connections and files; nil: there are none.
	Closer func() error
}

// serverPatience is how long a server may be unreachable: another one takes over from a dead
// region server within 20 s.
const serverPatience = 30 * time.Second

// Close completes the writes under way, then releases connections and files.
func (s *Store) Close() error {
	if s.Closer == nil {
		return nil
	}
	return s.Closer()
}

// clockKeeper is a lock node that uses this host's clock, as long as it trusts it.
type clockKeeper interface {
	TrustClock(ctx context.Context) error
}

// TrustClock makes the lock nodes without a clock of their own trust this host's clock as it is
// now. It returns an error if there is no such node.
func (s *Store) TrustClock(ctx context.Context) error {
	var errs []error
	found := false
	for _, n := range s.Nodes {
		if k, ok := n.(clockKeeper); ok {
			found, errs = true, append(errs, k.TrustClock(ctx))
		}
	}
	if !found {
		return errors.New("--trust-clock is for embedded sales: correct the clock that is wrong")
	}
	return errors.Join(errs...)
}

// Files returns the maximum number of files and connections that the backends of a sale have
// open at a time. Like Open, it returns an error for a sale without a driver.
func Files(sale spec.Sale) (int, error) {
	if _, err := describe(sale); err != nil {
		return 0, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
	n := 32 // one connection per HBase server in use, and those to ZooKeeper
	if sale.Embedded != nil {
		n = 8 // two databases, each with its write-ahead log and the index of that
	}
	if sale.Redis != nil {
		n += redis.Connections * len(sale.Redis.Nodes)
		if sale.Engine == spec.EngineRedis {
			n += redis.Connections * len(sale.Redis.Nodes)
		}
	}
	if sale.Users != nil && sale.Users.Table != nil {
		n += 32
	}
	return n, nil
}

// Open opens a sale's backends. It creates nothing, and an unreachable server is no error
// before the first call. logger gets the messages of drivers beside their errors; nil: no
// logging. The caller must close the Store.
func Open(sale spec.Sale, logger *slog.Logger) (*Store, error) {
	store, err := describe(sale)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
	var opened closers
	if store.Nodes, err = opened.nodes(sale); err == nil {
		store.Lists, err = opened.lists(sale)
	}
	if err == nil {
		store.Logs, err = opened.logs(sale, logger)
	}
	if err != nil {
		return nil, errors.Join(err, opened.close())
	}
	store.Closer = opened.close
	return store, nil
}

// describe returns a Store without open backends. It returns an error for backends that this
// program has no drivers for.
func describe(sale spec.Sale) (*Store, error) {
	home, err := sale.Ledger()
	if err != nil {
		return nil, err
	}
	store := &Store{Name: home.Kind}
	switch {
	case sale.Homes != nil:
		return nil, noDriver(home)
	case sale.HBase != nil:
		store.Patience = serverPatience
		store.Remedy = fmt.Sprintf("The ledger is in %s (ZooKeeper %s). Check that its servers run, then repeat the command.",
			home.Place, strings.Join(sale.HBase.Zookeeper, ", "))
	case sale.Engine == spec.EngineRedis:
		store.Patience = serverPatience // for the lists; a disk that is full stays so
	}
	return store, nil
}

func noDriver(home spec.Home) error {
	return fmt.Errorf("this program has no driver for %s (%s)", home.Place, home.Kind)
}

// closers release what was opened.
type closers []func() error

func (c closers) close() error {
	var errs []error
	for _, f := range c {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// OpenNodes opens only the lock nodes of a sale, for callers that need no ledger; otherwise it
// is like Open. Call close when the nodes are no longer in use.
func OpenNodes(sale spec.Sale) (nodes []quorum.Node, close func() error, err error) {
	var opened closers
	nodes, err = opened.nodes(sale)
	return nodes, opened.close, err
}

func (c *closers) nodes(sale spec.Sale) (nodes []quorum.Node, err error) {
	home, err := sale.Locks()
	switch {
	case err != nil:
		return nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	case sale.Homes != nil:
		return nil, noDriver(home)
	case sale.Redis == nil:
		node, err := embedded.OpenNode(sale.Embedded.Dir, embedded.ThisHost())
		if err != nil {
			return nil, err
		}
		*c = append(*c, node.Close)
		return []quorum.Node{node}, nil
	}
	servers, err := c.servers(sale)
	for _, n := range servers {
		nodes = append(nodes, n)
	}
	return nodes, err
}

// lists opens the nodes for a sale's lists, if it has any. They have their own connections, so
// that votes do not queue behind buyers.
func (c *closers) lists(sale spec.Sale) (nodes []lists.Node, err error) {
	if sale.Engine != spec.EngineRedis {
		return nil, nil
	}
	servers, err := c.servers(sale)
	for _, n := range servers {
		nodes = append(nodes, n.Lists())
	}
	return nodes, err
}

func (c *closers) servers(sale spec.Sale) ([]*redis.Node, error) {
	servers, err := redis.Nodes(*sale.Redis)
	for _, n := range servers {
		*c = append(*c, n.Close)
	}
	return servers, err
}

func (c *closers) logs(sale spec.Sale, logger *slog.Logger) (ledger.Logs, error) {
	if sale.Embedded != nil {
		logs, err := embedded.OpenLogs(sale.Embedded.Dir)
		if err != nil {
			return nil, err
		}
		*c = append(*c, logs.Close)
		return logs, nil
	}
	table, err := hbase.Open(hbase.Options{
		Zookeeper: sale.HBase.Zookeeper, ZookeeperRoot: sale.HBase.ZookeeperRoot, Table: sale.HBase.Table, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	*c = append(*c, table.Close)
	return table, nil
}

// Stores opens each store once, whatever the number of its sales, which then share its
// connections, or the syncs of a file. Logger is passed to Open. The zero Stores is ready for
// use, by one goroutine.
type Stores struct {
	Logger *slog.Logger
	// Opener opens a store; nil: Open.
	Opener func(spec.Sale, *slog.Logger) (*Store, error)

	open map[string]*Store
}

// Open returns the store of a sale, and opens it on first use.
func (s *Stores) Open(sale spec.Sale) (*Store, error) {
	ledger, err := sale.Ledger()
	locks, err2 := sale.Locks()
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
	// Sales share a store if their homes, the credentials for its servers and its lists are the same.
	key := fmt.Sprintf("%s %s %+v %v", ledger.Key(), locks.Key(), sale.Redis, sale.ListNodes())
	if store, ok := s.open[key]; ok {
		return store, nil
	}
	open := s.Opener
	if open == nil {
		open = Open
	}
	store, err := open(sale, s.Logger)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[string]*Store{}
	}
	s.open[key] = store
	return store, nil
}

// Close closes all stores, which must not be in use.
func (s *Stores) Close() error {
	var errs []error
	for _, store := range s.open {
		errs = append(errs, store.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
