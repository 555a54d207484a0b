package executor

import (
	"context"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// Stepped is a second shell over what Executor runs: the same door, owner,
// shards and sequencers, without a goroutine, channel, timer or clock. Whoever
// has it makes its calls and tells it the time, so that one event loop can run
// many processes and a seed can repeat all that they do.
//
// An input is a call of Claim, Tick, Drain or of a Call's Took. After one or
// more of them Next says what to do. A process that is killed is one that is
// forgotten; one that is suspended gets no input while its clocks go on.
type Stepped struct {
	door
	cfg   SteppedConfig
	owner *owner
	now   clock.Now // of the input or Next being served

	news   bool          // the owner has had an event since it was last asked
	wake   time.Duration // of the owner
	late   time.Duration // monotonic: when a drain is cut short; 0: there is none
	gone   bool
	failed error

	// Of the present tenure; nil without one. It outlives that of the door where
	// the owner has failed.
	term   *tenure
	shards []*steppedShard
	ended  int // shards that have, and the owner was told

	grabAt   time.Duration // when a node is to be asked for units again
	grabbing int           // calls of nodes for units that are under way
	loading  int           // calls under way that load logs
	queued   []calls.Call  // that wait for a turn to load

	calls   []calls.Call  // to be returned by Next
	answers []*steppedAsk // answered, to be told by Next
}

// SteppedConfig is what a stepped executor is made of. All but Queue and Sizes is required,
// and Lists for engine redis only.
type SteppedConfig struct {
	Sale    string         // the name
	Address string         // as Config has it
	Nodes   []string       // the lock nodes' names
	Lists   []string       // those of the nodes that keep lists
	Queue   int            // as Config has it; 0: the same default
	Me      []byte         // 8 bytes, new at each start of a process: as commits name it
	Token   func() string  // makes the tokens of leases, each new
	Key     func() string  // makes the keys of requests that have none, each new
	Jitter  func() float64 // from 0 to below 1
	Sizes   lists.Sizes    // of the calls about lists; 0: the usual ones
}

// NewStepped returns an executor that begins to serve with Next.
func NewStepped(cfg SteppedConfig) *Stepped {
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	p := &Stepped{cfg: cfg, news: true}
	p.open(cfg.Sale, cfg.Key)
	p.owner = newOwner(ownerConfig{
		sale: cfg.Sale, address: cfg.Address, nodes: cfg.Nodes, lists: cfg.Lists, sizes: cfg.Sizes, token: cfg.Token, jitter: cfg.Jitter,
	})
	return p
}

// steppedAsk is a request that waits for its answer.
type steppedAsk struct {
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
	a, t, tenure := p.admit(now, r)
	if t == nil {
		answered(a)
		return func() {}
	}
	x := &steppedAsk{ticket: t, tenure: tenure, answered: answered}
	t.OnAnswer(func() {
		x.there = true
		p.answers = append(p.answers, x)
	})
	return x.tell
}

// tell tells whoever asked the answer, or that there is none, if it was not told
// anything yet.
func (x *steppedAsk) tell() {
	if x.over {
		return
	}
	x.over = true
	var a Answer
	if x.there {
		a = x.ticket.Finish()
	} else {
		a = x.ticket.GiveUp()
	}
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
	t := p.tenure.Load()
	if t == nil {
		return "", 0
	}
	r := t.rights.Load()
	if r == nil || !r.Lease.At(now) {
		return "", 0
	}
	return t.uid, r.Lease.Until()
}

// Err is what Run of an Executor would have returned: nil, unless the sale's log
// cannot be followed.
func (p *Stepped) Err() error { return p.failed }

// Tick tells the time. It is due when the wake of the last Next has come; coming
// late or for nothing does no harm.
func (p *Stepped) Tick(now clock.Now) {
	p.now = now
	if due(p.wake, now) {
		p.owner.tick(now)
		p.news = true
	}
	if due(p.late, now) {
		p.late = 0
		p.term.stop(tooLate)
	}
	for _, s := range p.shards {
		if due(s.wakeAt, now) {
			s.Happens(shard.Ticked{})
			s.news = true
		}
	}
	if due(p.grabAt, now) {
		p.grabAt = 0
	}
}

func due(wake time.Duration, now clock.Now) bool { return wake != 0 && wake <= now.Mono }

// Drain is the end of the context of Run: the process answers what it has
// accepted, gives back its leases and is gone.
func (p *Stepped) Drain(now clock.Now) {
	if p.draining.Load() || p.failed != nil {
		return
	}
	p.now, p.late, p.news = now, now.Mono+defaultDrain, true
	p.draining.Store(true)
	p.owner.drain(now)
}

// Next lets the owner and all sequencers act until none has anything to do, and
// returns the calls that they want made and the monotonic time at which Tick is
// due, 0 if it is not. gone says that Run would have returned: there will be
// nothing more to do, and replies to calls under way are not waited for.
func (p *Stepped) Next(now clock.Now) (calls []calls.Call, wake time.Duration, gone bool) {
	p.now = now
	for p.lead() || p.serve() || p.grab() || p.end() || p.tell() {
	}
	calls, p.calls = p.calls, nil
	return calls, p.soonest(), p.gone
}

// soonest returns when Tick is due.
func (p *Stepped) soonest() time.Duration {
	if p.gone {
		return 0
	}
	wake := clock.Soonest(p.wake, p.late, p.grabAt)
	for _, s := range p.shards {
		wake = clock.Soonest(wake, s.wakeAt)
	}
	return wake
}

// lead asks the owner what to do, if there is news for it.
func (p *Stepped) lead() bool {
	if !p.news || p.gone || p.failed != nil {
		return false
	}
	p.news = false
	out, err := p.owner.next(p.now)
	if err != nil {
		p.failed, p.wake, p.late = unserved(p.cfg.Sale, err), 0, 0
		p.lose(p.term, p.failed)
		p.gone = p.term == nil
		return true
	}
	p.perform(out)
	p.show(p.owner)
	p.wake, p.gone = out.wake, p.owner.gone(p.now)
	return true
}

// perform does what the owner wants done.
func (p *Stepped) perform(out ownerEffects) {
	if out.read != nil {
		p.calls = append(p.calls, storeCall("read sale", out.read, func(now clock.Now, r ledger.Reply) {
			p.now, p.news = now, true
			p.owner.read(now, r)
		}))
	}
	for _, c := range out.calls {
		p.calls = append(p.calls, p.nodeCall(c))
	}
	if out.start {
		p.start()
	}
	if p.term != nil {
		p.term.told(p.owner, out)
	}
	if out.stop != nil {
		p.term.stop(*out.stop)
	}
}

// start begins a tenure.
func (p *Stepped) start() {
	p.term = newTenure(p.now, p.owner, shard.Config{
		Me: p.cfg.Me, Clock: func() clock.Now { return p.now }, Queue: p.cfg.Queue, Doubts: &p.doubts,
	}, nil)
	p.shards, p.grabAt, p.ended = nil, 0, 0
	for _, s := range p.term.shards {
		p.shards = append(p.shards, &steppedShard{Shard: s, p: p, news: true})
	}
	p.tenure.Store(p.term)
}

// serve lets the sequencers act for which there is news.
func (p *Stepped) serve() (acted bool) {
	for _, s := range p.shards {
		acted = s.act() || acted
	}
	return acted
}

// grab lets those nodes be asked for units for which requests wait.
func (p *Stepped) grab() (acted bool) {
	if p.term == nil || p.grabAt > p.now.Mono {
		return false
	}
	p.grabAt = 0
	for node, g := range p.term.grabs {
		c := new(shard.GrabCall)
		ask, wake := g.Next(p.now, c)
		p.grabAt = clock.Soonest(p.grabAt, wake)
		if ask {
			p.grabbing++
			p.calls = append(p.calls, p.grabCall(node, g, c))
			acted = true
		}
	}
	return acted
}

// grabCall is a call of a node that keeps lists as a Call.
func (p *Stepped) grabCall(node int, g *shard.NodeBatcher, c *shard.GrabCall) calls.Call {
	return calls.Call{
		Node: node, List: true, What: "grab", Timeout: shard.GrabTimeout,
		Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any {
			given, err := list.Grab(ctx, c.Batches)
			return grabReply{given, err}
		},
		Took: func(now clock.Now, reply any, err error) {
			answer := grabReply{err: err}
			if err == nil {
				answer = reply.(grabReply)
			}
			p.now, p.grabAt = now, 0
			p.grabbing--
			g.Done(now, c, answer.given, answer.err)
		},
	}
}

type grabReply struct {
	given []lists.Given
	err   error
}

// end tells the owner of the sequencers that have ended, the calls of which have
// returned; when all have, and those of the grabbers, the tenure is over.
func (p *Stepped) end() bool {
	for _, s := range p.shards {
		if s.stopped && !s.calling && !s.listing && !s.known {
			s.known = true
			p.ended++
			if p.failed == nil {
				p.news = true
				why, _ := s.Ended()
				p.owner.ended(p.now, why)
			}
			return true
		}
	}
	if p.term == nil || p.ended < len(p.shards) || p.grabbing > 0 {
		return false
	}
	p.tenure.Store(nil)
	p.left.Store(nil)
	p.term, p.shards, p.news = nil, nil, true
	if p.gone = p.failed != nil; !p.gone {
		p.owner.halted(p.now)
	}
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
