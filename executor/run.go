package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// runner is the shell of an owner: the event loop of Run and what belongs to it
// alone.
type runner struct {
	e       *Executor
	owner   *owner
	me      []byte // this process, as commits name it
	callers *quorum.Callers
	votes   chan quorum.Reply
	replies chan ledger.Reply // has a place for the one read under way

	standing int // refusals since leases were last held: the first is told of

	// Of the present tenure; nil without one.
	tenure  *tenure
	ended   chan error    // sequencers that have ended; has a place for each
	halted  chan struct{} // closed when all have
	heavy   map[int]bool  // shards that were warned of
	clock   clockWatch
	setBack map[int]time.Duration // by shard: what was told of its log's time
	stalls  stallWatch
}

// Run serves the sale whenever this process owns it, until ctx ends: then it
// answers what it has accepted, gives back its leases and returns nil. An error
// means that the sale cannot be followed, because its log is damaged.
func (e *Executor) Run(ctx context.Context) error {
	r := &runner{e: e, me: make([]byte, 8), replies: make(chan ledger.Reply, 1)}
	if _, err := rand.Read(r.me); err != nil {
		return err
	}
	r.owner = newOwner(ownerConfig{
		sale: e.cfg.Sale, address: e.cfg.Address, nodes: quorum.Names(e.cfg.Nodes), lists: quorum.Names(e.cfg.Lists),
		token: quorum.RandomToken, jitter: mrand.Float64,
	})
	r.votes = make(chan quorum.Reply, len(e.cfg.Nodes))
	r.callers = quorum.NewCallers(e.cfg.Nodes)
	defer r.callers.Close()

	// The store's calls outlive ctx, until the drain is over.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	err := r.loop(ctx, calls, &running)
	if err != nil { // nobody follows the sale any more
		r.e.lose(r.tenure, err)
	}
	return err
}

// voted takes a reply from its node's goroutine. A node has at most one call
// under way: this never blocks.
func (r *runner) voted(v quorum.Reply) { r.votes <- v }

// loop feeds the owner until it is gone.
func (r *runner) loop(ctx, calls context.Context, running *sync.WaitGroup) error {
	timer, look := time.NewTimer(time.Hour), time.NewTicker(lookEvery)
	defer timer.Stop()
	defer look.Stop()
	clock, stopping := r.e.cfg.Clock, ctx.Done()
	var late <-chan time.Time
	for {
		out, err := r.owner.next(clock())
		if err != nil {
			return unserved(r.e.cfg.Sale, err)
		}
		r.perform(calls, out, running)
		r.e.show(r.owner)
		if r.owner.gone(clock()) {
			return nil
		}
		timer.Reset(until(out.wake, clock()))
		select {
		case v := <-r.votes:
			r.owner.voted(clock(), v)
		case reply := <-r.replies:
			r.owner.read(clock(), reply)
			r.warnOfLargeLogs()
		case why := <-r.ended:
			r.owner.ended(clock(), why)
		case <-r.halted:
			r.end()
			r.owner.halted(clock())
		case <-timer.C:
			r.owner.tick(clock())
		case <-look.C:
			r.look()
		case <-stopping:
			stopping, late = nil, time.After(r.e.cfg.DrainTimeout)
			r.e.draining.Store(true)
			r.owner.drain(clock())
		case <-late:
			r.tenure.stop(tooLate)
		}
	}
}

// perform does what the owner wants done.
func (r *runner) perform(calls context.Context, out ownerEffects, running *sync.WaitGroup) {
	if out.read != nil {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(calls, callTimeout)
			defer cancel()
			r.replies <- out.read.Do(ctx, r.e.cfg.Logs)
		})
	}
	for _, event := range out.events {
		r.report(event)
	}
	if out.start {
		r.start(calls, running)
	}
	if t := r.tenure; t != nil {
		t.told(r.owner, out)
	}
	// Rights that are over are told before the leases are given back.
	r.callers.Do(out.calls, r.voted)
	if out.stop != nil {
		why := out.stop.Why
		if lost := (*quorum.Failure)(nil); errors.As(why, &lost) {
			why = lost.Kind // all that is to say of it was just reported
		}
		r.e.cfg.Logger.Info("stopping to serve", "sale", r.e.cfg.Sale, "why", why)
		r.tenure.stop(*out.stop)
	}
}

// start begins to serve: a goroutine for each shard.
func (r *runner) start(calls context.Context, running *sync.WaitGroup) {
	cfg, n := &r.e.cfg, r.owner.sale.Shards()
	var stats []*shardMetrics
	for i := range n {
		stats = append(stats, r.e.metrics.shard(i))
	}
	t := newTenure(cfg.Clock(), r.owner, shard.Config{Me: r.me, Clock: cfg.Clock, Queue: cfg.Queue, Doubts: &r.e.doubts},
		func(shard int) func(time.Duration) { return stats[shard].answered })
	var grabbing, all sync.WaitGroup
	over := make(chan struct{})
	for i, g := range t.grabs {
		node := cfg.Lists[i]
		for range shard.CallsAtOnce {
			grabbing.Go(func() { grabLoop(calls, g, node, cfg.Clock, r.e.metrics.grab.WithLabelValues(node.Name()), over) })
		}
	}
	r.tenure, r.ended, r.halted = t, make(chan error, n), make(chan struct{})
	r.heavy, r.stalls, r.setBack = make(map[int]bool), stallWatch{}, make(map[int]time.Duration)
	ended, halted, turns := r.ended, r.halted, make(chan struct{}, loadAtOnce)
	for i, s := range t.shards {
		l := &shardLoop{
			Shard: s, logs: cfg.Logs, turns: turns, stats: stats[i],
			replies: make(chan ledger.Reply, 1), listed: make(chan lists.Reply, 1),
		}
		if len(t.grabs) > 0 {
			l.kept = cfg.Lists[t.node(i)]
		}
		all.Go(func() { ended <- l.run(calls) })
	}
	running.Go(func() {
		all.Wait()
		close(over)
		grabbing.Wait()
		close(halted)
	})
	if t.packets != nil {
		running.Go(func() { t.packets() }) // ten millions take half a second, which no request is to wait for
	}
	r.e.tenure.Store(t)
	r.e.metrics.terms.WithLabelValues("begun").Inc()
	cfg.Logger.Info("this process owns the sale", "sale", cfg.Sale, "uid", t.uid, "shards", n)
}

// end forgets the tenure after its sequencers have ended.
func (r *runner) end() {
	r.e.tenure.Store(nil)
	r.tenure, r.ended, r.halted = nil, nil, nil
	r.e.metrics.terms.WithLabelValues("ended").Inc()
}

// look tells the log what has changed.
func (r *runner) look() {
	now, log := r.e.cfg.Clock(), r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	r.owner.watch.tell(now, log)
	r.clock.tell(r.owner.clockOff, log)
	if r.tenure != nil {
		r.stalls.tell(now, r.tenure.stalled(), log)
		r.tellSetBack(log)
	}
}

// tellSetBack names the shards whose logs' time was ahead, once each.
func (r *runner) tellSetBack(log *slog.Logger) {
	for _, s := range r.tenure.shards {
		by := s.WasSetBack()
		if by == 0 || r.setBack[s.Number()] == by {
			continue
		}
		r.setBack[s.Number()] = by
		log.Warn("the time of a shard's log was ahead of this host's clock and was set back: a clock was wrong when it was written",
			"shard", s.Number(), "by", by.Round(time.Millisecond),
			"remedy", "see that this host's clock is right; the times of claims of before stay as they were written")
	}
}

// largeLog is the size from which a shard's log is warned of. A log is kept
// whole, in one row, and HBase refuses rows of 1 GiB.
const largeLog = 256 << 20

// warnOfLargeLogs warns once a tenure of each log that has become large.
func (r *runner) warnOfLargeLogs() {
	if r.tenure == nil {
		return
	}
	for _, s := range r.tenure.shards {
		if bytes := s.Bytes(); bytes >= largeLog && !r.heavy[s.Number()] {
			r.heavy[s.Number()] = true
			r.e.cfg.Logger.Warn("a shard's log is large; destroy the sale and begin a new run in good time, with more locks",
				"sale", r.e.cfg.Sale, "shard", s.Number(), "bytes", bytes, "limit", 1<<30)
		}
	}
}

func (r *runner) report(e quorum.Event) {
	log := r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	switch e.Kind {
	case quorum.Losing:
		log.Warn("the leases are lost", "why", e.Cause)
	case quorum.Refused:
		r.standing++
		holder, taken := e.Cause.Holder()
		note, _ := quorum.ParseNote(holder.Note)
		switch {
		case r.standing > 1:
		case taken && note.Address != r.e.cfg.Address:
			log.Info("standing by: another process owns the sale", "owner", note.Address)
		default:
			log.Info("standing by: the lock nodes give no lease", "why", e.Cause)
		}
	case quorum.Won:
		r.standing = 0
		log.Debug("leases are held", "count", len(e.Keys))
	}
}
