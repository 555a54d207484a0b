package process

import (
	"time"

	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/spec"
)

// HoldsSeen is a position in the holds of a sale. The zero value is before all of them.
type HoldsSeen struct {
	session *session
	shards  []shardSeen
}

// shardSeen is a position in the holds of a shard.
type shardSeen struct {
	shard *shard.Shard // nil: it is another process's
	next  int          // the claim to go on with
}

// holdsAtOnce is how many claims of a shard are read under its lock: it takes some hundred
// microseconds, during which no commit is applied.
const holdsAtOnce = 256

// NewHolds returns claims behind seen that are held, or that have expired or were cancelled and whose
// release is after since, and advances seen. It reads a bounded number of claims of each shard, so that
// no shard waits for long: more reports that there are others to read. anew reports that this process
// has begun to serve the sale, or has stopped: what was read before is void.
func (d *Admission) NewHolds(seen *HoldsSeen, since time.Time) (holds []shard.Hold, anew, more bool) {
	t := d.serving.Load()
	if t != seen.session {
		anew = true
		*seen = HoldsSeen{session: t}
		if t != nil {
			seen.shards = make([]shardSeen, len(t.shards))
		}
	}
	for i := range seen.shards {
		x := &seen.shards[i]
		if s := t.local(i); s != x.shard {
			*x = shardSeen{shard: s}
		}
		if x.shard == nil || !x.shard.Serves() {
			continue // it may not have read all of its log yet
		}
		some, next := x.shard.HoldsFrom(x.next, holdsAtOnce, since)
		more = more || next-x.next == holdsAtOnce
		holds, x.next = append(holds, some...), next
	}
	return holds, anew, more
}

// Unpaid returns a claim as the ledger has it, if it is held, has expired or was cancelled,
// and this process serves the sale.
func (d *Admission) Unpaid(id request.ClaimID) (shard.Hold, bool) {
	t := d.serving.Load()
	if t == nil || id.Shard >= len(t.shards) || id.Unit != 0 {
		return shard.Hold{}, false
	}
	s := t.local(id.Shard)
	if s == nil || !s.Serves() {
		return shard.Hold{}, false
	}
	return s.Unpaid(id)
}

// Declared returns what the newest generation declares, if this process serves the sale. Otherwise
// it returns false, and what the run had declared whose end this process has seen, if it has.
func (d *Admission) Declared() (spec.Sale, bool) {
	t, sold := d.serving.Load(), d.sold.Load()
	switch {
	case t == nil && sold != nil:
		return *sold, false
	case t == nil:
		return spec.Sale{}, false
	}
	return *t.declared.Load(), true
}
