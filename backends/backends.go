// Package backends chooses the drivers of a sale's backends. It is the one
// place that knows them all; whoever comes through here sees only ledger.Logs
// and quorum.Nodes, and lists.Nodes for the Redis engine.
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

// Store is where a sale is kept. All of it may be used by several goroutines.
type Store struct {
	Name string // of the kind of store that the ledger is in, as documents call it
	// Remedy tells an operator what to do where the ledger fails, in sentences;
	// "": there is nothing to be said beyond the error.
	Remedy string
	// Patience is how long the store may fail every call before a planner gives up
	// on it; 0: as long as planner.Config has it.
	Patience time.Duration
	Logs     ledger.Logs   // the ledger; on HBase it is a ledger.Table too
	Nodes    []quorum.Node // who grants the leases
	// Lists are the nodes that keep the lists of a sale whose engine is redis, in
	// the order of its redis.nodes: spec.ListNode says which has a shard's list.
	// Nil for engine ledger. They are the servers of Nodes.
	Lists []lists.Node

	// Closer gives connections and files back; nil: there are none.
	Closer func() error
}

// serverPatience is how long a server may be away: another one takes over from a
// region server that has died within 20 s.
const serverPatience = 30 * time.Second

// Close gives connections and files back. What is under way is stored first.
func (s *Store) Close() error {
	if s.Closer == nil {
		return nil
	}
	return s.Closer()
}

// clockKeeper is a lock node whose time is that of this host, as long as that can be
// believed.
type clockKeeper interface {
	TrustClock(ctx context.Context) error
}

// TrustClock has the lock nodes that have no clock of their own believe this host's
// from now on, whatever it showed before. It returns an error where none is such a
// node.
func (s *Store) TrustClock(ctx context.Context) error {
	var errs []error
	found := false
	for _, n := range s.Nodes {
		if k, ok := n.(clockKeeper); ok {
			found, errs = true, append(errs, k.TrustClock(ctx))
		}
	}
	if !found {
		return errors.New("the lock nodes have clocks of their own: set the clock right that is wrong")
	}
	return errors.Join(errs...)
}

// Files returns how many files and connections the backends of a sale may have open
// at a time, at most. The error is that of Open for a sale that has no driver.
func Files(sale spec.Sale) (int, error) {
	if _, err := describe(sale); err != nil {
		return 0, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
	n := 32 // a connection of each server of HBase that is asked, and of ZooKeeper
	if sale.Embedded != nil {
		n = 8 // two databases, each with its log and its index of that
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

// Open connects a sale's backends. It creates nothing, and a server that is
// away is no error before it is asked something. What drivers have to say
// beside their errors goes to logger; nil: nowhere. Close what it returns.
func Open(sale spec.Sale, logger *slog.Logger) (*Store, error) {
	store, err := describe(sale)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
	nodes, closeNodes, err := OpenNodes(sale)
	if err != nil {
		return nil, err
	}
	kept, closeLists, err := openLists(sale)
	if err != nil {
		return nil, errors.Join(err, closeNodes())
	}
	logs, closeLogs, err := openLogs(sale, logger)
	if err != nil {
		return nil, errors.Join(err, closeLists(), closeNodes())
	}
	store.Nodes, store.Lists, store.Logs = nodes, kept, logs
	store.Closer = func() error { return errors.Join(closeLogs(), closeLists(), closeNodes()) }
	return store, nil
}

// describe is a store that is not opened yet. The error is for homes that this
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
		store.Remedy = fmt.Sprintf("The ledger is in %s, which is found through ZooKeeper at %s. See that its servers are up, then run it again.",
			home.Place, strings.Join(sale.HBase.Zookeeper, ", "))
	case sale.Engine == spec.EngineRedis:
		store.Patience = serverPatience // for the lists; a disk that is full stays so
	}
	return store, nil
}

func noDriver(home spec.Home) error {
	return fmt.Errorf("this program has no driver for %s (%s)", home.Place, home.Kind)
}

// OpenNodes connects a sale's lock nodes alone, for whoever needs no ledger, with
// what holds of Open. Call close when no node is used any more.
func OpenNodes(sale spec.Sale) (nodes []quorum.Node, close func() error, err error) {
	home, err := sale.Locks()
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	case sale.Homes != nil:
		return nil, nil, noDriver(home)
	case sale.Redis == nil:
		node, err := embedded.OpenNode(sale.Embedded.Dir, embedded.ThisHost())
		if err != nil {
			return nil, nil, err
		}
		return []quorum.Node{node}, node.Close, nil
	}
	servers, close, err := openServers(sale)
	for _, n := range servers {
		nodes = append(nodes, n)
	}
	return nodes, close, err
}

// openLists connects the nodes that keep a sale's lists, if it has any: by
// connections of their own, so that no vote waits behind buyers.
func openLists(sale spec.Sale) (nodes []lists.Node, close func() error, err error) {
	if sale.Engine != spec.EngineRedis {
		return nil, func() error { return nil }, nil
	}
	servers, close, err := openServers(sale)
	for _, n := range servers {
		nodes = append(nodes, n.Lists())
	}
	return nodes, close, err
}

// openServers connects a sale's Redis servers.
func openServers(sale spec.Sale) (servers []*redis.Node, close func() error, err error) {
	servers, err = redis.Nodes(*sale.Redis)
	return servers, func() error {
		var errs []error
		for _, n := range servers {
			errs = append(errs, n.Close())
		}
		return errors.Join(errs...)
	}, err
}

// openLogs connects a sale's ledger alone.
func openLogs(sale spec.Sale, logger *slog.Logger) (logs ledger.Logs, close func() error, err error) {
	if sale.Embedded != nil {
		logs, err := embedded.OpenLogs(sale.Embedded.Dir)
		if err != nil {
			return nil, nil, err
		}
		return logs, logs.Close, nil
	}
	table, err := hbase.Open(hbase.Options{
		Zookeeper: sale.HBase.Zookeeper, ZookeeperRoot: sale.HBase.ZookeeperRoot, Table: sale.HBase.Table, Logger: logger,
	})
	if err != nil {
		return nil, nil, err
	}
	return table, table.Close, nil
}

// Stores opens each place once, however many sales are kept there: they then
// share its connections, or the syncs of a file. Logger is that of Open. The
// zero Stores is ready for use, by one goroutine.
type Stores struct {
	Logger *slog.Logger
	// Opener opens a store that is not open yet; nil: Open.
	Opener func(spec.Sale, *slog.Logger) (*Store, error)

	open map[string]*Store
}

// Open is Open, unless a store of that place is there already.
func (s *Stores) Open(sale spec.Sale) (*Store, error) {
	key, err := storeKey(sale)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", sale.Name, err)
	}
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

// storeKey tells stores apart: by their homes, by how their servers let us in,
// and by whether there are lists.
func storeKey(sale spec.Sale) (string, error) {
	ledger, err := sale.Ledger()
	locks, err2 := sale.Locks()
	return fmt.Sprintf("%s %s %+v %v", ledger.Key(), locks.Key(), sale.Settings(), sale.ListNodes()),
		errors.Join(err, err2)
}

// Close closes all stores. Nothing may use one of them any more.
func (s *Stores) Close() error {
	var errs []error
	for _, store := range s.open {
		errs = append(errs, store.Close())
	}
	s.open = nil
	return errors.Join(errs...)
}
