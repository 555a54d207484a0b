package feed

import (
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
)

// Next returns the calls to make now, and the monotonic time of the next call of Next, 0 for none
// before another input. Call it after every input. When done is true, Take returns at most one more
// batch. err is nil if the sale ended, or the reason why the feed cannot continue.
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

// step starts the next round: it queues calls or enters the next stage.
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
	case r.behind():
		r.read()
	default:
		r.heads()
	}
}

// endRound ends a round, after all its calls are answered.
func (r *Reader) endRound(now clock.Now) {
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
	case r.failed == nil && r.sale.read && !r.behind():
		r.due = now.Mono + idle
	}
}
