// Package backends chooses the drivers of a sale's backends. It is the one
// place that knows them all; whoever comes through here sees only ledger.Logs
// and quorum.Nodes.
package backends

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"salectl/backends/embedded"
	"salectl/backends/hbase"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/spec"
)

// Store is where a sale is kept. All of it may be used by several goroutines.
type Store struct {
	Name  string        // "embedded" or "hbase"
	Logs  ledger.Logs   // the ledger; on HBase it is a ledger.Table too
	Nodes []quorum.Node // who grants the leases, an odd number

	close func() error
}

// Close gives connections and files back. What is under way is stored first.
func (s *Store) Close() error { return s.close() }

// Open connects a sale's backends. It creates nothing, and a server that is
// away is no error before it is asked something. What drivers have to say
// beside their errors goes to logger; nil: nowhere. Close what it returns.
func Open(sale spec.Sale, logger *slog.Logger) (*Store, error) {
	if sale.Embedded != nil {
		return openEmbedded(sale.Embedded.Dir)
	}
	return openServers(*sale.Redis, *sale.HBase, logger)
}

func openEmbedded(dir string) (*Store, error) {
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		return nil, err
	}
	node, err := embedded.OpenNode(dir, time.Now)
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	return &Store{
		Name:  "embedded",
		Logs:  logs,
		Nodes: []quorum.Node{node},
		close: func() error { return errors.Join(logs.Close(), node.Close()) },
	}, nil
}

func openServers(r spec.Redis, h spec.HBase, logger *slog.Logger) (*Store, error) {
	nodes, err := redis.Nodes(r)
	if err != nil {
		return nil, err
	}
	closers := make([]func() error, len(nodes))
	store := &Store{Name: "hbase", close: func() error {
		var errs []error
		for _, close := range closers {
			errs = append(errs, close())
		}
		return errors.Join(errs...)
	}}
	for i, n := range nodes {
		closers[i] = n.Close
		store.Nodes = append(store.Nodes, n)
	}
	logs, err := hbase.Open(hbase.Options{
		Zookeeper: h.Zookeeper, ZookeeperRoot: h.ZookeeperRoot, Table: h.Table, Logger: logger,
	})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	store.Logs, closers = logs, append(closers, logs.Close)
	return store, nil
}

// Stores opens each place once, however many sales are kept there: they then
// share its connections, or the syncs of a file. Logger is that of Open. The
// zero Stores is ready for use, by one goroutine.
type Stores struct {
	Logger *slog.Logger

	open map[string]*Store
}

// Open is Open, unless a store of that place is there already.
func (s *Stores) Open(sale spec.Sale) (*Store, error) {
	place := place(sale)
	if store, ok := s.open[place]; ok {
		return store, nil
	}
	store, err := Open(sale, s.Logger)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[string]*Store{}
	}
	s.open[place] = store
	return store, nil
}

// place tells apart where sales are kept.
func place(sale spec.Sale) string {
	if sale.Embedded != nil {
		return sale.Embedded.Dir
	}
	return fmt.Sprintf("%v %v", *sale.Redis, *sale.HBase)
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
