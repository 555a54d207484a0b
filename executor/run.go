package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/listengine"
	"salectl/executor/ownership"
	"salectl/executor/process"
	"salectl/executor/shard"
	"salectl/executor/status"
)

// runner runs a machine for an Executor: it has the event loop of Run and what belongs to
// that alone.
type runner struct {
	*process.Machine
	e       *Executor
	clock   clock.Clock
	ends    calls.Ends
	calls   context.Context // of all calls
	running sync.WaitGroup

	refused int // refusals since a lease was last held: the first is logged
	owned   int // shards that were logged last

	advanced time.Duration                 // monotonic: of the last Advance, or of the last time that it had no effect
	dialing  map[string]context.CancelFunc // of the links to peers, by id
	problems status.Reporter               // of those that the process has whether or not it serves

	// Of the present session.
	over      chan struct{}   // closed when it ends
	ofSession status.Reporter // of the session's problems
	turns     chan struct{}   // has a place for each shard that may be loaded at a time
	granted   []atomic.Int64  // by shard: monotonic time when its owner freed the lease for this process; 0: none has, or it serves
}

// Run serves the sale whenever this process owns it, until ctx ends: then it
// answers what it has accepted, releases its leases and returns nil. An error
// means that the sale cannot be followed, because its log is damaged.
func (e *Executor) Run(ctx context.Context) error {
	r := &runner{
		Machine: e.machine, e: e, clock: e.cfg.Clock, ends: calls.Ends{Logs: e.cfg.Logs, Nodes: e.cfg.Nodes, Lists: e.cfg.Lists},
		dialing: make(map[string]context.CancelFunc),
	}
	// Calls outlive ctx, until the drain is over.
	var cancel context.CancelFunc
	r.calls, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer r.running.Wait()
	defer cancel()
	defer close(e.ended)
	defer e.machine.Publish(nil)
	return r.loop(ctx)
}

// loop advances the machine until it is drained or the sale cannot be followed.
func (r *runner) loop(ctx context.Context) error {
	timer, report := time.NewTimer(time.Hour), time.NewTicker(reportEvery)
	defer timer.Stop()
	defer report.Stop()
	stopping := ctx.Done()
	var late <-chan time.Time
	for {
		out, err := r.Advance(r.clock(), r.call)
		if err != nil {
			if r.Totals() != nil {
				close(r.over)
			}
			return err
		}
		r.follow(out)
		if r.Ownership.Drained(r.clock()) {
			return nil
		}
		now := r.clock()
		r.advanced = now.Mono
		wake := r.wakes(now, out.Wake)
		for quiet := true; quiet; {
			quiet = false
			timer.Reset(until(wake, r.clock()))
			select {
			case <-r.e.notified:
				quiet = true
				wake = r.wakes(r.clock(), out.Wake)
			case do := <-r.e.inbox:
				do(r)
			case <-timer.C:
				now := r.clock()
				if quiet = !r.due(now, out.Wake); quiet { // requests wait for a peer
					r.advanced = now.Mono
					wake = r.wakes(now, out.Wake)
				} else {
					r.Ownership.Tick(now)
				}
			case <-report.C:
				r.reportProblems()
			case <-stopping:
				stopping, late = nil, time.After(r.e.cfg.DrainTimeout)
				r.Drain(r.clock())
			case <-late:
				r.Stop(ownership.TooLate)
			}
		}
	}
}

// wakes returns when the loop must wake: for the ownership of shards, or, not more often than peers get
// updates, for reports of shards to peers and for requests that wait.
func (r *runner) wakes(now clock.Now, owns time.Duration) time.Duration {
	return wakeAt(now, r.advanced, owns, r.PassTime(now), r.reportDue(now), r.Totals() != nil && len(r.dialing) > 0)
}

// wakeAt returns when a loop last advanced at the time advanced must wake. owns, waiting and report are the
// times at which ownership, waiting requests, and reports of shards to peers are due; 0: never.
func wakeAt(now clock.Now, advanced, owns, waiting, report time.Duration, peers bool) time.Duration {
	wake := clock.Soonest(owns, waiting)
	if waiting != 0 { // for a shard, which may be served any time
		report = now.Mono
	}
	if peers && report != 0 {
		wake = clock.Soonest(wake, max(report, advanced+ownership.UpdateEvery))
	}
	return wake
}

// reportDue returns when a report of a shard to peers is due; 0: none is.
func (r *runner) reportDue(now clock.Now) time.Duration {
	if totals := r.Totals(); totals != nil && len(r.dialing) > 0 {
		return totals.Due(now)
	}
	return 0
}

// due reports whether an action for the ownership of shards, or a report of a shard to peers, is due.
func (r *runner) due(now clock.Now, owns time.Duration) bool {
	report := r.reportDue(now)
	return owns != 0 && now.Mono >= owns || report != 0 && now.Mono >= report
}

// call makes one call of the machine.
func (r *runner) call(c calls.Call) {
	r.running.Go(func() {
		reply := c.Do(r.calls, r.ends)
		r.do(func() { c.Took(r.clock(), reply, nil) })
	})
}

// follow logs the effects of an Advance, and runs what has begun.
func (r *runner) follow(out process.Effects) {
	for _, event := range out.Events {
		r.logEvent(event)
	}
	for _, x := range out.Updates {
		r.e.metrics.Moves.WithLabelValues("given").Add(float64(len(x.Update.Granted)))
	}
	r.e.metrics.Moves.WithLabelValues("taken").Add(float64(len(out.Granted)))
	if out.Ended != nil {
		close(r.over) // a call of a node that is under way goes on: the loop does not wait for it
		r.e.cfg.Logger.Info("this process stops selling", "sale", r.e.cfg.Sale, "why", out.Ended.Why)
	}
	if out.Start != nil {
		r.start(out.Start)
	}
	for _, i := range out.Granted {
		r.granted[i].Store(int64(r.clock().Mono))
	}
	for _, s := range out.Opened {
		r.open(s)
	}
	if out.Plans && r.Totals() != nil {
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

// prepare reads the users of the newest generation, and reads payloads ahead.
func (r *runner) prepare() {
	r.running.Go(func() { r.PrepareRules(r.calls) })
	r.e.payloads.follow(r.Ownership.Sale(), r.e.cfg.Logs, r.e.cfg.Key)
	choose := r.Ownership.Sale().Newest().GetSettings().GetChoose()
	r.running.Go(func() { r.e.payloads.prepare(r.calls, choose) })
}

// start begins a session: the goroutines for each node that keeps lists.
func (r *runner) start(run *ownership.Run) {
	r.e.payloads.numbers.Store(false) // they are unknown before follow is called
	r.e.payloads.reader.Store(nil)
	over := make(chan struct{})
	for i, g := range r.Batchers() {
		for range listengine.MaxCalls {
			r.running.Go(func() { r.grabLoop(g, i, over) })
		}
	}
	r.over, r.turns, r.granted = over, make(chan struct{}, loadAtOnce), make([]atomic.Int64, run.Shards)
	r.ofSession, r.owned = status.Reporter{}, 0
	r.e.cfg.Logger.Info("this process starts serving the sale", "sale", r.e.cfg.Sale, "uid", run.UID, "shards", run.Shards)
}

// open runs the machine of a shard.
func (r *runner) open(s *shard.Shard) {
	i, metrics, turns := s.Number(), r.e.metrics, r.turns
	granted := &r.granted[i]
	metrics.Sessions.WithLabelValues("begun").Inc()
	r.running.Go(func() {
		why := r.runShard(s, turns, granted)
		if lost := (*quorum.Failure)(nil); errors.As(why, &lost) {
			why = lost.Kind // its cause was just logged
		}
		r.e.cfg.Logger.Debug("a shard's machine has ended", "sale", r.e.cfg.Sale, "shard", i, "why", why)
		r.do(func() {
			r.ShardEnded(r.clock(), i, why)
			metrics.Sessions.WithLabelValues("ended").Inc()
		})
	})
}

// reportEvery is how often the list of problems is compiled.
const reportEvery = time.Second

// loadAtOnce bounds how many shards' logs are read at a time when a session begins: few enough for the
// store and for our memory.
const loadAtOnce = 64

// reportProblems compiles the list of problems, and logs what has changed.
func (r *runner) reportProblems() {
	now, log := r.clock(), r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	ofProcess, ofSession := r.CompileProblems(now)
	if err := r.e.payloads.failed.Load(); err != nil {
		ofProcess = append(ofProcess, status.Problem{Kind: status.Payloads, Why: shard.OneLine(*err)})
	}
	r.problems.Report(now, ofProcess, log)
	if r.Totals() != nil {
		if n := len(r.Shards()); n != r.owned {
			r.owned = n
			log.Info("this process owns shards", "owned", n, "of", r.Ownership.Sale().Shards(), "members", len(r.Health().Processes))
		}
		r.ofSession.Report(now, ofSession, log)
	}
	all := append([]status.Problem{}, ofProcess...) // not nil, also if there are none
	all = append(all, ofSession...)
	r.Publish(slices.DeleteFunc(all, func(p status.Problem) bool { return p.Past }))
}

func (r *runner) logEvent(e quorum.Event) {
	log := r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	switch e.Kind {
	case quorum.Losing:
		log.Warn("the leases are lost", "leases", len(e.Keys), "why", e.Cause.Reason(),
			"remedy", "if this repeats, reduce the load of this host and of the lock nodes, or increase spec.lock.ttl")
	case quorum.Refused:
		r.refused++
		holder, taken := e.Cause.Holder()
		note, _ := quorum.ParseNote(holder.Note)
		switch {
		case r.refused > 1:
		case taken && note.Address != r.e.cfg.Address:
			log.Info("waiting for a lease that another process holds", "owner", note.Address)
		default:
			log.Info("the lock nodes do not grant the lease", "why", e.Cause)
		}
	case quorum.Won:
		r.refused = 0
		log.Debug("leases are held", "count", len(e.Keys))
	}
}
