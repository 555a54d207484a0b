package executor

import (
	"context"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"sync"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
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

	standing int // refusals since a lease was last held: the first is told of
	owned    int // shards that the log was told of

	ended    chan shardEnd                 // shards that have ended
	notified chan struct{}                 // has a place: shards or requests have something for peers
	looked   time.Duration                 // monotonic: when it was last seen to what they have
	dialing  map[string]context.CancelFunc // of the links to peers, by id

	// Of the present session.
	over      chan struct{}  // closed when it ends
	heavy     map[int]bool   // shards that were warned of
	broken    map[int]string // by shard: why its log could not be gone on with
	clockSeen clockWatch
	setBack   map[int]time.Duration // by shard: what was told of its log's time
	stalls    stallWatch
	rules     ruleWatch
	idle      bool // the log was told that no process is to own shards
	peers     peerWatch
	missing   *logged       // the run whose log was gone at the last look
	reported  *logged       // the last one of which that was logged
	untold    bool          // the log was told that what units are cannot be read
	turns     chan struct{} // has a place for each shard that may be loaded at a time
}

// shardEnd is the end of a shard's machine, and why.
type shardEnd struct {
	shard int
	why   error
}

// Run serves the sale whenever this process owns it, until ctx ends: then it
// answers what it has accepted, gives back its leases and returns nil. An error
// means that the sale cannot be followed, because its log is damaged.
func (e *Executor) Run(ctx context.Context) error {
	cfg := MachineConfig{
		Sale: e.cfg.Sale, Address: e.cfg.Address, Version: e.cfg.Version, Standby: e.cfg.Standby, Nodes: quorum.Names(e.cfg.Nodes), Lists: quorum.Names(e.cfg.Lists),
		Queue: e.cfg.Queue, Users: e.cfg.Users, Ruled: e.metrics.ruled, Me: e.me, Token: quorum.RandomToken, Key: mintKey, Jitter: mrand.Float64,
	}
	notified := make(chan struct{}, 1)
	cfg.Notify = func() {
		select {
		case notified <- struct{}{}:
		default:
		}
	}
	r := &runner{
		machine: machine{admission: &e.admission, cfg: cfg, owner: newOwner(cfg), clock: e.cfg.Clock, told: e.metrics.answered},
		e:       e, ends: calls.Ends{Logs: e.cfg.Logs, Nodes: e.cfg.Nodes, Lists: e.cfg.Lists}, replies: make(chan func()),
		ended: make(chan shardEnd), notified: notified, dialing: make(map[string]context.CancelFunc),
	}
	// Calls outlive ctx, until the drain is over.
	var cancel context.CancelFunc
	r.calls, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer r.running.Wait()
	defer cancel()
	defer close(e.ended)
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
		out, err := r.advance(r.clock(), r.call)
		if err != nil {
			if r.session != nil {
				close(r.over)
			}
			return err
		}
		r.follow(out)
		if r.owner.gone(r.clock()) {
			return nil
		}
		now := r.clock()
		r.looked = now.Mono
		wake := r.wakes(now, out.wake)
		for quiet := true; quiet; {
			quiet = false
			timer.Reset(until(wake, r.clock()))
			select {
			case <-r.notified:
				quiet = true
				wake = r.wakes(r.clock(), out.wake)
			case take := <-r.replies:
				take()
			case end := <-r.ended:
				r.machine.ended(r.clock(), end.shard)
				r.tellBroken(end)
				r.e.metrics.sessions.WithLabelValues("ended").Inc()
			case do := <-r.e.inbox:
				do(r)
			case <-timer.C:
				now := r.clock()
				if quiet = !r.due(now, out.wake); quiet { // requests wait for a peer
					r.looked = now.Mono
					wake = r.wakes(now, out.wake)
				} else {
					r.owner.tick(now)
				}
			case <-look.C:
				r.look()
			case <-stopping:
				stopping, late = nil, time.After(r.e.cfg.DrainTimeout)
				r.drain(r.clock())
			case <-late:
				r.session.stop(tooLate)
			}
		}
	}
}

// wakes is when the loop has something to do: for the owner, or, not more often than peers
// are told something, for shards that have something for peers and for requests that wait.
func (r *runner) wakes(now clock.Now, owner time.Duration) time.Duration {
	waiting := r.passTime(now)
	wake := clock.Soonest(owner, waiting)
	if r.session == nil || len(r.dialing) == 0 {
		return wake
	}
	news := r.session.totals.Due(now)
	if waiting != 0 { // for a shard, which may be served any time
		news = now.Mono
	}
	if news != 0 {
		wake = clock.Soonest(wake, max(news, r.looked+updateEvery))
	}
	return wake
}

// due reports whether there is something to do for the owner, or a shard has something for peers.
func (r *runner) due(now clock.Now, owner time.Duration) bool {
	if owner != 0 && now.Mono >= owner {
		return true
	}
	if r.session == nil || len(r.dialing) == 0 {
		return false
	}
	news := r.session.totals.Due(now)
	return news != 0 && now.Mono >= news
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
func (r *runner) follow(out machineEffects) {
	for _, event := range out.events {
		r.report(event)
	}
	for _, x := range out.updates {
		r.e.metrics.moves.WithLabelValues("given").Add(float64(len(x.update.Gives)))
	}
	r.e.metrics.moves.WithLabelValues("taken").Add(float64(len(out.given)))
	if out.ended {
		close(r.over) // a call of a node that is under way goes on: the loop does not wait for it
		r.e.cfg.Logger.Info("this process sells no more", "sale", r.cfg.Sale, "why", r.owner.halt.Why)
	}
	if out.start {
		r.start()
	}
	for _, s := range out.opened {
		r.open(s)
	}
	if out.plans && r.session != nil {
		r.prepare()
	}
	for _, id := range out.hang {
		if hang := r.dialing[id]; hang != nil {
			hang()
			delete(r.dialing, id)
		}
	}
	for _, m := range out.dial {
		r.dial(m)
	}
}

// prepare opens what the rules of the newest generation read, which takes as long as a
// file takes to be read, tells which units there are, and reads ahead what they are.
func (r *runner) prepare() {
	if e := r.session.eligibility.Load(); e != nil {
		r.running.Go(func() { e.prepare(r.clock()) })
	}
	r.e.payloads.follow(r.owner.sale, r.e.cfg.Logs, r.e.cfg.Key)
	choose := r.owner.sale.Newest().GetSettings().GetChoose()
	r.running.Go(func() { r.e.payloads.prepare(r.calls, choose) })
}

// start begins a session: the goroutines for each node that keeps lists.
func (r *runner) start() {
	t, metrics := r.session, r.e.metrics
	r.e.payloads.forget()
	over := make(chan struct{})
	for i, g := range t.grabs {
		took := metrics.grab.WithLabelValues(r.cfg.Lists[i])
		for range shard.CallsAtOnce {
			r.running.Go(func() { grabLoop(r.calls, g, i, r.ends, r.clock, took, over) })
		}
	}
	r.over, r.turns = over, make(chan struct{}, loadAtOnce)
	r.heavy, r.broken, r.stalls, r.setBack, r.owned = make(map[int]bool), make(map[int]string), stallWatch{}, make(map[int]time.Duration), 0
	r.peers = peerWatch{}
	r.e.cfg.Logger.Info("this process takes its share of the sale", "sale", r.cfg.Sale, "uid", t.uid, "shards", len(t.shards))
}

// open runs the machine of a shard.
func (r *runner) open(s *shard.Shard) {
	i, metrics := s.Number(), r.e.metrics
	l := &shardLoop{Shard: s, clock: r.clock, ends: r.ends, turns: r.turns, stats: &metrics.shardMetrics, replies: make(chan func(), 2)}
	given := &r.session.given[i]
	l.serves = func() {
		if at := time.Duration(given.Swap(0)); at != 0 {
			metrics.pause.Observe((r.clock().Mono - at).Seconds())
		}
	}
	metrics.sessions.WithLabelValues("begun").Inc()
	r.running.Go(func() {
		why := l.run(r.calls)
		if lost := (*quorum.Failure)(nil); errors.As(why, &lost) {
			why = lost.Kind // all that is to say of it was just reported
		}
		r.e.cfg.Logger.Debug("a shard's machine has ended", "sale", r.cfg.Sale, "shard", i, "why", why)
		select {
		case r.ended <- shardEnd{i, why}:
		case <-r.calls.Done():
		}
	})
}

// do has the loop do something between two events. false: it has ended.
func (r *runner) do(what func()) bool {
	select {
	case r.replies <- what:
		return true
	case <-r.calls.Done():
		return false
	}
}

// look tells the log what has changed.
func (r *runner) look() {
	now, log := r.clock(), r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	r.owner.watch.tell(now, log)
	r.clockSeen.tell(r.owner.clockOff, log)
	r.logPayloads(log)
	r.reportMissing(log)
	if r.session != nil {
		r.stalls.tell(now, r.session.stalled(), log)
		r.tellSetBack(log)
		r.warnOfLargeLogs(log)
		r.tellShare(log)
		r.tellIdle(log)
		r.rules.tell(now, r.session.eligibility.Load(), log)
		r.peers.tell(now, r.owner, log)
	}
}

// logPayloads logs that payloads cannot be read any more, and that they can again.
func (r *runner) logPayloads(log *slog.Logger) {
	switch err := r.e.payloads.failed.Load(); {
	case err != nil && !r.untold:
		log.Warn("what units are cannot be read: claims are sold, and their buyers have to ask again for it", "error", shard.OneLine(*err))
	case err == nil && r.untold:
		log.Info("what units are can be read again")
	default:
		return
	}
	r.untold = !r.untold
}

// reportMissing logs that the log of a live run is gone: nothing that salectl does deletes it. It is
// gone when it is found so twice, since a read may lag.
func (r *runner) reportMissing(log *slog.Logger) {
	lost, before := r.owner.missing, r.missing
	if r.missing = lost; lost == nil || lost != before || lost == r.reported {
		return
	}
	r.reported = lost
	log.Error("the sale's log is gone, and its run had not ended: the ledger was deleted or replaced",
		"run", lost.run, "uid", lost.uid, "generation", lost.generation, "seen", r.owner.seen,
		"remedy", "put the ledger back, and leave this process running until then; apply would begin a run that sells all units again")
}

// tellSetBack names the shards whose logs' time was ahead, once each.
func (r *runner) tellSetBack(log *slog.Logger) {
	for _, s := range r.session.locals() {
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

// tellBroken names a shard whose log is gone or damaged when it is found so for the second time:
// a sale that is being destroyed has no logs either, until its own log is read again.
func (r *runner) tellBroken(end shardEnd) {
	if !errors.Is(end.why, ledger.ErrGone) && !errors.Is(end.why, ledger.ErrCorrupt) {
		return
	}
	why := shard.OneLine(end.why)
	switch told, before := r.broken[end.shard]; {
	case !before:
		r.broken[end.shard] = "" // not told yet
	case told != why:
		r.broken[end.shard] = why
		r.e.cfg.Logger.Error("a shard's log is gone or damaged: its units are not sold, and its users' claims not looked at",
			"sale", r.e.cfg.Sale, "shard", end.shard, "seen", r.session.totals.Seen(end.shard), "why", why,
			"remedy", "see what 'salectl plan' and 'salectl audit' say; leave this process running, since it knows how far the log went")
	}
}

// tellShare says how many shards this process owns, where that has changed.
func (r *runner) tellShare(log *slog.Logger) {
	locals := r.session.locals()
	for _, s := range locals {
		if s.Serves() {
			delete(r.broken, s.Number())
		}
	}
	n := len(locals)
	if n != r.owned {
		r.owned = n
		log.Info("this process owns shards", "owned", n, "of", len(r.session.shards), "members", len(r.owner.members))
	}
}

// tellIdle says when no process is to own shards, and when one is again.
func (r *runner) tellIdle(log *slog.Logger) {
	switch idle := r.health.Load().idle; {
	case idle != "" && !r.idle:
		log.Warn("no process is to own shards: nothing is sold of those that nobody owns", "why", idle, "remedy", undrain)
	case idle == "" && r.idle:
		log.Info("all shards are owned, or to be owned, again")
	default:
		return
	}
	r.idle = !r.idle
}

// largeLog is the size from which a shard's log is warned of. A log is kept
// whole, in one row, and HBase refuses rows of 1 GiB.
const largeLog = 256 << 20

// warnOfLargeLogs warns once a session of each log that has become large.
func (r *runner) warnOfLargeLogs(log *slog.Logger) {
	for _, s := range r.session.locals() {
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
			log.Info("another process has a lease that this one tries for", "owner", note.Address)
		default:
			log.Info("the lock nodes give no lease", "why", e.Cause)
		}
	case quorum.Won:
		r.standing = 0
		log.Debug("leases are held", "count", len(e.Keys))
	}
}
