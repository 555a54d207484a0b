package sim

import (
	"slices"
	"time"

	"salectl/spec"
)

// notJoint is a stream under which the file of no sale of TestWorldsThatFailed changes in several
// ways at once: those worlds are as they were when they failed.
const notJoint = 7

// edit changes one thing in the file of a sale, if it has that.
type edit struct {
	what string
	do   func(o *operators, r random, c *command) (changed bool)
}

// edits are the changes that come together in one generation.
var edits = []edit{
	{"closesAt", func(o *operators, r random, _ *command) bool {
		if o.w.scenario.drawn != nil {
			o.hours.closes += r.between(-2*time.Second, 2*time.Second)
			return true
		}
		o.hours.closes = max(o.hours.opens+time.Millisecond, o.w.now+r.between(-time.Second, 8*time.Second))
		return true
	}},
	{"perUserLimit", func(o *operators, r random, _ *command) bool {
		s := &o.w.scenario
		if s.lists != nil || s.drawn != nil {
			return false
		}
		s.perUser = 1 + r.Int64N(3)
		return true
	}},
	{"payment", func(o *operators, r random, _ *command) bool {
		s := &o.w.scenario
		if s.payment == nil {
			return false
		}
		p := *s.payment
		p.HoldFor, p.Grace = spec.Duration(r.spread(spec.MinHold, 6*time.Second).Truncate(time.Millisecond)), spec.Duration(pick(r, 0, 500*time.Millisecond, 3*time.Second))
		if s.drawn == nil {
			p.Late = pick(r, spec.LateRefuse, spec.LateResell)
		}
		p.UnpaidPerUser = pick[int64](r, 1, 2, spec.DefaultUnpaid)
		s.payment = &p
		return true
	}},
	{"partial", func(o *operators, _ random, _ *command) bool {
		p := o.w.scenario.partial
		if p != nil {
			p.now = !p.now
		}
		return p != nil
	}},
	{"phase", func(o *operators, r random, _ *command) bool {
		p := o.w.scenario.phased
		if p != nil && p.now != spec.PhaseClosed {
			p.now = pick(r, "", spec.PhaseOpen, spec.PhasePaused)
		}
		return p != nil
	}},
	{"rules", func(o *operators, r random, _ *command) bool {
		rs := o.w.scenario.ruled
		if rs == nil {
			return false
		}
		rs.least = pick(r, noRules, 0, 1, 2)
		return true
	}},
	{"sources", func(o *operators, _ random, _ *command) bool {
		rs := o.w.scenario.ruled
		if rs == nil || rs.sources == nil {
			return false
		}
		rs.sources.change()
		return true
	}},
	{"stock", func(o *operators, r random, c *command) bool {
		if o.w.scenario.dealt() {
			return false
		}
		c.stock = max(int64(o.w.scenario.shards), c.stock+r.Int64N(11)-5)
		return true
	}},
}

// scheduleJoint has the file of some sales change in two or three ways at once, and some of the
// shards or their owners lag behind just then.
func (o *operators) scheduleJoint(r random) {
	if !r.chance(0.2) {
		return
	}
	for range 1 + r.IntN(3) {
		o.w.at(r.between(o.w.Until/10, o.w.Until), func() {
			if o.w.calm || o.ending || o.closing {
				return
			}
			c := command{kind: apply, stock: o.w.scenario.stock, runs: 3}
			var changed []string
			for _, i := range r.Perm(len(edits)) {
				if len(changed) < 2+r.IntN(2) && edits[i].do(o, r, &c) {
					changed = append(changed, edits[i].what)
				}
			}
			slices.Sort(changed)
			for i, a := range changed {
				for _, b := range changed[i+1:] {
					o.w.hit("changed at once: " + a + " and " + b)
				}
			}
			o.w.lagBehind(r)
			o.run(c, func() {})
		})
	}
	if o.w.scenario.timetable == nil {
		o.w.at(o.w.Until, func() { o.hours = hours{} })
	}
}

// lagBehind has some owners stand still, or the store be slow, so that shards take a generation
// long after each other.
func (w *world) lagBehind(r random) {
	switch r.IntN(3) {
	case 0:
		e := w.server(r)
		if w.fault("world", "executor paused amid changes") {
			e.pause(r.spread(200*time.Millisecond, 2*w.scenario.ttl), false)
		}
	case 1:
		if w.fault("world", "store slow amid changes") {
			w.store.slowDown(r.spread(100*time.Millisecond, time.Second), r.spread(500*time.Millisecond, 5*time.Second))
		}
	}
}
