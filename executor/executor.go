// Package executor serves a sale: it answers claims, with at most one process
// at a time doing so.
//
// Three step machines decide everything: owner (whether this process serves),
// sequencer (what a shard appends and answers) and, beneath them, the lease and
// the append protocol of packages quorum and ledger. Executor and shard are
// their shells: goroutines, timers, calls. Stepped is another that has none of
// these, for simulations. A claim costs no lock node and, when it is refused, no
// store.
//
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016), whose lock on
// a shard is held here by one owner over many claims, and 管理分布式锁的方法和计算机
// 可读存储介质 (2018), which orders requests into a serial queue.
package executor

import (
	"context"
	"log/slog"
	mrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
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
	// DrainTimeout bounds how long a drain waits for requests already accepted.
	DrainTimeout time.Duration
}

// Executor serves one sale. Run does the work; all other methods are safe for
// concurrent use, before, during and after it.
type Executor struct {
	cfg     Config
	metrics *metrics
	door
}

// What an executor does that is not told.
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
	e := &Executor{cfg: cfg}
	e.metrics = newMetrics(e)
	e.cfg.Nodes = e.metrics.observe(cfg.Nodes)
	e.open(cfg.Sale, mintKey)
	return e
}

// Collectors returns the executor's metrics, to be registered once.
func (e *Executor) Collectors() []prometheus.Collector { return []prometheus.Collector{e.metrics} }

// Sale returns the name.
func (e *Executor) Sale() string { return e.cfg.Sale }

// Claim answers one request, when the answer is durable or ctx has ended.
func (e *Executor) Claim(ctx context.Context, r Request) Answer {
	a, ticket, t := e.admit(e.cfg.Clock(), r)
	if ticket == nil {
		return a
	}
	a = ticket.wait(ctx)
	t.price(&a)
	return a
}

// User returns a user's claims.
func (e *Executor) User(user string) ([]Claim, Outcome) {
	e.drainedFor(user)
	return e.claims(e.cfg.Clock(), user)
}

// Ready returns nil while this process can sell on every shard.
func (e *Executor) Ready() error { return e.ready(e.cfg.Clock()) }

// Status is what this process knows of the sale, once it has read all of it.
func (e *Executor) Status() Status { return e.status() }

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
