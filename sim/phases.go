package sim

import (
	"slices"
	"time"

	"salectl/spec"
)

// unphased is a stream under which no sale of TestWorldsThatFailed declares its phase: those
// worlds are as they were when they failed.
const unphased = 53

// phased is the phase that a sale's file declares, and how that changes.
type phased struct {
	now     spec.Phase
	changes []phaseChange
}

// phaseChange is a file that declares another phase, "": none.
type phaseChange struct {
	at time.Duration
	to spec.Phase
}

// drawPhases has the files of some sales declare the phase. Operators set it by hand all the
// same. All else stays as it was drawn.
func (s *scenario) drawPhases(r random, until time.Duration) {
	if !r.chance(0.2) {
		return
	}
	p := &phased{now: pick(r, "", spec.PhaseOpen, spec.PhasePaused)}
	for range 1 + r.IntN(4) {
		p.changes = append(p.changes, phaseChange{r.between(until/10, until), pick(r, "", spec.PhaseOpen, spec.PhaseOpen, spec.PhasePaused)})
	}
	slices.SortFunc(p.changes, func(a, b phaseChange) int { return int(a.at - b.at) })
	if last := &p.changes[len(p.changes)-1]; s.drawn == nil && last.at > until/2 && r.chance(0.2) {
		last.to = spec.PhaseClosed
	}
	s.phased = p
}

// schedulePhases has the operators declare the phases, each when its time comes.
func (o *operators) schedulePhases() {
	p := o.w.scenario.phased
	if p == nil {
		return
	}
	for _, c := range p.changes {
		o.w.at(c.at, func() {
			if o.w.calm || o.number > 1 && c.to == spec.PhaseClosed {
				return
			}
			p.now = c.to
			o.closing = o.closing || c.to == spec.PhaseClosed
			o.w.hit("phase declared")
			o.run(command{kind: apply, stock: o.w.scenario.stock, runs: 3}, func() {})
		})
	}
}

// settlePhase brings a sale whose file declares the phase to where it is to end: closed if that
// was begun, else open.
func (o *operators) settlePhase(then func()) {
	p := o.w.scenario.phased
	if !o.closing {
		p.now = spec.PhaseOpen
		o.insist(command{kind: apply, stock: o.most}, then)
		return
	}
	p.now = ""
	o.insist(command{kind: apply, stock: o.most}, func() {
		p.now = spec.PhaseClosed
		o.insist(command{kind: apply, stock: o.most}, func() {
			// Where another file closed the sale, this one is refused, and completes nothing.
			o.insist(command{kind: closes}, then)
		})
	})
}
