package executor

import (
	"context"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
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

	// Of the present tenure.
	shards  []*steppedShard
	ended   int     // shards that have, and the owner was told
	batches stepper // the batchers' of nodes that keep lists

	calls   []calls.Call  // to be returned by Next
	answers []*steppedAsk // answered, to be told by Next
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
	over  bool // it has ended
	known bool // and the owner knows
}

// NewStepped returns an executor that begins to serve with Next. A Queue of 0 is the default
// of Config.
func NewStepped(cfg MachineConfig) *Stepped {
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	p := &Stepped{own: stepper{news: true}}
	p.machine = machine{admission: new(admission), cfg: cfg, owner: newOwner(cfg), clock: func() clock.Now { return p.now }}
	p.open(cfg.Sale, cfg.Key)
	return p
}

// steppedAsk is a request that waits for its answer.
type steppedAsk struct {
	p        *Stepped
	claims   *Request // nil: it settles a claim
	changed  int      // how often the rules have, since it was let in first
	ticket   *shard.Ticket
	tenure   *tenure // under which it came
	answered func(Answer)
	there    bool // the answer is
	over     bool // and whoever asked has it, or waits no longer
}

// Claim asks for units. answered is called once: before Claim returns if the
// answer is known, within a later Next, or by withdraw. That is the end of the
// context of Executor.Claim: who asked waits no longer and gets Overloaded, if
// the claim surely is not accepted, or Unknown. It does nothing after an answer.
func (p *Stepped) Claim(now clock.Now, r Request, answered func(Answer)) (withdraw func()) {
	p.now = now
	x := &steppedAsk{p: p, claims: &r, answered: answered}
	x.await(p.admit(context.Background(), now, r))
	return x.withdraw
}

// Settle is Executor's, and answers as Claim does.
func (p *Stepped) Settle(now clock.Now, s Settlement, answered func(Answer)) (withdraw func()) {
	p.now = now
	x := &steppedAsk{p: p, answered: answered}
	x.await(p.admitSettlement(now, s))
	return x.withdraw
}

func (x *steppedAsk) await(a Answer, t *shard.Ticket, tenure *tenure) {
	if t == nil {
		x.end(a)
		return
	}
	x.ticket, x.tenure, x.there = t, tenure, false
	t.OnAnswer(func() {
		x.there = true
		x.p.answers = append(x.p.answers, x)
	})
}

// tell tells whoever asked the answer, if that was not told anything yet.
func (x *steppedAsk) tell() {
	if x.over {
		return
	}
	a := x.ticket.Finish()
	if a.OtherRules && x.changed < mostRuleChanges {
		x.changed++
		x.await(x.p.admit(context.Background(), x.p.now, *x.claims))
		return
	}
	x.end(a)
}

// withdraw tells whoever asked that there is no answer, if that was not told one.
func (x *steppedAsk) withdraw() {
	switch {
	case x.over:
	case x.there:
		x.end(x.ticket.Finish())
	default:
		x.end(x.ticket.GiveUp())
	}
}

func (x *steppedAsk) end(a Answer) {
	x.over = true
	x.tenure.price(&a)
	x.answered(a)
}

// User is Executor's.
func (p *Stepped) User(now clock.Now, user string) ([]Claim, api.Outcome) { return p.claims(now, user) }

// Ready is Executor's.
func (p *Stepped) Ready(now clock.Now) error { return p.ready(now) }

// Status is Executor's.
func (p *Stepped) Status() Status { return p.status() }

// Leases says of which run this process has the leases, and until when they are
// its own by its monotonic clock; until is 0 if it has none. A suspend, or a jump
// of the wall clock, may end them earlier.
func (p *Stepped) Leases(now clock.Now) (uid string, until time.Duration) {
	if t := p.tenure.Load(); t != nil {
		if r := t.rights.Load(); r != nil && r.Lease.At(now) {
			return t.uid, r.Lease.Until()
		}
	}
	return "", 0
}

// Err is what Run of an Executor would have returned: nil, unless the sale's log
// cannot be followed.
func (p *Stepped) Err() error { return p.failed }

// Tick tells the time. It is due when the wake of the last Next has come; coming
// late or for nothing does no harm.
func (p *Stepped) Tick(now clock.Now) {
	p.now = now
	if p.own.due(now) {
		p.owner.tick(now)
	}
	if p.late != 0 && p.late <= now.Mono {
		p.late = 0
		p.term.stop(tooLate)
	}
	for _, s := range p.shards {
		if s.due(now) {
			s.Happens(shard.Ticked{})
		}
	}
	p.batches.due(now)
}

// due says whether the time to wake has come, which is news.
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
// nothing more to do, and replies to calls under way are not waited for.
func (p *Stepped) Next(now clock.Now) (calls []calls.Call, wake time.Duration, gone bool) {
	p.now = now
	for p.step() || p.serve() || p.grab() || p.end() || p.tell() {
	}
	calls, p.calls = p.calls, nil
	if p.gone {
		return calls, 0, true
	}
	wake = clock.Soonest(p.own.wake, p.late, p.batches.wake)
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
	out, err := p.lead(p.now, p.calling(&p.own))
	if err != nil {
		p.failed, p.own.wake, p.late = err, 0, 0
		p.gone = p.term == nil
		return true
	}
	if out.start {
		p.shards, p.ended, p.batches = nil, 0, stepper{news: true}
		for _, s := range p.term.shards {
			p.shards = append(p.shards, &steppedShard{Shard: s, stepper: stepper{news: true}})
		}
	}
	p.own.wake, p.gone = out.wake, p.owner.gone(p.now)
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
		if _, s.over = s.Ended(); s.over {
			s.wake = 0
		}
	}
	return acted
}

// grab lets those nodes be asked for units for which requests wait.
func (p *Stepped) grab() (acted bool) {
	if p.term == nil || p.batches.wake > p.now.Mono && !p.batches.news {
		return false
	}
	p.batches.news, p.batches.wake = false, 0
	for node, g := range p.term.grabs {
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

// end tells the owner of the shards that have ended, the calls of which have
// returned; when all have, and those of the batchers, the tenure is over.
func (p *Stepped) end() bool {
	for _, s := range p.shards {
		if s.over && s.under == 0 && !s.known {
			s.known = true
			p.ended++
			if p.failed == nil {
				p.own.news = true
				why, _ := s.Ended()
				p.owner.ended(p.now, why)
			}
			return true
		}
	}
	if p.term == nil || p.ended < len(p.shards) || p.batches.under > 0 {
		return false
	}
	p.halted(p.now)
	p.shards, p.batches, p.own.news = nil, stepper{}, true
	p.gone = p.failed != nil
	return true
}

// tell tells those who asked what has been answered.
func (p *Stepped) tell() bool {
	answers := p.answers
	p.answers = nil
	for _, x := range answers {
		x.tell()
	}
	return len(answers) > 0
}
