package executor

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"salectl/executor/shard"
)

// Do is Service's.
func (e *Executor) Do(ctx context.Context, r Request) Answer {
	a := e.do(ctx, r)
	if r.Query != nil {
		e.payloads.addNow(ctx, &a)
		shorten(&a)
	} else {
		e.payloads.add(ctx, &a)
	}
	return a
}

// Begin is Service's.
func (e *Executor) Begin(r Request, answered func(Answer)) (giveUp func()) {
	if r.Query != nil {
		whole := answered
		answered = func(a Answer) {
			shorten(&a)
			whole(a)
		}
	}
	x := &asyncRequest{shell: e, answered: e.payloads.adding(answered)}
	if !e.prompt(&r) {
		e.block(x, func(ctx context.Context) Answer { return e.do(ctx, r) })
		return x.giveUp
	}
	if a, ticket, _ := e.admit(context.Background(), e.cfg.Clock(), r, x); ticket == nil {
		x.finish(a)
	}
	return x.giveUp
}

// do answers a request without the payloads of its units.
func (e *Executor) do(ctx context.Context, r Request) Answer {
	if len(r.Names) > 0 {
		away := e.away.Load()
		if e.serving.Load() == nil { // what was read in an earlier one may be old
			return e.refuse(r, *away)
		}
		if no := e.payloads.choose(ctx, &r, away); no.Outcome != "" {
			return e.refuse(r, no)
		}
	}
	e.drained(ctx, &r)
	a, ticket, t := e.admit(ctx, e.cfg.Clock(), r, nil)
	return e.wait(ctx, a, ticket, t, 0)
}

// doAgain is do for a request during which the rules have changed so often already, the last time
// under the ticket before.
func (e *Executor) doAgain(ctx context.Context, before *shard.Ticket, changed int) Answer {
	a, ticket, t := e.admitAgain(ctx, e.cfg.Clock(), before, nil)
	return e.wait(ctx, a, ticket, t, changed)
}

// wait waits for the answer to a request that was admitted. Without a ticket, a is the answer.
func (e *Executor) wait(ctx context.Context, a Answer, ticket *shard.Ticket, t *session, changed int) Answer {
	switch {
	case ticket == nil:
		return a
	case !ticket.Await(ctx):
		a = ticket.GiveUp()
	case ticket.OtherRules() && changed < mostRuleChanges:
		return e.doAgain(ctx, ticket, changed+1)
	default:
		a = ticket.Finish()
	}
	t.completeAnswer(&a)
	return a
}

// mostRuleChanges bounds how often a request is decided again because the rules have changed since it
// was admitted. After that the requester repeats it: this process does not know the rules of its
// shard yet.
const mostRuleChanges = 2

// prompt reports whether a request can be admitted without a wait for a store or a node.
func (d *admission) prompt(r *Request) bool {
	t := d.serving.Load()
	switch {
	case t == nil || r.Settle != nil:
		return true
	case r.Query != nil:
		return len(t.grabs) == 0
	case len(r.Names) > 0:
		return false
	}
	e := t.eligibility.Load()
	return e == nil || e.users.prompt(r.User)
}

func (s *userSource) prompt(id string) bool {
	if s.declared.Users == nil && s.declared.History == nil {
		return true
	}
	if u := s.ready.Load(); u != nil {
		if known, ok := u.Users.(freshUsers); ok {
			_, ok = known.Fresh(id)
			return ok
		}
	}
	return false
}

// drained waits until the ledger has the units of a shard's list that a query is about, if the shard
// is this process's.
func (d *admission) drained(ctx context.Context, r *Request) {
	t := d.serving.Load()
	if t == nil || len(t.grabs) == 0 || r.Query == nil || r.Query.User == "" && r.Query.Claim.Unit == 0 {
		return
	}
	i, ok := r.Home(len(t.shards))
	if !ok {
		return
	}
	if s := t.local(i); s != nil {
		select {
		case <-s.Drain():
		case <-time.After(drainPatience):
		case <-ctx.Done():
		}
	}
}

// drainPatience bounds the wait of a query for the ledger to have what a node gave.
const drainPatience = 500 * time.Millisecond

// shorten leaves the newest claims of a page that have no more bytes than a page may have: payloads
// make them larger.
func shorten(a *Answer) {
	size := int64(0)
	for i, c := range slices.Backward(a.Claims) {
		if size += c.Size(); size > shard.PageBytes && i < len(a.Claims)-1 {
			a.Claims = a.Claims[i+1:]
			a.Next = a.Claims[0].ID.String()
			return
		}
	}
}

// asyncRequest is a request without a waiting goroutine: it calls answered with the answer. Each of
// the two shells decides when.
type asyncRequest struct {
	shell    asyncShell
	changed  int // how often the rules have changed since it was first admitted
	ticket   *shard.Ticket
	session  *session // under which it came
	answered func(Answer)

	state   atomic.Int32
	givenUp atomic.Bool // nobody waits for it any more
	cancel  context.CancelFunc
}

// asyncShell is what a shell does for asynchronous requests.
type asyncShell interface {
	// ticketAnswered takes in that the ticket has its answer. The shell calls deliver, at once or later.
	ticketAnswered(x *asyncRequest)
	// repeat has a request decided again, by other rules than those that had admitted it.
	repeat(x *asyncRequest)
}

// The states of an asyncRequest.
const (
	asyncWaiting  int32 = iota
	asyncAnswered       // its ticket is, and whoever asked was not told yet
	asyncBlocking       // a goroutine waits for it after all, until cancel ends that
	asyncDone           // whoever asked was told something
)

// waitFor sets the ticket of the request, before the ticket can be answered.
func (x *asyncRequest) waitFor(t *shard.Ticket, under *session) {
	if x == nil {
		return
	}
	if under.packets != nil {
		under.packets() // they are computed here, and not where the answer is delivered
	}
	x.ticket, x.session = t, under
	t.OnAnswer(x)
}

// Answered is shard.Waiter's.
func (x *asyncRequest) Answered() {
	if x.state.CompareAndSwap(asyncWaiting, asyncAnswered) {
		x.shell.ticketAnswered(x)
	}
}

// deliver calls answered with the answer of the ticket, unless it was called before.
func (x *asyncRequest) deliver() {
	if x.state.Load() != asyncAnswered {
		return
	}
	if x.ticket.OtherRules() && x.changed < mostRuleChanges {
		x.changed++
		x.shell.repeat(x)
		return
	}
	x.finish(x.ticket.Finish())
}

// giveUp ends the wait: answered is called without an answer, unless it was called before.
func (x *asyncRequest) giveUp() {
	x.givenUp.Store(true)
	if x.state.CompareAndSwap(asyncWaiting, asyncDone) {
		x.reply(x.ticket.GiveUp())
		return
	}
	if x.state.Load() == asyncBlocking {
		x.cancel()
	}
}

// finish calls answered with an answer.
func (x *asyncRequest) finish(a Answer) {
	x.state.Store(asyncDone)
	x.reply(a)
}

func (x *asyncRequest) reply(a Answer) {
	x.session.completeAnswer(&a)
	x.answered(a)
}

// ticketAnswered is asyncShell's.
func (e *Executor) ticketAnswered(x *asyncRequest) { x.deliver() }

// repeat is asyncShell's. The caller must not wait, and the rules may have to read from a store.
func (e *Executor) repeat(x *asyncRequest) {
	before, changed := x.ticket, x.changed
	e.block(x, func(ctx context.Context) Answer { return e.doAgain(ctx, before, changed) })
}

// block has a goroutine wait for the answer.
func (e *Executor) block(x *asyncRequest, do func(context.Context) Answer) {
	var ctx context.Context
	ctx, x.cancel = context.WithCancel(context.Background())
	x.state.Store(asyncBlocking)
	if x.givenUp.Load() {
		x.cancel()
	}
	x.session = nil // do completes the answer
	go func() {
		defer x.cancel()
		x.finish(do(ctx))
	}()
}
