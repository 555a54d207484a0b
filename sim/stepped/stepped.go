// Package stepped runs the machine of a process of a sale without a goroutine, channel, timer or clock:
// it is to the simulation what package executor is to a server. The caller makes its calls and passes
// the time, so that one event loop can run many processes and a seed can repeat all that they do.
package stepped

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api/streampb"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/executor/listengine"
	"salectl/executor/metrics"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/shard"
)

// Process is a process of a sale. Most of its methods are inputs. After one or more of them Next returns
// what to do. A process that is killed is one that is forgotten; one that is suspended gets no input
// while its clocks go on.
type Process struct {
	*process.Machine
	now    clock.Now     // of the input or Next being served
	own    stepper       // of Machine
	late   time.Duration // monotonic: when a drain is cut short; 0: there is none
	drains bool
	gone   bool
	failed error

	// Of the present session.
	uid     string
	shards  []*steppedShard
	batches stepper       // of the batchers
	passing time.Duration // monotonic: the next PassTime

	dial []ownership.Process // links to make, for Peers
	hang []string            // and to end

	calls   []calls.Call       // to be returned by Next
	answers []*process.Pending // answered, to be delivered by Next

	metrics *metrics.Metrics // nil: nobody has collected them yet
	counted shard.Tally      // what they lack
}

// stepper schedules a part that acts when it has an input.
type stepper struct {
	due   bool          // it has an input
	wake  time.Duration // monotonic: when it has one next; 0: not known
	under int           // its calls that have not returned
}

// steppedShard is a shard whose machine runs.
type steppedShard struct {
	*shard.Shard
	stepper
	over bool // it has ended
}

// Config is a process.Config. New sets its Clock, Answered and Repeat.
type Config = process.Config

// New returns a process that begins to serve with Next.
func New(cfg Config) *Process {
	p := &Process{own: stepper{due: true}}
	cfg.Clock = func() clock.Now { return p.now }
	cfg.Answered = func(x *process.Pending) { p.answers = append(p.answers, x) }
	cfg.Repeat = (*process.Pending).Repeat
	p.Machine = process.New(cfg)
	return p
}

// Begin begins a request. answered is called once: before Begin returns if the answer is known, within
// a later Next, or by withdraw. That stands for the end of the context of Executor.Do: a claim is
// answered with Overloaded, if it surely is not accepted, or with Unknown. It does nothing after an
// answer.
func (p *Process) Begin(now clock.Now, r request.Request, answered func(request.Answer)) (withdraw func()) {
	p.now = now
	x := p.Machine.Begin(r, answered)
	return func() {
		if x != nil {
			x.Deliver()
			x.Cancel()
		}
	}
}

// Ready is Executor's.
func (p *Process) Ready(now clock.Now) error {
	p.now = now
	return p.Machine.Ready()
}

// Collect sends the metrics of an Executor that its shards and their sale have.
func (p *Process) Collect(now clock.Now, to chan<- prometheus.Metric) {
	p.now = now
	if p.metrics == nil {
		p.metrics = metrics.New(p.Machine, p.Status().Sale, func() clock.Now { return p.now })
	}
	p.metrics.Shards.Add(p.counted)
	p.counted = shard.Tally{}
	p.metrics.Collect(to)
}

// Leases returns the run and the shards of which this process has the leases, and until when they are
// its own by its monotonic clock. A suspend, or a jump of the wall clock, may end them earlier.
func (p *Process) Leases(now clock.Now) (uid string, until map[int]time.Duration) {
	if p.Totals() == nil {
		return "", nil
	}
	until = make(map[int]time.Duration)
	for _, s := range p.shards {
		if to, ok := s.Leased(now); ok {
			until[s.Number()] = to
		}
	}
	return p.uid, until
}

// Peers returns the peers whose links are to be ended, and then those to which links are
// to be made, since it was last called.
func (p *Process) Peers() (hang []string, dial []ownership.Process) {
	hang, dial = p.hang, p.dial
	p.hang, p.dial = nil, nil
	return hang, dial
}

// input sets the time, and has Machine act at the next Next.
func (p *Process) input(now clock.Now) { p.now, p.own.due = now, true }

// Linked adds a link to a peer, and Cut removes it.
func (p *Process) Linked(now clock.Now, id string, to peers.Link) {
	p.input(now)
	p.Machine.Linked(now, id, to)
}

// Cut is the opposite of Linked.
func (p *Process) Cut(now clock.Now, id string) {
	p.input(now)
	p.Machine.Cut(now, id)
}

// ReceiveUpdate passes on an update of a peer.
func (p *Process) ReceiveUpdate(now clock.Now, from string, t *ownership.PeerUpdate) {
	p.input(now)
	p.Ownership.Receive(now, from, t)
}

// Accept begins to serve a link of a peer, and returns the function that serves its requests. Replies
// go to back, before serve returns or within a later input. nil: the link was made to another process,
// whose id is to.
func (p *Process) Accept(from, to string, back peers.Replies) (serve func(now clock.Now, m *streampb.Request)) {
	in := p.Machine.Accept(from, to, back)
	if in == nil {
		return nil
	}
	return func(now clock.Now, m *streampb.Request) {
		p.now = now
		if r, ok := peers.DecodeRequest(m); ok {
			in.Serve(context.Background(), m, &r)
		}
	}
}

// Replied passes on a peer's answer to a forwarded request.
func (p *Process) Replied(now clock.Now, id uint64, a request.Answer, owner ownership.Route) {
	p.now = now
	p.Machine.Replied(id, a, owner)
}

// Retire begins what Executor's does. Retired returns its progress.
func (p *Process) Retire(now clock.Now) {
	p.input(now)
	p.Ownership.Retire(now)
}

// StandBy is Executor's. It returns false, and does nothing, where that returns an error.
func (p *Process) StandBy(now clock.Now, undo bool) bool {
	p.input(now)
	if !p.Ownership.Operable() {
		return false
	}
	p.Ownership.StandBy(now, undo)
	return true
}

// Err is what Run of an Executor would have returned: nil, unless the sale's log
// cannot be followed.
func (p *Process) Err() error { return p.failed }

// Tick passes the time. It is due when the wake of the last Next has come; a late or needless Tick is
// harmless.
func (p *Process) Tick(now clock.Now) {
	p.now = now
	if p.own.ticked(now) {
		p.Ownership.Tick(now)
	}
	if p.late != 0 && p.late <= now.Mono {
		p.late = 0
		p.Stop(ownership.TooLate)
	}
	for _, s := range p.shards {
		if s.ticked(now) {
			s.Apply(shard.Ticked{})
		}
	}
	p.batches.ticked(now)
}

// ticked reports whether the time to wake has come, which is an input.
func (s *stepper) ticked(now clock.Now) bool {
	ticked := s.wake != 0 && s.wake <= now.Mono
	s.due = s.due || ticked
	return ticked
}

// Drain is the end of the context of Run: the process answers what it has
// accepted, gives back its leases and is gone.
func (p *Process) Drain(now clock.Now) {
	if p.drains || p.failed != nil {
		return
	}
	p.input(now)
	p.drains, p.late = true, now.Mono+process.DrainTimeout
	p.Machine.Drain(now)
}

// Next lets all parts act until none has anything to do, and returns the calls to make and the
// monotonic time at which Tick is due, 0 if it is not. gone reports that Run would have returned: there
// will be nothing more to do, and of calls under way only grabs are waited for, as requests wait for
// those.
func (p *Process) Next(now clock.Now) (calls []calls.Call, wake time.Duration, gone bool) {
	p.now = now
	for p.advance() || p.serve() || p.grab() || p.end() || p.deliver() {
	}
	p.passing = p.PassTime(now)
	for p.deliver() || p.serve() || p.end() || p.advance() {
	}
	calls, p.calls = p.calls, nil
	if p.gone && p.batches.under == 0 {
		return calls, 0, true
	}
	wake = clock.Soonest(p.own.wake, p.late, p.batches.wake, p.passing)
	if update := p.Ownership.NextUpdate(); p.Totals() != nil && update != 0 && p.Totals().Changed() {
		wake = clock.Soonest(wake, max(update, now.Mono+1))
		p.own.wake = clock.Soonest(p.own.wake, update)
	}
	for _, s := range p.shards {
		wake = clock.Soonest(wake, s.wake)
	}
	return calls, wake, false
}

// calling returns the function that collects the calls of a part. A reply is an input of that part.
func (p *Process) calling(s *stepper) func(calls.Call) {
	return func(c calls.Call) {
		s.under++
		took := c.Took
		c.Took = func(now clock.Now, reply any, err error) {
			p.now, s.due = now, true
			s.under--
			took(now, reply, err)
		}
		p.calls = append(p.calls, c)
	}
}

// advance lets the machine act, if it has an input.
func (p *Process) advance() bool {
	if !p.own.due || p.gone || p.failed != nil {
		return false
	}
	p.own.due = false
	out, err := p.Advance(p.now, p.calling(&p.own))
	if err != nil {
		p.failed, p.own.wake, p.late = err, 0, 0
		p.gone = p.Totals() == nil
		return true
	}
	if out.Start != nil {
		p.uid, p.shards, p.batches = out.Start.UID, nil, stepper{due: true, under: p.batches.under}
	}
	for _, s := range out.Opened {
		p.shards = append(p.shards, &steppedShard{Shard: s, stepper: stepper{due: true}})
	}
	for _, id := range out.Hang {
		p.dial = slices.DeleteFunc(p.dial, func(to ownership.Process) bool { return to.ID == id })
	}
	p.hang = append(p.hang, out.Hang...)
	p.dial = append(p.dial, out.Dial...)
	p.own.wake = out.Wake
	if p.gone = p.Ownership.Drained(p.now); p.gone {
		p.own.wake, p.late = 0, 0
	}
	return true
}

// serve lets the shards act that have an input or mail.
func (p *Process) serve() (acted bool) {
	for _, s := range p.shards {
		select {
		case <-s.Mail():
			s.due = true
		default:
		}
		if s.over || !s.due {
			continue
		}
		s.due, acted = false, true
		s.wake = s.Act(p.calling(&s.stepper))
		p.count(s.TakeTally())
		if _, s.over = s.Ended(); s.over {
			s.wake = 0
		}
	}
	return acted
}

// count adds what a shard has counted.
func (p *Process) count(t shard.Tally) {
	p.counted.Committed += t.Committed
	p.counted.Taken += t.Taken
	p.counted.Unknown += t.Unknown
	p.counted.Resent += t.Resent
	p.counted.Fills += t.Fills
	p.counted.Voids += t.Voids
}

// grab lets the batchers act.
func (p *Process) grab() (acted bool) {
	if p.Totals() == nil {
		p.batches.wake = 0 // of the session that has ended: a time that has come would be due for ever
		return false
	}
	if p.batches.wake > p.now.Mono && !p.batches.due {
		return false
	}
	p.batches.due, p.batches.wake = false, 0
	for node, g := range p.Batchers() {
		c := new(listengine.Call)
		asks, wake := g.Next(p.now, c)
		p.batches.wake = clock.Soonest(p.batches.wake, wake)
		if asks {
			p.calling(&p.batches)(g.Call(node, c))
			acted = true
		}
	}
	return acted
}

// end removes a shard that has ended and whose calls have returned.
func (p *Process) end() bool {
	for i, s := range p.shards {
		if s.over && s.under == 0 {
			p.shards = slices.Delete(p.shards, i, i+1)
			if p.own.due = true; p.failed != nil {
				p.gone = len(p.shards) == 0
			} else {
				why, _ := s.Ended()
				p.ShardEnded(p.now, s.Number(), why)
			}
			return true
		}
	}
	return false
}

// deliver passes on the answers to requests.
func (p *Process) deliver() bool {
	answers := p.answers
	p.answers = nil
	for _, x := range answers {
		x.Deliver()
	}
	return len(answers) > 0
}
