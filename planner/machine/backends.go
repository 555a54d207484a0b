package machine

import (
	"io"
	"log/slog"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// Backends are the servers of a sale, and what a Machine that works on them needs beside.
type Backends struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	// Lists are the list nodes of a sale of engine redis, in the order of the sale file; empty
	// for engine ledger.
	Lists []lists.Node
	Clock clock.Clock
	// Rand is the source of the uid of a new sale and of the seed of its red packets. It must
	// be unpredictable.
	Rand io.Reader
	// Logger receives failures that are retried. Nil discards them.
	Logger *slog.Logger
	// Patience is how long all calls to one log, or to a majority of the nodes, may fail
	// before a Machine returns an error; 0 means 10 s.
	Patience time.Duration
	// ReadTimeout bounds the read of a sale's own log and the heads of its shards, which then
	// fails with ErrStore; 0 means 30 s. The lock nodes are read after them and have their own
	// timeouts.
	ReadTimeout time.Duration
}

// Names are the names of Backends, and the parameters that every Machine has.
type Names struct {
	Nodes    []string // names of the lock nodes, by Call.Node
	Lists    []string // names of the list nodes, by Call.Node; as Backends.Lists
	Table    string   // table of the logs; "": they need none
	Rand     io.Reader
	Patience time.Duration // as Backends.Patience
}

// Names returns the names of the backends.
func (b Backends) Names() Names {
	n := Names{Nodes: quorum.Names(b.Nodes), Lists: quorum.Names(b.Lists), Rand: b.Rand, Patience: b.Patience}
	if t, ok := b.Logs.(ledger.Table); ok {
		n.Table = t.Table()
	}
	return n
}

func (b Backends) logger() *slog.Logger {
	if b.Logger != nil {
		return b.Logger
	}
	return slog.New(slog.DiscardHandler)
}
