// Package executor serves a sale: it answers claims, with at most one process
// at a time doing so.
//
// # The life of a claim
//
//  1. Executor.Claim hands the request to the door (door.go). A request that cannot be
//     answered by any sale, or that comes while this process does not serve, is refused
//     there. What the ledger already decides is answered from memory, without a store:
//     who has units under this key, who has all that a user may have, that all is sold.
//  2. Any other request becomes a ticket (ticket.go). It enters its shard's table of
//     requests under way (underway.go), so that a repetition of the same key hears
//     nothing that denies it, and is queued: with engine ledger in the shard's own queue
//     (shard.go), with engine redis in that of the node which has the shard's list
//     (grabs.go).
//  3. Engine ledger: when the shard's last commit is known, its sequencer takes all that
//     has queued and decides it in order against the ledger's state (sequencer.go,
//     requests.go, ownerDecides in engine.go). Whoever gets nothing is answered; whoever
//     is short of units waits while other shards are asked for some (transfer.go); all
//     others go into one commit, which is appended to the shard's log.
//     Engine redis: the node is asked for a whole batch at a time, and its list gives
//     each user a unit. The sequencer drains what was given into the log (listGives in
//     enginelists.go). With ack redis the answer is there when the node has said so, with
//     ack ledger when the log has it.
//  4. When an append is known to be in the log, its tickets get their answers; when it
//     stays unknown, they are in doubt (doubts.go) until the log has been read behind it.
//  5. shard.conclude looks once more at each answer that denies a claim, takes the tickets
//     from those under way and tells whoever waits.
//
// # Who decides, and who runs
//
// Three step machines decide everything: owner (whether this process serves), sequencer
// (what a shard appends and answers) and, beneath them, the lease and the append protocol
// of packages quorum and ledger. What differs between the engines is behind two seams:
// engine within a sequencer, front at the shard's queue.
//
// Goroutines are in three places: runner.loop (run.go) runs the owner and starts all
// others, shard.run (shard.go) one sequencer, nodeBatcher.run (grabshell.go) the calls of
// one node that keeps lists. Each call of the store has a goroutine of its own, as long as
// it lasts. A shard hears of everything by events, which are values (event.go). Stepped is
// a second shell, without goroutines and clocks, for simulations.
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
