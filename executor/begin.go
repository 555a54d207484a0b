package executor

import (
	"context"
	"sync/atomic"

	"salectl/executor/shard"
)

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

// Begin is Service's.
func (e *Executor) Begin(r Request, answered func(Answer)) (giveUp func()) {
	x := &asyncRequest{shell: e, answered: e.payloads.adding(answered)}
	if !e.prompt(r.User) || len(r.Names) > 0 {
		e.block(x, func(ctx context.Context) Answer { return e.claim(ctx, r) })
		return x.giveUp
	}
	if a, ticket, _ := e.admit(context.Background(), e.cfg.Clock(), r, x); ticket == nil {
		x.finish(a)
	}
	return x.giveUp
}

// ticketAnswered is asyncShell's.
func (e *Executor) ticketAnswered(x *asyncRequest) { x.deliver() }

// repeat is asyncShell's. The caller must not wait, and the rules may have to read from a store.
func (e *Executor) repeat(x *asyncRequest) {
	before, changed := x.ticket, x.changed
	e.block(x, func(ctx context.Context) Answer { return e.claimAgain(ctx, before, changed) })
}

// block has a goroutine wait for the answer.
func (e *Executor) block(x *asyncRequest, claim func(context.Context) Answer) {
	var ctx context.Context
	ctx, x.cancel = context.WithCancel(context.Background())
	x.state.Store(asyncBlocking)
	if x.givenUp.Load() {
		x.cancel()
	}
	x.session = nil // claim completes the answer
	go func() {
		defer x.cancel()
		x.finish(claim(ctx))
	}()
}

// prompt reports whether a request of a user can be decided without reading the user from a store.
func (d *admission) prompt(user string) bool {
	t := d.serving.Load()
	if t == nil {
		return true
	}
	e := t.eligibility.Load()
	return e == nil || e.users.prompt(user)
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
