// Package executor serves a sale: it answers claims, together with the other processes of the sale. Each
// owns a share of the shards, and passes on to the owners the requests for the other shards.
//
// The step machine of package process decides everything: which requests are admitted, which shards this
// process serves, and what they append and answer. This package has its goroutines, clock, logs and
// metrics, and adds the payloads of units to answers (payloads.go).
//
// # The life of a claim
//
// Executor.Do passes a request to process.Admission (request.go), which answers it or queues it on its
// user's shard. runShard makes the calls of the shard, whose package describes the commit. Where the
// shard is a peer's, the request goes there by a Link, and comes in by Inbound.Serve (link.go).
//
// # Goroutines
//
// runner.loop (run.go) runs the machine and starts the other goroutines: of a session, one for each shard
// that this process has and two for each node that keeps lists (loops.go); one for each peer (link.go);
// and one for each call, as long as it lasts. A request that has to wait for a store before it is
// admitted, and has no goroutine of its own, gets one (request.go, link.go).
package executor

import (
	"crypto/rand"
	"log/slog"
	mrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/metrics"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/process"
	"salectl/units"
)

// Config is what an executor is made of. Logs, Nodes and Sale are required.
type Config struct {
	Logs    ledger.Logs
	Nodes   []quorum.Node
	Lists   []lists.Node // by node of the sale's file, for engine redis; none for engine ledger
	Sale    string       // the name
	Address string       // where this process answers claims, for others to read; without spaces
	Admin   string       // where it answers operators, likewise; "": nowhere
	Clock   clock.Clock
	Logger  *slog.Logger
	// Queue bounds the requests that wait on one shard. What comes beyond is
	// refused as overloaded.
	Queue int
	// Users opens the attributes of users that the rules of the sale read; nil: the rules
	// read none.
	Users OpenUsers
	// DrainTimeout bounds how long a drain waits for requests already accepted.
	DrainTimeout time.Duration
	// Key opens what the units of the sale are; nil where they are numbers, or public.
	Key *units.Key
	// Dial makes links to the other processes of the sale; nil: none can be reached.
	Dial peers.Dial
	// Version is that of this program: processes of the newest version own shards first.
	Version string
	// Standby has this process own no shard.
	Standby bool
}

// Executor serves one sale. Run does the work; all other methods are safe for
// concurrent use, before, during and after it.
type Executor struct {
	cfg                Config
	metrics            *metrics.Metrics
	inbox              chan func(*runner) // called between two events
	ended              chan struct{}      // closed when Run has
	notified           chan struct{}      // has a place: shards or requests have something for peers
	machine            *process.Machine
	*process.Admission // the machine's
	payloads           payloads
}

// New returns an executor; Run makes it serve.
func New(cfg Config) *Executor {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = process.DrainTimeout
	}
	e := &Executor{cfg: cfg, inbox: make(chan func(*runner)), ended: make(chan struct{}), notified: make(chan struct{}, 1)}
	me := make([]byte, 8)
	rand.Read(me)
	e.machine = process.New(process.Config{
		Config: ownership.Config{
			Sale: cfg.Sale, Address: cfg.Address, Admin: cfg.Admin, Version: cfg.Version, Standby: cfg.Standby,
			Nodes: quorum.Names(cfg.Nodes), Lists: quorum.Names(cfg.Lists), Token: quorum.RandomToken, Jitter: mrand.Float64,
		},
		Queue: cfg.Queue, Me: me, Clock: cfg.Clock, Key: randomKey, Users: cfg.Users,
		Notify: func() {
			select {
			case e.notified <- struct{}{}:
			default:
			}
		},
		Ruled:     func(rule, result string) { e.metrics.Rules.WithLabelValues(rule, result).Inc() },
		Committed: func(oldest time.Duration) { e.metrics.Queue.Observe(oldest.Seconds()) },
		Answered:  (*process.Pending).Deliver,
		Repeat:    func(p *process.Pending) { go p.DoAgain() }, // the rules may have to read from a store
	})
	e.Admission = &e.machine.Admission
	e.metrics = metrics.New(e.machine, cfg.Sale, cfg.Clock)
	e.cfg.Nodes = e.metrics.Observe(cfg.Nodes)
	return e
}

// Collectors returns the executor's metrics, to be registered once.
func (e *Executor) Collectors() []prometheus.Collector { return []prometheus.Collector{e.metrics} }

// Logs are where the ledger is kept, for those who read it.
func (e *Executor) Logs() ledger.Logs { return e.cfg.Logs }

// Sale returns the name.
func (e *Executor) Sale() string { return e.cfg.Sale }

// ClockOff is by how much this host's clock is off the median of the lock nodes', where that is
// too much to decide by; else 0.
func (e *Executor) ClockOff() time.Duration { return e.machine.Health().ClockOff }

// randomKey returns a key for a request that has none: 96 random bits as
// text. Without one, a request decided twice would count as two requests.
func randomKey() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	var key [16]byte
	a, b := mrand.Uint64(), mrand.Uint64()
	for i := range 8 {
		key[i], key[8+i] = digits[a&63], digits[b&63]
		a, b = a>>6, b>>6
	}
	return string(key[:])
}
