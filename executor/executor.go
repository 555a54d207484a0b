// Package executor serves a sale: it answers claims, together with the other processes of
// the sale. Each owns a share of the shards, and passes on to the owners what it is asked
// of the others.
//
// # The life of a claim
//
// Executor.Do hands a request to admission (admission.go). A request that cannot be answered
// by any sale, or that comes while this process does not serve, is refused there. What
// the ledger already decides is answered from memory, without a store: who has units
// under this key, who has all that a user may have, that all is sold. Any other goes to
// its user's shard, whose package tells how it goes on; where that is a peer's, the request
// goes there by a Link, and comes in by admission.servePeer.
//
// # Who decides, and who runs
//
// Step machines decide everything: package ownership (which shards this process serves), package shard
// (what a shard appends and answers) and, beneath them, the lease and the append protocol
// of packages quorum and ledger.
//
// runner.loop (run.go) runs the owner and starts the other goroutines: of a session, one for each
// shard that this process has and two for each node that keeps lists (loops.go); one for each peer
// (link.go); and one for each call, as long as it lasts. A request that has to wait for a store
// before it is admitted, and has no goroutine of its own, gets one (request.go, link.go).
// Stepped is a second shell, without goroutines and clocks, for simulations; what both
// run is machine (machine.go).
package executor

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/units"
)

// Config is what an executor is made of. Logs, Nodes and Sale are required.
type Config struct {
	Logs    ledger.Logs
	Nodes   []quorum.Node
	Lists   []lists.Node // by node of the sale's file, for engine redis; none for engine ledger
	Sale    string       // the name
	Address string       // where this process answers claims, for others to read; without spaces
	Clock   clock.Clock
	Logger  *slog.Logger
	// Queue bounds the requests that wait on one shard. What comes beyond is
	// refused as overloaded.
	Queue int
	// Users opens what the rules of the sale are told of users; nil: the sale's rules read
	// nothing of them.
	Users OpenUsers
	// DrainTimeout bounds how long a drain waits for requests already accepted.
	DrainTimeout time.Duration
	// Key opens what the units of the sale are; nil where they are numbers, or public.
	Key *units.Key
	// Dial makes links to the other processes of the sale; nil: none can be reached.
	Dial Dial
	// Version is that of this program: processes of the newest version own shards first.
	Version string
	// Standby has this process own no shard.
	Standby bool
}

// Executor serves one sale. Run does the work; all other methods are safe for
// concurrent use, before, during and after it.
type Executor struct {
	cfg     Config
	me      []byte // this start of the process, as commits name it
	metrics *metrics
	inbox   chan func(*runner) // what is to be done between two events
	ended   chan struct{}      // closed when Run has
	admission
	payloads payloads
}

// The defaults of a Config.
const (
	defaultQueue = 10_000
	defaultDrain = 5 * time.Second
)

// New returns an executor; Run makes it serve.
func New(cfg Config) *Executor {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = defaultDrain
	}
	e := &Executor{cfg: cfg, me: make([]byte, 8), inbox: make(chan func(*runner)), ended: make(chan struct{})}
	e.metrics = newMetrics(&e.admission, cfg.Sale, cfg.Clock)
	e.cfg.Nodes = e.metrics.observe(cfg.Nodes)
	rand.Read(e.me)
	e.open(cfg.Sale, idOf(e.me), mintKey)
	return e
}

// Me names the process to its peers.
func (e *Executor) Me() Peer {
	return Peer{ID: idOf(e.me), Address: e.cfg.Address, Version: e.cfg.Version}
}

// idOf is how processes call one that commits name so.
func idOf(me []byte) string { return fmt.Sprintf("%x", me) }

// Collectors returns the executor's metrics, to be registered once.
func (e *Executor) Collectors() []prometheus.Collector { return []prometheus.Collector{e.metrics} }

// Logs are where the ledger is kept, for those who read it.
func (e *Executor) Logs() ledger.Logs { return e.cfg.Logs }

// Sale returns the name.
func (e *Executor) Sale() string { return e.cfg.Sale }

// Ready returns nil while this process can sell on every shard.
func (e *Executor) Ready() error { return e.ready(e.cfg.Clock()) }

// ClockOff is by how much this host's clock is off the median of the lock nodes', where that is
// too much to decide by; else 0.
func (e *Executor) ClockOff() time.Duration { return e.health.Load().ClockOff }

// Status is what this process knows of the sale, once it has read all of it.
func (e *Executor) Status() Status { return e.status(e.cfg.Clock()) }

// mintKey returns an identity for a request that brings none: 96 random bits as
// text. Without one, a commit decided twice could not be told from two requests.
func mintKey() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	var key [16]byte
	a, b := mrand.Uint64(), mrand.Uint64()
	for i := range 8 {
		key[i], key[8+i] = digits[a&63], digits[b&63]
		a, b = a>>6, b>>6
	}
	return string(key[:])
}
