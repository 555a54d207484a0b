package executor

import (
	"context"
	"sync/atomic"

	"salectl/executor/shard"
)

// ask is a request for which no goroutine waits: whoever asked is told the answer. Both
// shells are asked this way, and each says when the answer is told.
type ask struct {
	shell    asker
	changed  int // how often the rules have, since it was let in first
	ticket   *shard.Ticket
	session  *session // under which it came
	answered func(Answer)

	state   atomic.Int32
	unasked atomic.Bool // nobody waits for it any more
	cancel  context.CancelFunc
}

// asker is what a shell has to do for those who ask.
type asker interface {
	// there says that a ticket's answer is: tell is to be called, at once or later.
	there(x *ask)
	// again has a request decided anew, by other rules than those that had let it in.
	again(x *ask)
}

// The states of an ask.
const (
	askWaits     int32 = iota
	askAnswered        // its ticket is, and whoever asked was not told yet
	askElsewhere       // a goroutine waits for it after all, until cancel ends that
	askOver            // whoever asked was told something
)

// waits says under which ticket the request waits, before anybody may answer it.
func (x *ask) waits(t *shard.Ticket, under *session) {
	if x == nil {
		return
	}
	if under.packets != nil {
		under.packets() // they are dealt here, and not where the answer is told
	}
	x.ticket, x.session = t, under
	t.OnAnswer(x)
}

// Answered is shard.Waiter's.
func (x *ask) Answered() {
	if x.state.CompareAndSwap(askWaits, askAnswered) {
		x.shell.there(x)
	}
}

// tell tells whoever asked the answer, if that was not told anything yet.
func (x *ask) tell() {
	if x.state.Load() != askAnswered {
		return
	}
	if x.ticket.OtherRules() && x.changed < mostRuleChanges {
		x.changed++
		x.shell.again(x)
		return
	}
	x.end(x.ticket.Finish())
}

// giveUp is for whoever waits no longer: who asked is told that there is no answer, if that
// was not told one.
func (x *ask) giveUp() {
	x.unasked.Store(true)
	if x.state.CompareAndSwap(askWaits, askOver) {
		x.told(x.ticket.GiveUp())
		return
	}
	if x.state.Load() == askElsewhere {
		x.cancel()
	}
}

// end tells whoever asked.
func (x *ask) end(a Answer) {
	x.state.Store(askOver)
	x.told(a)
}

func (x *ask) told(a Answer) {
	x.session.price(&a)
	x.answered(a)
}

// Begin is Service's.
func (e *Executor) Begin(r Request, answered func(Answer)) (giveUp func()) {
	x := &ask{shell: e, answered: e.payloads.adding(answered)}
	if !e.prompt(r.User) || len(r.Names) > 0 {
		e.elsewhere(x, func(ctx context.Context) Answer { return e.claim(ctx, r) })
		return x.giveUp
	}
	if a, ticket, _ := e.admit(context.Background(), e.cfg.Clock(), r, x); ticket == nil {
		x.end(a)
	}
	return x.giveUp
}

// there is asker's.
func (e *Executor) there(x *ask) { x.tell() }

// again is asker's. Whoever answers must not wait, and a store may have to be asked.
func (e *Executor) again(x *ask) {
	before, changed := x.ticket, x.changed
	e.elsewhere(x, func(ctx context.Context) Answer { return e.claimAgain(ctx, before, changed) })
}

// elsewhere has a goroutine wait for a request. It ends when who asked was told.
func (e *Executor) elsewhere(x *ask, claim func(context.Context) Answer) {
	var ctx context.Context
	ctx, x.cancel = context.WithCancel(context.Background())
	x.state.Store(askElsewhere)
	if x.unasked.Load() {
		x.cancel()
	}
	x.session = nil // the answer has its price
	go func() {
		defer x.cancel()
		x.end(claim(ctx))
	}()
}

// prompt says whether a request of a user is decided on without asking a store about the
// user first.
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
