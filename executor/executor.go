// Package executor serves a sale: it answers claims, with at most one process
// at a time doing so.
//
// Three step machines decide everything: owner (whether this process serves),
// sequencer (what a shard appends and answers) and, beneath them, the lease and
// the append protocol of packages quorum and ledger. Executor and shard are
// their shells: goroutines, timers, calls. A claim costs no lock node and, when
// it is refused, no store.
//
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016), whose lock on
// a shard is held here by one owner over many claims, and 管理分布式锁的方法和计算机
// 可读存储介质 (2018), which orders requests into a serial queue.
package executor

import (
	"context"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Config is what an executor is made of. Logs, Nodes and Sale are required.
type Config struct {
	Logs    ledger.Logs
	Nodes   []quorum.Node
	Sale    string // the name
	Address string // where this process answers claims, for others to read; without spaces
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
	tickets sync.Pool

	tenure   atomic.Pointer[tenure] // nil: this process does not serve
	health   atomic.Pointer[health]
	away     atomic.Pointer[Answer] // what is said while it does not
	draining atomic.Bool
}

// tenure is one time of serving: the shards, from Own to the last answer.
type tenure struct {
	uid    string
	shards []*shard
	board  *board
	rights atomic.Pointer[rights]
}

// New returns an executor; Run makes it serve.
func New(cfg Config) *Executor {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Queue == 0 {
		cfg.Queue = 10_000
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 5 * time.Second
	}
	e := &Executor{cfg: cfg}
	e.metrics = newMetrics(e)
	e.cfg.Nodes = e.metrics.observe(cfg.Nodes)
	e.away.Store(&Answer{Outcome: Standby, RetryAfter: time.Second, Message: "starting"})
	e.health.Store(&health{})
	return e
}

// Collectors returns the executor's metrics, to be registered once.
func (e *Executor) Collectors() []prometheus.Collector { return []prometheus.Collector{e.metrics} }

// Sale returns the name.
func (e *Executor) Sale() string { return e.cfg.Sale }

// Claim answers one request, when the answer is durable or ctx has ended.
func (e *Executor) Claim(ctx context.Context, r Request) Answer {
	if a, bad := check(r); bad {
		return a
	}
	t := e.tenure.Load()
	if t == nil {
		return *e.away.Load()
	}
	now := e.cfg.Clock()
	s := t.shards[spec.HomeShard(r.User, len(t.shards))]
	if a, ok := t.recall(now, s, r); ok {
		return a
	}
	switch {
	case e.draining.Load():
		return Answer{Outcome: Draining, RetryAfter: time.Second}
	case s.stall.Load() != nil:
		return Answer{Outcome: NoQuorum, RetryAfter: time.Second, Message: "the ledger does not answer"}
	}
	if r.Key == "" {
		r.Key = mintKey()
	}
	ticket := newTicket(&e.tickets, r, now.Mono)
	if refused := s.offer(ticket); refused != "" {
		ticket.free()
		return Answer{Outcome: refused, RetryAfter: time.Second}
	}
	return ticket.wait(ctx)
}

// recall answers from memory what needs no commit. What was accepted is certain
// however little of the log is read. All else is only known while this process
// may append, and to a shard that has read its log to the end: the others may
// have been told by generations that are not read yet to say otherwise.
func (t *tenure) recall(now clock.Now, s *shard, r Request) (Answer, bool) {
	a, ok := s.recall(now, r)
	rights := t.rights.Load()
	switch {
	case ok && (a.Accepted() || a.Outcome == KeyReused):
		return a, true
	case rights == nil || !rights.valid(now):
		return Answer{Outcome: NoQuorum, RetryAfter: time.Second}, true
	case !s.serving.Load():
		return Answer{}, false
	case !ok && t.board.soldOut.Load():
		return Answer{Outcome: SoldOut}, true
	}
	return a, ok
}

// check refuses what no sale can answer.
func check(r Request) (Answer, bool) {
	bad := func(format string, args ...any) (Answer, bool) {
		return Answer{Outcome: BadRequest, Message: fmt.Sprintf(format, args...)}, true
	}
	switch {
	case len(r.User) == 0 || len(r.User) > MaxUser:
		return bad("a user is named by 1 to %d bytes", MaxUser)
	case !utf8.ValidString(r.User):
		return bad("a user is named by UTF-8 text")
	case len(r.Key) > MaxKey:
		return bad("a key has at most %d bytes", MaxKey)
	case r.Quantity < 1 || r.Quantity > MaxQuantity:
		return bad("a quantity is 1 to %d", MaxQuantity)
	}
	return Answer{}, false
}

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

// User returns a user's claims.
func (e *Executor) User(user string) ([]Claim, Outcome) {
	t := e.tenure.Load()
	if t == nil {
		return nil, e.away.Load().Outcome
	}
	if rights := t.rights.Load(); rights == nil || !rights.valid(e.cfg.Clock()) {
		return nil, NoQuorum
	}
	s := t.shards[spec.HomeShard(user, len(t.shards))]
	if !s.serving.Load() {
		return nil, Standby // it may not have read all of its log yet
	}
	return s.user(user), ""
}

// Ready returns nil while this process can sell on every shard.
func (e *Executor) Ready() error {
	t := e.tenure.Load()
	switch {
	case e.draining.Load():
		return errDraining
	case t == nil:
		return e.absent()
	}
	now := e.cfg.Clock()
	if rights := t.rights.Load(); rights == nil || !rights.valid(now) {
		return fmt.Errorf("%s: %s", NoQuorum, e.health.Load().withoutRights(rights != nil && rights.lease.At(now)))
	}
	stalled := t.stalled()
	if len(stalled) > 0 {
		first := oldest(stalled)
		return fmt.Errorf("stalled: shards %s of %d since %s: %s",
			names(stalled), len(t.shards), first.Since.UTC().Format(time.RFC3339), first.Error)
	}
	for _, s := range t.shards {
		if !s.serving.Load() {
			return fmt.Errorf("shard %d is being taken over", s.seq.shard)
		}
	}
	return nil
}

// absent says why this process does not serve: more than buyers are told.
func (e *Executor) absent() error {
	away, h := e.away.Load(), e.health.Load()
	switch {
	case away.Outcome == NoQuorum:
		return fmt.Errorf("%s: %s%s", away.Outcome, away.Message, h.troubles())
	case h.unread != nil:
		return fmt.Errorf("%s: %s; the sale's log cannot be read: %s", away.Outcome, away.Message, oneLine(h.unread))
	}
	return fmt.Errorf("%s: %s", away.Outcome, away.Message)
}

// stalled returns the shards that stall.
func (t *tenure) stalled() map[int]Stall {
	all := make(map[int]Stall)
	for i, s := range t.shards {
		if stall := s.stall.Load(); stall != nil {
			all[i] = *stall
		}
	}
	return all
}

// Status is what this process knows of the sale, once it has read all of it.
func (e *Executor) Status() Status {
	t := e.tenure.Load()
	if t == nil {
		return Status{Sale: e.cfg.Sale, Away: e.away.Load().Outcome}
	}
	v := Status{Sale: e.cfg.Sale, UID: t.uid, Nodes: e.health.Load().nodes}
	for _, s := range t.shards {
		if !s.serving.Load() {
			return Status{Sale: e.cfg.Sale, Away: Standby}
		}
		v.Shards = append(v.Shards, s.status())
	}
	first := t.shards[0]
	first.state.RLock()
	defer first.state.RUnlock()
	state := first.seq.state
	v.Generation, v.Phase, v.PerUser = state.Generation, state.Phase, state.Settings().GetPerUserLimit()
	v.OpensAt, v.ClosesAt = timeOf(state.Settings().GetOpensAtUs()), timeOf(state.Settings().GetClosesAtUs())
	return v
}

// timeOf reads a stored time, of which 0 is none.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
