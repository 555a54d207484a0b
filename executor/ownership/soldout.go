package ownership

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor/shard"
)

// collection is a read of all shards at one instant, for the proof that all is sold: see
// shard.SaleTotals.NeedsProof.
type collection struct {
	handover *handover
	totals   *shard.SaleTotals // of the session

	number uint64
	at     time.Duration // monotonic: when peers were sent the request; 0: no collection is in progress
	began  clock.Now
	slots  []uint64
	same   []bool // by shard: its owner has confirmed the slot
}

// collectAgain is how long the replies of peers to a collection are waited for.
const collectAgain = 200 * time.Millisecond

// sureReports is how the shards stand of which this process has the lease now: of another
// it might not have heard that somebody else owns it.
func (c *collection) sureReports(now clock.Now) []shard.Report {
	return slices.DeleteFunc(c.totals.Reports(make(map[int]uint64)), func(r shard.Report) bool { return !c.has(now, r.Shard) })
}

// has reports whether this process owns a shard at an instant.
func (c *collection) has(now clock.Now, i int) bool {
	return c.handover.all[i].stage == owned && c.handover.leases.Validity(c.handover.keys[i]).At(now)
}

// owns is what this process owns.
func (c *collection) owns() *Owned {
	owns := &Owned{}
	for _, r := range c.totals.Reports(make(map[int]uint64)) {
		if c.handover.all[r.Shard].stage == owned {
			owns.Shards = append(owns.Shards, r.Shard)
			owns.Epochs = append(owns.Epochs, r.Totals.Epoch)
		}
	}
	return owns
}

// proveSoldOut requests reports of all shards from their owners, if all units seem to be sold.
func (c *collection) proveSoldOut(now clock.Now) {
	for i, id := range c.handover.peers.holder {
		if !c.has(now, i) && !c.handover.peers.isUp(now, id) {
			c.totals.ForgetProof() // what it owned may have changed
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
	*c = collection{handover: c.handover, totals: c.totals, number: c.number + 1, at: now.Mono, began: now, slots: slots, same: make([]bool, len(slots))}
	asked := make(map[string]bool)
	for i, id := range c.handover.peers.holder {
		switch {
		case c.has(now, i):
			c.same[i] = true // or settle finds that it is not
		case !asked[id]:
			asked[id] = true
			c.handover.send(id, &PeerUpdate{ProofRequest: c.number})
		}
	}
}

// collect takes in how the shards of a peer stand, which was asked.
func (c *collection) collect(n uint64, reports []shard.Report) {
	if c.at == 0 || n != c.number {
		return
	}
	for _, r := range reports {
		if r.Shard >= 0 && r.Shard < len(c.slots) && r.Next == c.slots[r.Shard] {
			c.same[r.Shard] = true
		}
	}
	if !slices.Contains(c.same, false) {
		c.totals.SetProof(c.slots, c.began)
		c.at = 0
	}
}
