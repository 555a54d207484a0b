package executor

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// Stepped is a second shell over what Executor runs, without a goroutine, channel, timer
// or clock. Whoever has it makes its calls and tells it the time, so that one event loop
// can run many processes and a seed can repeat all that they do.
//
// An input is a call of Claim, Tick, Drain or of a Call's Took. After one or
// more of them Next says what to do. A process that is killed is one that is
// forgotten; one that is suspended gets no input while its clocks go on.
type Stepped struct {
	machine
	now    clock.Now     // of the input or Next being served
	own    stepper       // the owner's
	late   time.Duration // monotonic: when a drain is cut short; 0: there is none
	gone   bool
	failed error

	// Of the present session.
	shards  []*steppedShard
	batches stepper       // the batchers' of nodes that keep lists
	passing time.Duration // monotonic: when those that wait for peers are to be told the time

	dial []Peer   // links to be made, to be returned by Peers
	hang []string // and to be ended

	calls   []calls.Call    // to be returned by Next
	answers []*asyncRequest // answered, to be told by Next

	metrics *metrics    // nil: nobody has collected them yet
	counted shard.Tally // what they lack
}

// stepper is what is to be known of one that acts when there is news for it.
type stepper struct {
	news  bool          // there is
	wake  time.Duration // there will be at this monotonic time; 0: it is not known
	under int           // calls of its that have not returned
}

// steppedShard is what a stepped executor has of one shard.
type steppedShard struct {
	*shard.Shard
	stepper
	over bool // it has ended
}

// NewStepped returns an executor that begins to serve with Next. A Queue of 0 is the default
// of Config.
func NewStepped(cfg MachineConfig) *Stepped {
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	p := &Stepped{own: stepper{news: true}}
	p.machine = machine{admission: new(admission), cfg: cfg, owner: cfg.owner(), clock: func() clock.Now { return p.now }}
	p.open(cfg.Sale, idOf(cfg.Me), cfg.Key)
	return p
}

// Begin is Service's at a time. answered is called once: before Begin returns if the
// answer is known, within a later Next, or by withdraw. That stands for the end of the
// context of Executor.Do: a claim is answered with Overloaded, if it surely is not
// accepted, or with Unknown. It does nothing after an answer.
func (p *Stepped) Begin(now clock.Now, r Request, answered func(Answer)) (withdraw func()) {
	p.now = now
	x := &asyncRequest{shell: p, answered: answered}
	if a, ticket, _ := p.admit(context.Background(), now, r, x); ticket == nil {
		x.finish(a)
	}
	return func() { p.withdraw(x) }
}

// withdraw tells whoever asked that there is no answer, if that was not told one.
func (p *Stepped) withdraw(x *asyncRequest) {
	if x.state.Load() == asyncAnswered {
		x.finish(x.ticket.Finish())
		return
	}
	x.giveUp()
}

// ticketAnswered is asyncShell's. Next delivers the answer.
func (p *Stepped) ticketAnswered(x *asyncRequest) { p.answers = append(p.answers, x) }

// repeat is asyncShell's.
func (p *Stepped) repeat(x *asyncRequest) {
	x.state.Store(asyncWaiting)
	if a, ticket, _ := p.admitAgain(context.Background(), p.now, x.ticket, x); ticket == nil {
		x.finish(a)
	}
}

// Ready is Executor's.
func (p *Stepped) Ready(now clock.Now) error { return p.ready(now) }

// Status is Executor's.
func (p *Stepped) Status() Status { return p.status(p.now) }

// Collect sends the metrics of an Executor that shards and their sale have.
func (p *Stepped) Collect(now clock.Now, to chan<- prometheus.Metric) {
	p.now = now
	if p.metrics == nil {
		p.metrics = newMetrics(p.admission, p.cfg.Sale, p.clock)
	}
	p.metrics.tally(p.counted)
	p.counted = shard.Tally{}
	p.metrics.Collect(to)
}

// Leases says of which run and shards this process has the leases, and until when they are
// its own by its monotonic clock. A suspend, or a jump of the wall clock, may end them
// earlier.
func (p *Stepped) Leases(now clock.Now) (uid string, until map[int]time.Duration) {
	if p.session == nil {
		return "", nil
	}
	until = make(map[int]time.Duration)
	for i, s := range p.session.running {
		if to, ok := s.Leased(now); ok {
			until[i] = to
		}
	}
	return p.session.uid, until
}

// Peers returns the peers whose links are to be ended, and then those to which links are
// to be made, since it was last called.
func (p *Stepped) Peers() (hang []string, dial []Peer) {
	hang, dial = p.hang, p.dial
	p.hang, p.dial = nil, nil
	return hang, dial
}

// Me names the process to its peers.
func (p *Stepped) Me() Peer {
	return Peer{ID: idOf(p.cfg.Me), Address: p.cfg.Address, Version: p.cfg.Version}
}

// Linked says that there is a link to a peer, Cut that it is cut.
func (p *Stepped) Linked(now clock.Now, id string, to Link) {
	p.now, p.own.news = now, true
	p.linked(now, id, to)
}

// Cut is Linked's opposite.
func (p *Stepped) Cut(now clock.Now, id string) {
	p.now, p.own.news = now, true
	p.cut(now, id)
}

// ReceiveUpdate takes in an update of a peer.
func (p *Stepped) ReceiveUpdate(now clock.Now, from string, t *ownership.PeerUpdate) {
	p.now, p.own.news = now, true
	p.owner.Receive(now, from, t)
}

// Accept begins to serve a link of a peer, and returns the function that serves its requests.
// For each request one of answered and bounced is called, once, before serve returns or within
// a later input; or none, if the peer has made another link since. nil: the link was made to
// another process, whose id is to.
func (p *Stepped) Accept(from, to string) (serve func(now clock.Now, e shard.ForwardedRequest, answered func(Answer), bounced func(shard.Route))) {
	by := p.inbound.enter(from, to)
	if by == nil {
		return nil
	}
	return func(now clock.Now, e shard.ForwardedRequest, answered func(Answer), bounced func(shard.Route)) {
		p.now = now
		p.servePeer(context.Background(), now, by, e, answered, bounced)
	}
}

// Answered takes in a peer's answer to a forwarded request, Bounced that it does not own the shard.
func (p *Stepped) Answered(now clock.Now, id uint64, a Answer) {
	p.now = now
	p.answered(now, id, a)
}

// Bounced is Answered for a peer that does not own the shard.
func (p *Stepped) Bounced(now clock.Now, id uint64, to shard.Route) {
	p.now = now
	p.bounced(now, id, to)
}

// Retire is Executor's; Retired says how many shards are left, and whether a peer can take
// them.
func (p *Stepped) Retire(now clock.Now) {
	p.now, p.own.news = now, true
	p.owner.Retire(now)
}

// StandBy is Executor's. It returns false, and does nothing, where that returns an error.
func (p *Stepped) StandBy(now clock.Now, undo bool) bool {
	p.now, p.own.news = now, true
	if !p.owner.Operable() {
		return false
	}
	p.owner.StandBy(now, undo)
	return true
}

// Retired says how many shards this process has left, and whether a peer can take them.
func (p *Stepped) Retired(now clock.Now) (left int, takers bool) { return p.owner.Retired(now) }

// Err is what Run of an Executor would have returned: nil, unless the sale's log
// cannot be followed.
func (p *Stepped) Err() error { return p.failed }

// Tick tells the time. It is due when the wake of the last Next has come; coming
// late or for nothing does no harm.
func (p *Stepped) Tick(now clock.Now) {
	p.now = now
	if p.own.due(now) {
		p.owner.Tick(now)
	}
	if p.late != 0 && p.late <= now.Mono {
		p.late = 0
		p.session.stop(ownership.TooLate)
	}
	for _, s := range p.shards {
		if s.due(now) {
			s.Apply(shard.Ticked{})
		}
	}
	p.batches.due(now)
}

// due reports whether the time to wake has come, which is news.
func (s *stepper) due(now clock.Now) bool {
	due := s.wake != 0 && s.wake <= now.Mono
	s.news = s.news || due
	return due
}

// Drain is the end of the context of Run: the process answers what it has
// accepted, gives back its leases and is gone.
func (p *Stepped) Drain(now clock.Now) {
	if p.draining.Load() || p.failed != nil {
		return
	}
	p.now, p.late, p.own.news = now, now.Mono+defaultDrain, true
	p.drain(now)
}

// Next lets the owner and all sequencers act until none has anything to do, and
// returns the calls that they want made and the monotonic time at which Tick is
// due, 0 if it is not. gone says that Run would have returned: there will be
// nothing more to do, and of calls under way only grabs are waited for, as requests wait for
// those.
func (p *Stepped) Next(now clock.Now) (calls []calls.Call, wake time.Duration, gone bool) {
	p.now = now
	for p.step() || p.serve() || p.grab() || p.end() || p.tell() {
	}
	p.passing = p.passTime(now)
	for p.tell() || p.serve() || p.end() || p.step() {
	}
	calls, p.calls = p.calls, nil
	if p.gone && p.batches.under == 0 {
		return calls, 0, true
	}
	wake = clock.Soonest(p.own.wake, p.late, p.batches.wake, p.passing)
	if update := p.owner.NextUpdate(); p.session != nil && update != 0 && p.session.totals.Changed() {
		wake = clock.Soonest(wake, max(update, now.Mono+1))
		p.own.wake = clock.Soonest(p.own.wake, update)
	}
	for _, s := range p.shards {
		wake = clock.Soonest(wake, s.wake)
	}
	return calls, wake, false
}

// calling returns what takes in the calls of one that acts. A reply is news for it.
func (p *Stepped) calling(s *stepper) func(calls.Call) {
	return func(c calls.Call) {
		s.under++
		took := c.Took
		c.Took = func(now clock.Now, reply any, err error) {
			p.now, s.news = now, true
			s.under--
			took(now, reply, err)
		}
		p.calls = append(p.calls, c)
	}
}

// step asks the owner what to do, if there is news for it.
func (p *Stepped) step() bool {
	if !p.own.news || p.gone || p.failed != nil {
		return false
	}
	p.own.news = false
	out, err := p.advance(p.now, p.calling(&p.own))
	if err != nil {
		p.failed, p.own.wake, p.late = err, 0, 0
		p.gone = p.session == nil
		return true
	}
	if out.Start != nil {
		p.shards, p.batches = nil, stepper{news: true, under: p.batches.under}
	}
	for _, s := range out.opened {
		p.shards = append(p.shards, &steppedShard{Shard: s, stepper: stepper{news: true}})
	}
	for _, id := range out.Hang {
		p.dial = slices.DeleteFunc(p.dial, func(to Peer) bool { return to.ID == id })
	}
	p.hang = append(p.hang, out.Hang...)
	for _, m := range out.Dial {
		p.dial = append(p.dial, Peer{ID: m.ID, Address: m.Address, Version: m.Version})
	}
	p.own.wake = out.Wake
	if p.gone = p.owner.Gone(p.now); p.gone {
		p.own.wake, p.late = 0, 0
	}
	return true
}

// serve lets the shards act for which there is news or mail.
func (p *Stepped) serve() (acted bool) {
	for _, s := range p.shards {
		select {
		case <-s.Mail():
			s.news = true
		default:
		}
		if s.over || !s.news {
			continue
		}
		s.news, acted = false, true
		s.wake = s.Act(p.calling(&s.stepper))
		p.counted.Add(s.Counted())
		if _, s.over = s.Ended(); s.over {
			s.wake = 0
		}
	}
	return acted
}

// grab lets those nodes be asked for units for which requests wait.
func (p *Stepped) grab() (acted bool) {
	if p.session == nil {
		p.batches.wake = 0 // of the session that has ended: a time that has come would be due for ever
		return false
	}
	if p.batches.wake > p.now.Mono && !p.batches.news {
		return false
	}
	p.batches.news, p.batches.wake = false, 0
	for node, g := range p.session.grabs {
		c := new(shard.GrabCall)
		ask, wake := g.Next(p.now, c)
		p.batches.wake = clock.Soonest(p.batches.wake, wake)
		if ask {
			p.calling(&p.batches)(g.Call(node, c))
			acted = true
		}
	}
	return acted
}

// end tells the owner of the shards that have ended, the calls of which have returned.
func (p *Stepped) end() bool {
	for i, s := range p.shards {
		if s.over && s.under == 0 {
			p.shards = slices.Delete(p.shards, i, i+1)
			if p.own.news = true; p.failed != nil {
				p.gone = len(p.shards) == 0
			} else {
				p.ended(p.now, s.Number())
			}
			return true
		}
	}
	return false
}

// tell tells those who asked what has been answered.
func (p *Stepped) tell() bool {
	answers := p.answers
	p.answers = nil
	for _, x := range answers {
		x.deliver()
	}
	return len(answers) > 0
}
