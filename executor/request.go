package executor

import (
	"context"
	"slices"
	"time"

	"salectl/executor/request"
)

// Do is Service's.
func (e *Executor) Do(ctx context.Context, r Request) (a Answer) {
	e.do(ctx, &r, &a)
	if r.Query != nil {
		e.payloads.addNow(ctx, &a)
		shorten(&a)
	} else {
		e.payloads.add(ctx, &a)
	}
	return a
}

// Begin is Service's.
func (e *Executor) Begin(r Request, answered func(Answer)) (cancel func()) {
	if r.Query != nil {
		whole := answered
		answered = func(a Answer) {
			shorten(&a)
			whole(a)
		}
	}
	answered = e.payloads.adding(answered)
	if e.machine.Blocks(&r) {
		ctx, cancel := context.WithCancel(context.Background())
		own, deliver := r, answered // so that they do not escape otherwise
		go func() {
			defer cancel()
			var a Answer
			e.do(ctx, &own, &a)
			deliver(a)
		}()
		return cancel
	}
	if p := e.machine.Begin(r, answered); p != nil {
		return p.Cancel
	}
	return func() {}
}

// do sets the answer to a request in a, which is zero, without the payloads of its units.
func (e *Executor) do(ctx context.Context, r *Request, a *Answer) {
	if len(r.Names) > 0 {
		absent, away := e.machine.Away()
		if away { // what was read in an earlier session may be old
			*a = e.Refuse(*r, absent)
			return
		}
		if no := e.payloads.choose(ctx, r, &absent); no.Outcome != "" {
			*a = e.Refuse(*r, no)
			return
		}
	}
	e.drained(ctx, r)
	e.Admission.Do(ctx, r, a)
}

// drained waits until the ledger has the units of a shard's list that a query is about.
func (e *Executor) drained(ctx context.Context, r *Request) {
	if drained := e.machine.Drained(r); drained != nil {
		select {
		case <-drained:
		case <-time.After(drainPatience):
		case <-ctx.Done():
		}
	}
}

// drainPatience bounds the wait of a query for the ledger to have the units that a node granted.
const drainPatience = 500 * time.Millisecond

// shorten leaves the newest claims of a page that have no more bytes than a page may have: payloads
// make them larger.
func shorten(a *Answer) {
	size := int64(0)
	for i, c := range slices.Backward(a.Claims) {
		if size += c.Size(); size > request.PageBytes && i < len(a.Claims)-1 {
			a.Claims = a.Claims[i+1:]
			a.Next = a.Claims[0].ID.String()
			return
		}
	}
}
