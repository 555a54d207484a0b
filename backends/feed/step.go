package feed

import (
	"slices"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
)

// Next returns what is to be done after any input: the calls to make now, and when to go on by
// the monotonic clock, 0 for no need. When it is done there is no batch any more but the one
// that Take may still return; err says why if it was not the end of the sale.
func (r *Reader) Next(now clock.Now) (made []calls.Call, wake time.Duration, done bool, err error) {
	for !r.done && r.under == 0 && r.batch == nil && now.Mono >= r.due {
		r.step(now)
	}
	made, r.calls = r.calls, nil
	if r.under > 0 || r.batch != nil || r.done {
		return made, 0, r.done, r.err
	}
	return made, r.due, false, nil
}

// step does what comes next: it asks for calls, or goes on to the next stage.
func (r *Reader) step(now clock.Now) {
	r.round++
	r.endShards()
	switch {
	case !r.sale.read:
		r.readSale()
	case r.shards == nil:
		r.open(now)
	case !r.placed():
		r.place(now)
	case slices.ContainsFunc(r.shards, func(s *shardLog) bool { return s.behind }):
		r.read()
	default:
		r.heads()
	}
}

// rounded goes on when all calls of a round were answered.
func (r *Reader) rounded(now clock.Now) {
	r.failed, r.broken = r.broken, nil
	if r.failed == nil {
		r.tries = 0
	} else {
		r.tries++
		r.due = now.Mono + min(soon<<min(r.tries, 10), lastPause)
	}
	if r.shards == nil || !r.placed() {
		return
	}
	if r.generation > r.sale.fold.Generation() {
		r.sale.read = false
		return
	}
	if r.failed == nil {
		r.tellSale()
	}
	switch {
	case r.slots > 0, r.failed == nil && (r.told == 0 || now.Mono-r.told >= still):
		r.make(now)
	case r.failed == nil && r.sale.read && !slices.ContainsFunc(r.shards, func(s *shardLog) bool { return s.behind }):
		r.due = now.Mono + idle
	}
}
