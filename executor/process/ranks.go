package process

import (
	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/request"
	"salectl/executor/shard"
)

// ranks are those of a draw, once all are published.
type ranks struct {
	shards []shard.Ranked // by shard
	has    map[request.ClaimID]bool
}

func ranksOf(sale *ledger.Sale) *ranks {
	r := &ranks{shards: make([]shard.Ranked, sale.Shards()), has: make(map[request.ClaimID]bool, len(sale.Ranks()))}
	for i, at := range sale.Ranks() {
		r.shards[at.Shard] = append(r.shards[at.Shard], shard.Award{Rank: int64(i) + 1, Slot: at.Slot, Index: at.Index})
		r.has[request.ClaimID{Shard: at.Shard, Slot: at.Slot, Index: at.Index}] = true
	}
	return r
}

// followDraw updates the status of a draw by the sale's log.
func (t *session) followDraw(sale *ledger.Sale) {
	if sale.Draw() != nil && sale.Next() != t.drawnAt {
		t.drawnAt = sale.Next()
		t.drawn.Store(ledger.DrawStatus(sale))
	}
}

// markNotDrawn corrects the state of entries that have no rank: they have not won. Those with a rank
// that has no unit may yet get one.
func (r *ranks) markNotDrawn(a *request.Answer) {
	if a.Outcome == api.Entered && !r.has[a.Claim.ID] {
		a.Outcome = api.NotDrawn
	}
	r.markClaim(&a.Claim)
	for i := range a.Claims {
		r.markClaim(&a.Claims[i])
	}
}

func (r *ranks) markClaim(c *request.Claim) {
	if c.State == api.Entered && !r.has[c.ID] {
		c.State = api.NotDrawn
	}
}
