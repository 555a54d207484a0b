// Package backends chooses the drivers of a sale's backends. It is the one
// place that knows them all; whoever comes through here sees only ledger.Logs
// and quorum.Nodes.
package backends

import (
	"errors"
	"fmt"
	"time"

	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// ErrUnsupported says that this version has no driver for what a sale declares.
var ErrUnsupported = errors.New("sales on Redis and HBase are not served by this version")

// Store is where a sale is kept. All of it may be used by several goroutines.
type Store struct {
	Name  string        // "embedded" or "hbase"
	Logs  ledger.Logs   // the ledger
	Nodes []quorum.Node // who grants the leases, an odd number

	close func() error
}

// Close gives connections and files back. What is under way is stored first.
func (s *Store) Close() error { return s.close() }

// Open connects a sale's backends. It creates nothing, and a server that is
// away is no error before it is asked something. Close what it returns.
func Open(sale spec.Sale) (*Store, error) {
	if sale.Embedded == nil {
		return nil, fmt.Errorf("%w: declare spec.embedded instead", ErrUnsupported)
	}
	return openEmbedded(sale.Embedded.Dir)
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

// Stores opens each place once, however many sales are kept there: sales that
// share a file then share its syncs too. The zero Stores is ready for use, by
// one goroutine.
type Stores struct{ open map[string]*Store }

// Open is Open, unless a store of that place is there already.
func (s *Stores) Open(sale spec.Sale) (*Store, error) {
	place := ""
	if sale.Embedded != nil {
		place = sale.Embedded.Dir
	}
	if store, ok := s.open[place]; ok {
		return store, nil
	}
	store, err := Open(sale)
	if err != nil {
		return nil, err
	}
	if s.open == nil {
		s.open = map[string]*Store{}
	}
	s.open[place] = store
	return store, nil
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
