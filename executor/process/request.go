package process

import (
	"context"

	"salectl/executor/request"
)

// Do sets the answer to a request in a, which is zero. It returns when the answer is durable, or when ctx has
// ended: then with Unknown if a claim may yet be accepted, or a settlement may yet be done.
func (d *Admission) Do(ctx context.Context, r *request.Request, a *request.Answer) {
	if ticket, t := d.admit(ctx, d.clock(), r, nil, a); ticket != nil {
		d.wait(ctx, ticket, t, 0, a)
	}
}

// doAgain is Do for a request during which the rules have changed so often already, the last time
// under the ticket before.
func (d *Admission) doAgain(ctx context.Context, before *request.Ticket, changed int, a *request.Answer) {
	if ticket, t := d.admitAgain(ctx, d.clock(), before, nil, a); ticket != nil {
		d.wait(ctx, ticket, t, changed, a)
	}
}

// wait sets in a the answer to a request that was queued.
func (d *Admission) wait(ctx context.Context, ticket *request.Ticket, t *session, changed int, a *request.Answer) {
	switch {
	case !ticket.Await(ctx):
		*a = ticket.GiveUp()
	case ticket.Answer.OtherRules && changed < mostRuleChanges:
		*a = request.Answer{}
		d.doAgain(ctx, ticket, changed+1, a)
		return
	default:
		*a = ticket.Finish()
	}
	t.completeAnswer(a)
}

// Blocks reports whether a request waits for a store or a node before it is admitted. It is safe for
// concurrent use.
func (m *Machine) Blocks(r *request.Request) bool {
	t := m.serving.Load()
	switch {
	case t == nil || r.Settle != nil:
		return false
	case r.Query != nil:
		return len(t.batchers) > 0
	case len(r.Names) > 0:
		return true
	}
	e := t.eligibility.Load()
	return e != nil && e.users.blocks(r.User)
}

// Drained returns a channel that is closed when the ledger has the units of a shard's list that a query
// is about, if the shard is this process's. nil: the query need not wait. It is safe for concurrent use.
func (m *Machine) Drained(r *request.Request) <-chan struct{} {
	t := m.serving.Load()
	if t == nil || len(t.batchers) == 0 || r.Query == nil || r.Query.User == "" && r.Query.Claim.Unit == 0 {
		return nil
	}
	i, ok := r.Home(len(t.shards))
	if !ok {
		return nil
	}
	if s := t.local(i); s != nil {
		return s.Drain()
	}
	return nil
}

// Refuse returns the answer to a request that is refused without a look-up of its key; but Unknown, or
// the claim, where Decline has it. It is safe for concurrent use.
func (m *Machine) Refuse(r request.Request, a request.Answer) request.Answer { return m.refuse(&r, a) }

// Begin admits the request.
func (p *Pending) Begin(r request.Request) {
	var a request.Answer
	if ticket, _ := p.m.admit(context.Background(), p.m.clock(), &r, p, &a); ticket == nil {
		p.finish(a)
	}
}

// Repeat admits a request again of which Config.Repeat was called.
func (p *Pending) Repeat() {
	p.state.Store(pendingWaiting)
	var a request.Answer
	if ticket, _ := p.m.admitAgain(context.Background(), p.m.clock(), p.ticket, p, &a); ticket == nil {
		p.finish(a)
	}
}

// DoAgain is Repeat that waits for the answer, for a blocked request.
func (p *Pending) DoAgain(ctx context.Context) (a request.Answer) {
	p.m.doAgain(ctx, p.ticket, p.changed, &a)
	return a
}
