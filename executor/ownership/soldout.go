package ownership

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor/shard"
)

// collection is a read of all shards at one instant, to prove that all units are sold: see
// shard.SaleTotals.NeedsProof.
type collection struct {
	handover *handover
	totals   *shard.SaleTotals // of the session

	number    uint64
	at        time.Duration // monotonic: time of the request to peers; 0: no collection is in progress
	began     clock.Now
	slots     []uint64
	confirmed []bool // by shard: its owner has confirmed the slot
}

// collectAgain is the timeout of a collection, after which another begins.
const collectAgain = 200 * time.Millisecond

// sureReports returns the reports of the shards whose leases this process has now. For any other
// shard a new owner might be unknown here.
func (c *collection) sureReports(now clock.Now) []shard.Report {
	return slices.DeleteFunc(c.totals.Reports(make(map[int]uint64)), func(r shard.Report) bool { return !c.has(now, r.Shard) })
}

// has reports whether this process owns a shard at an instant.
func (c *collection) has(now clock.Now, i int) bool {
	return c.handover.all[i].stage == owned && c.handover.leases.Validity(c.handover.keys[i]).At(now)
}

// owns returns the epochs of the logs of the shards that this process owns.
func (c *collection) owns() map[int]uint64 {
	owns := make(map[int]uint64)
	for _, r := range c.totals.Reports(make(map[int]uint64)) {
		if c.handover.all[r.Shard].stage == owned {
			owns[r.Shard] = r.Totals.Epoch
		}
	}
	return owns
}

// proveSoldOut requests reports of all shards from their owners if all units seem to be sold.
func (c *collection) proveSoldOut(now clock.Now) {
	for i, id := range c.handover.peers.holder {
		if !c.has(now, i) && !c.handover.peers.isUp(now, id) {
			c.totals.ForgetProof() // the state of its shards may have changed
			c.at = 0
			return
		}
	}
	slots, unsure := c.totals.NeedsProof(now)
	switch {
	case !unsure:
		return
	case c.at != 0 && now.Mono < c.at+collectAgain:
		return
	}
	*c = collection{handover: c.handover, totals: c.totals, number: c.number + 1, at: now.Mono, began: now, slots: slots, confirmed: make([]bool, len(slots))}
	requested := make(map[string]bool)
	for i, id := range c.handover.peers.holder {
		switch {
		case c.has(now, i):
			c.confirmed[i] = true // SetProof compares the slot again
		case !requested[id]:
			requested[id] = true
			c.handover.send(id, &PeerUpdate{ProofRequest: c.number})
		}
	}
}

// collect processes a peer's reports for collection n.
func (c *collection) collect(n uint64, reports []shard.Report) {
	if c.at == 0 || n != c.number {
		return
	}
	for _, r := range reports {
		if r.Shard >= 0 && r.Shard < len(c.slots) && r.Next == c.slots[r.Shard] {
			c.confirmed[r.Shard] = true
		}
	}
	if !slices.Contains(c.confirmed, false) {
		c.totals.SetProof(c.slots, c.began)
		c.at = 0
	}
}
