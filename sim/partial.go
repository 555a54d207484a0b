package sim

import (
	"slices"
	"time"

	"salectl/spec"
)

// whole is a stream under which no sale of TestWorldsThatFailed is partial: those worlds
// are as they were when they failed.
const whole = 41

// partial is whether claims for more than there is get what there is, and how that changes.
type partial struct {
	now     bool
	changes []time.Duration // each makes it the other
}

// drawPartial has claims of some sales get a part. All else stays as it was drawn.
func (s *scenario) drawPartial(r random, until time.Duration) {
	if s.lists != nil || !r.chance(0.25) {
		return
	}
	p := &partial{now: r.chance(0.8)}
	for range r.IntN(4) {
		p.changes = append(p.changes, r.between(until/10, until))
	}
	slices.Sort(p.changes)
	s.partial = p
}

// declare puts it into a sale's file.
func (p *partial) declare(s *spec.Sale) { s.Partial = p != nil && p.now }

// schedulePartial has the operators declare it, each time that it changes.
func (o *operators) schedulePartial() {
	p := o.w.scenario.partial
	if p == nil {
		return
	}
	for _, at := range p.changes {
		o.w.at(at, func() {
			p.now = !p.now
			if at < o.w.Until && !o.w.calm { // else whatever comes next declares it
				o.w.hit("partial changed")
				o.run(command{kind: apply, stock: o.w.scenario.stock, runs: 3}, func() {})
			}
		})
	}
}

// more is how many units a claim requests beyond what is usual, in a sale whose claims may
// get a part.
func (w *world) more() int64 {
	if w.scenario.partial == nil {
		return 0
	}
	return w.random.parts.Int64N(4)
}
