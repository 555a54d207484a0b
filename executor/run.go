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
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
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
	process  status.Reporter               // of the problems that it has whether or not it serves
	missing  *ownership.Logged             // the run whose log was gone when the problems were compiled last

	// Of the present session.
	over      chan struct{}     // closed when it ends
	broken    map[int]brokenLog // by shard
	ofSession status.Reporter   // of the session's problems
	turns     chan struct{}     // has a place for each shard that may be loaded at a time
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
		machine: machine{admission: &e.admission, cfg: cfg, owner: cfg.owner(), clock: e.cfg.Clock, told: e.metrics.answered},
		e:       e, ends: calls.Ends{Logs: e.cfg.Logs, Nodes: e.cfg.Nodes, Lists: e.cfg.Lists}, replies: make(chan func()),
		ended: make(chan shardEnd), notified: notified, dialing: make(map[string]context.CancelFunc),
	}
	// Calls outlive ctx, until the drain is over.
	var cancel context.CancelFunc
	r.calls, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer r.running.Wait()
	defer cancel()
	defer close(e.ended)
	defer e.problems.Store(nil)
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
		if r.owner.Gone(r.clock()) {
			return nil
		}
		now := r.clock()
		r.looked = now.Mono
		wake := r.wakes(now, out.Wake)
		for quiet := true; quiet; {
			quiet = false
			timer.Reset(until(wake, r.clock()))
			select {
			case <-r.notified:
				quiet = true
				wake = r.wakes(r.clock(), out.Wake)
			case take := <-r.replies:
				take()
			case end := <-r.ended:
				r.machine.ended(r.clock(), end.shard)
				r.foundBroken(end)
				r.e.metrics.sessions.WithLabelValues("ended").Inc()
			case do := <-r.e.inbox:
				do(r)
			case <-timer.C:
				now := r.clock()
				if quiet = !r.due(now, out.Wake); quiet { // requests wait for a peer
					r.looked = now.Mono
					wake = r.wakes(now, out.Wake)
				} else {
					r.owner.Tick(now)
				}
			case <-look.C:
				r.look()
			case <-stopping:
				stopping, late = nil, time.After(r.e.cfg.DrainTimeout)
				r.drain(r.clock())
			case <-late:
				r.session.stop(ownership.TooLate)
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
		wake = clock.Soonest(wake, max(news, r.looked+ownership.UpdateEvery))
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
	for _, event := range out.Events {
		r.report(event)
	}
	for _, x := range out.Updates {
		r.e.metrics.moves.WithLabelValues("given").Add(float64(len(x.Update.Granted)))
	}
	r.e.metrics.moves.WithLabelValues("taken").Add(float64(len(out.Granted)))
	if out.Ended != nil {
		close(r.over) // a call of a node that is under way goes on: the loop does not wait for it
		r.e.cfg.Logger.Info("this process sells no more", "sale", r.cfg.Sale, "why", out.Ended.Why)
	}
	if out.Start != nil {
		r.start()
	}
	for _, s := range out.opened {
		r.open(s)
	}
	if out.Plans && r.session != nil {
		r.prepare()
	}
	for _, id := range out.Hang {
		if hang := r.dialing[id]; hang != nil {
			hang()
			delete(r.dialing, id)
		}
	}
	for _, m := range out.Dial {
		r.dial(m)
	}
}

// prepare opens what the rules of the newest generation read, which takes as long as a
// file takes to be read, tells which units there are, and reads ahead what they are.
func (r *runner) prepare() {
	if e := r.session.eligibility.Load(); e != nil {
		r.running.Go(func() { e.prepare(r.clock()) })
	}
	r.e.payloads.follow(r.owner.Sale(), r.e.cfg.Logs, r.e.cfg.Key)
	choose := r.owner.Sale().Newest().GetSettings().GetChoose()
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
	r.broken, r.ofSession, r.owned = make(map[int]brokenLog), status.Reporter{}, 0
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

// logShare logs how many shards this process owns, where that has changed.
func (r *runner) logShare(log *slog.Logger) {
	if n := len(r.session.locals()); n != r.owned {
		r.owned = n
		log.Info("this process owns shards", "owned", n, "of", len(r.session.shards), "members", len(r.health.Load().Members))
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
