package executor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
)

// Find is Service's.
func (e *Executor) Find(ctx context.Context, id ClaimID, p api.Page) (Claim, api.Outcome) {
	if id.Unit != 0 {
		e.drained(ctx, id.Shard)
	}
	c, why, here := e.find(e.cfg.Clock(), id, p)
	a := Answer{Claim: c, Outcome: why}
	if !here {
		a = e.await(ctx, func(answered func(Answer)) func() { return e.queryClaim(id, p, answered) })
	}
	e.payloads.addNow(ctx, &a)
	return a.Claim, a.Outcome
}

// fit leaves the newest claims of a page that have no more bytes than a page may have: what their
// units are makes them larger. An owner of an older version may have returned all of the user's.
func fit(a *Answer, p api.Page) {
	all := a.Claims
	if i := slices.IndexFunc(all, func(c Claim) bool { return c.ID.String() == p.Before }); i >= 0 {
		all = all[:i]
	}
	from, size := len(all), int64(0)
	for from > 0 && len(all)-from < cmp.Or(p.Limit, api.DefaultClaims) {
		if size += all[from-1].Size(); size > shard.PageBytes && from < len(all) {
			break
		}
		from--
	}
	if a.Claims = all[from:]; from > 0 {
		a.Next = a.Claims[0].ID.String()
	}
}

// await waits for the answer of a peer to a lookup, for a while.
func (e *Executor) await(ctx context.Context, ask func(answered func(Answer)) (forget func())) Answer {
	got := make(chan Answer, 1)
	forget := ask(func(a Answer) { got <- a })
	select {
	case a := <-got:
		return a
	case <-time.After(peerPatience):
	case <-ctx.Done():
	}
	forget()
	return Answer{Outcome: api.Standby}
}

// peerPatience is how long a peer is waited for that is asked for a claim.
const peerPatience = time.Second

// Find is Service's, at a time, for a claim of a shard that this process owns.
func (p *Stepped) Find(now clock.Now, id ClaimID) (Claim, api.Outcome) {
	c, why, _ := p.find(now, id, api.Page{})
	return c, why
}

// find returns one claim of a shard of this process; here: it is one.
func (d *admission) find(now clock.Now, id ClaimID, p api.Page) (c Claim, why api.Outcome, here bool) {
	t := d.serving.Load()
	switch {
	case t == nil:
		return Claim{}, d.away.Load().Outcome, true
	case id.Shard >= len(t.shards):
		return Claim{}, api.NoSuchClaim, true
	}
	s := t.local(id.Shard)
	switch {
	case s == nil:
		return Claim{}, d.notHere(), !d.links.any()
	case !s.May(now):
		return Claim{}, api.NoQuorum, !d.links.any()
	case !s.Serves():
		return Claim{}, api.Standby, true // it may not have read all of its log yet
	}
	c, why = s.Find(id, p)
	return c, why, true
}
