package executor

import (
	"salectl/api"
	"salectl/backends/clock"
)

// Find is Service's.
func (e *Executor) Find(id ClaimID) (Claim, api.Outcome) { return e.find(e.cfg.Clock(), id) }

// Find is Service's, at a time.
func (p *Stepped) Find(now clock.Now, id ClaimID) (Claim, api.Outcome) { return p.find(now, id) }

// find returns one claim. It knows no claim by the unit that a node gave it with: there
// is no index of those.
func (d *admission) find(now clock.Now, id ClaimID) (Claim, api.Outcome) {
	t := d.tenure.Load()
	if t == nil {
		return Claim{}, d.away.Load().Outcome
	}
	if rights := t.rights.Load(); rights == nil || !rights.Valid(now) {
		return Claim{}, api.NoQuorum
	}
	if id.Shard >= len(t.shards) || id.Unit != 0 {
		return Claim{}, api.NoSuchClaim
	}
	s := t.shards[id.Shard]
	if !s.Serves() {
		return Claim{}, api.Standby // it may not have read all of its log yet
	}
	c, ok := s.Find(id)
	if !ok {
		return Claim{}, api.NoSuchClaim
	}
	return c, ""
}
