package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"time"

	"salectl/backends/calls"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// runner runs a machine for an Executor: it has the event loop of Run and what belongs to
// that alone.
type runner struct {
	machine
	e       *Executor
	ends    calls.Ends
	calls   context.Context // of all calls
	running sync.WaitGroup
	replies chan func()

	standing int // refusals since leases were last held: the first is told of

	// Of the present tenure.
	ended     chan error    // shards that have ended; has a place for each
	allEnded  chan struct{} // closed when all have
	heavy     map[int]bool  // shards that were warned of
	clockSeen clockWatch
	setBack   map[int]time.Duration // by shard: what was told of its log's time
	stalls    stallWatch
	rules     ruleWatch
}

// Run serves the sale whenever this process owns it, until ctx ends: then it
// answers what it has accepted, gives back its leases and returns nil. An error
// means that the sale cannot be followed, because its log is damaged.
func (e *Executor) Run(ctx context.Context) error {
	cfg := MachineConfig{
		Sale: e.cfg.Sale, Address: e.cfg.Address, Nodes: quorum.Names(e.cfg.Nodes), Lists: quorum.Names(e.cfg.Lists),
		Queue: e.cfg.Queue, Users: e.cfg.Users, Ruled: e.metrics.ruled, Me: make([]byte, 8), Token: quorum.RandomToken, Key: mintKey, Jitter: mrand.Float64,
	}
	if _, err := rand.Read(cfg.Me); err != nil {
		return err
	}
	r := &runner{
		machine: machine{admission: &e.admission, cfg: cfg, owner: newOwner(cfg), clock: e.cfg.Clock, told: func(shard int) func(time.Duration) {
			return e.metrics.shard(shard).answered
		}},
		e: e, ends: calls.Ends{Logs: e.cfg.Logs, Nodes: e.cfg.Nodes, Lists: e.cfg.Lists}, replies: make(chan func()),
	}
	// Calls outlive ctx, until the drain is over.
	var cancel context.CancelFunc
	r.calls, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer r.running.Wait()
	defer cancel()
	return r.loop(ctx)
}

// loop feeds the owner until it is gone.
func (r *runner) loop(ctx context.Context) error {
	timer, look := time.NewTimer(time.Hour), time.NewTicker(lookEvery)
	defer timer.Stop()
	defer look.Stop()
	stopping := ctx.Done()
	var late <-chan time.Time
	for {
		out, err := r.lead(r.clock(), r.call)
		if err != nil {
			return err
		}
		r.follow(out)
		if r.owner.gone(r.clock()) {
			return nil
		}
		timer.Reset(until(out.wake, r.clock()))
		select {
		case take := <-r.replies:
			take()
		case why := <-r.ended:
			r.owner.ended(r.clock(), why)
		case <-r.allEnded:
			r.ended, r.allEnded = nil, nil
			r.halted(r.clock())
			r.e.metrics.terms.WithLabelValues("ended").Inc()
		case <-timer.C:
			r.owner.tick(r.clock())
		case <-look.C:
			r.look()
		case <-stopping:
			stopping, late = nil, time.After(r.e.cfg.DrainTimeout)
			r.drain(r.clock())
		case <-late:
			r.term.stop(tooLate)
		}
	}
}

// call makes one of the owner's calls.
func (r *runner) call(c calls.Call) {
	r.running.Go(func() {
		reply := c.Do(r.calls, r.ends)
		select {
		case r.replies <- func() { c.Took(r.clock(), reply, nil) }:
		case <-r.calls.Done():
		}
	})
}

// follow tells the log what the owner has done, and runs what it has begun.
func (r *runner) follow(out ownerEffects) {
	for _, event := range out.events {
		r.report(event)
	}
	if out.start {
		r.start()
	}
	if out.plans && r.term != nil {
		r.prepare()
	}
	if out.stop != nil {
		why := out.stop.Why
		if lost := (*quorum.Failure)(nil); errors.As(why, &lost) {
			why = lost.Kind // all that is to say of it was just reported
		}
		r.e.cfg.Logger.Info("stopping to serve", "sale", r.cfg.Sale, "why", why)
	}
}

// prepare opens what the rules of the newest generation read, which takes as long as a
// file takes to be read.
func (r *runner) prepare() {
	if e := r.term.eligibility.Load(); e != nil {
		r.running.Go(func() { e.prepare(r.clock()) })
	}
}

// start begins to serve: a goroutine for each shard.
func (r *runner) start() {
	t, metrics := r.term, r.e.metrics
	var grabbing, all sync.WaitGroup
	over := make(chan struct{})
	for i, g := range t.grabs {
		took := metrics.grab.WithLabelValues(r.cfg.Lists[i])
		for range shard.CallsAtOnce {
			grabbing.Go(func() { grabLoop(r.calls, g, i, r.ends, r.clock, took, over) })
		}
	}
	ended, allEnded, turns := make(chan error, len(t.shards)), make(chan struct{}), make(chan struct{}, loadAtOnce)
	for i, s := range t.shards {
		l := &shardLoop{Shard: s, clock: r.clock, ends: r.ends, turns: turns, stats: metrics.shard(i), replies: make(chan func(), 2)}
		all.Go(func() { ended <- l.run(r.calls) })
	}
	r.running.Go(func() {
		all.Wait()
		close(over)
		grabbing.Wait()
		close(allEnded)
	})
	if t.packets != nil {
		r.running.Go(func() { t.packets() }) // ten millions take half a second, which no request is to wait for
	}
	r.ended, r.allEnded = ended, allEnded
	r.heavy, r.stalls, r.setBack = make(map[int]bool), stallWatch{}, make(map[int]time.Duration)
	metrics.terms.WithLabelValues("begun").Inc()
	r.e.cfg.Logger.Info("this process owns the sale", "sale", r.cfg.Sale, "uid", t.uid, "shards", len(t.shards))
}

// look tells the log what has changed.
func (r *runner) look() {
	now, log := r.clock(), r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	r.owner.watch.tell(now, log)
	r.clockSeen.tell(r.owner.clockOff, log)
	if r.term != nil {
		r.stalls.tell(now, r.term.stalled(), log)
		r.tellSetBack(log)
		r.warnOfLargeLogs(log)
		r.rules.tell(now, r.term.eligibility.Load(), log)
	}
}

// tellSetBack names the shards whose logs' time was ahead, once each.
func (r *runner) tellSetBack(log *slog.Logger) {
	for _, s := range r.term.shards {
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
func (r *runner) warnOfLargeLogs(log *slog.Logger) {
	for _, s := range r.term.shards {
		if bytes := s.Bytes(); bytes >= largeLog && !r.heavy[s.Number()] {
			r.heavy[s.Number()] = true
			log.Warn("a shard's log is large; destroy the sale and begin a new run in good time, with more locks",
				"shard", s.Number(), "bytes", bytes, "limit", 1<<30)
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
