package sim

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/planner"
	"salectl/spec"
	"salectl/units"
)

// undrawn is a stream under which no sale of TestWorldsThatFailed is a draw: those worlds are
// as they were when they failed.
const undrawn = 11

// drawn is how a sale is drawn.
type drawn struct {
	substitutes int64
	beacon      *spec.Beacon    // nil: none
	reveals     []time.Duration // when operators reveal it, from its close on; below 0: before it
}

// beaconValue is the value of the round that sales with a beacon declare.
var beaconValue = []byte("the value of round 7")

// drawKey is what the secrets of draws are encrypted with.
var drawKey = func() *units.Key {
	k, err := units.NewDrawKey(make([]byte, units.MinSecret))
	if err != nil {
		panic(err)
	}
	return k
}()

// drawDraw makes draws of some sales. A draw has hours, a small stock, many users with one unit
// each, and nobody who chooses or is given a part. All else stays as it was drawn.
func (s *scenario) drawDraw(r random, until time.Duration) {
	if s.lists != nil || s.choice != nil || s.partial != nil || !r.chance(0.2) {
		return
	}
	s.perUser, s.users = 1, 4*s.users
	s.stock = int64(s.shards) + r.Int64N(pick(r, int64(1), 4, 16))
	s.crowd = 0
	s.drawn = &drawn{substitutes: r.Int64N(2*s.stock + 1)}
	if r.chance(0.6) {
		s.drawn.beacon = &spec.Beacon{Name: "a beacon", Round: "7", Fallback: pick(r, spec.FallbackNone, spec.FallbackSecret, spec.FallbackSecret)}
	}
	for range 1 + r.IntN(3) {
		at := r.spread(100*time.Millisecond, 8*time.Second)
		if r.chance(0.4) { // when some clocks are not there yet
			at = r.between(-500*time.Millisecond, 500*time.Millisecond)
		}
		s.drawn.reveals = append(s.drawn.reveals, at)
		if r.chance(0.6) { // somebody else does so at about the same time
			s.drawn.reveals = append(s.drawn.reveals, at+r.between(0, 8*time.Millisecond))
		}
	}
	if p := s.payment; p != nil {
		p.Late, p.HoldFor = spec.LateRefuse, min(p.HoldFor, spec.Duration(r.spread(spec.MinHold, 6*time.Second).Truncate(time.Millisecond)))
	}
	if s.ruled != nil {
		s.ruled.ranked = false
	}
	t := &timetable{kept: true}
	if r.chance(0.3) {
		t.first.opens = r.between(0, until/5)
	}
	t.first.closes = r.between(until/4, until*4/5)
	if r.chance(0.2) {
		t.first.closes = r.between(until, until+15*time.Second)
	}
	if r.chance(0.3) { // it closes at another time
		c := change{at: r.between(until/10, t.first.closes), hours: t.first}
		c.closes = r.between(until/4, until+5*time.Second)
		t.changes = append(t.changes, c)
	}
	s.timetable = t
}

// declare puts it into a sale's file.
func (d *drawn) declare(s *spec.Sale) {
	if d != nil {
		s.Queue = &spec.Queue{Order: spec.OrderDraw, Depth: spec.DefaultDepth}
		s.Draw = &spec.Draw{KeyEnv: "DRAW_KEY", Substitutes: d.substitutes, Beacon: d.beacon}
	}
}

// reveal is the command that reveals a draw.
const reveal = "reveal"

// closeDraw is the command that publishes the entries alone.
const closeDraw = "draw close"

// reveals is how a reveal makes its plan. Where the beacon has a fallback some operators know
// no value.
func (o *operators) reveals() func(*planner.Actual) (*planner.Plan, error) {
	var value []byte
	if b := o.w.scenario.drawn.beacon; b != nil && (b.Fallback == spec.FallbackNone || o.w.random.draws.chance(0.5)) {
		value = beaconValue
	}
	return func(a *planner.Actual) (*planner.Plan, error) {
		if a.Sale.Drawn() != nil {
			return planner.MakeReveal(a, nil, false) // whatever it was revealed by
		}
		return planner.MakeReveal(a, value, value == nil && o.w.scenario.drawn.beacon != nil)
	}
}

// scheduleReveals has operators reveal the draw amid the faults, about at its close or a while
// after it; some of them publish the entries alone.
func (o *operators) scheduleReveals() {
	d := o.w.scenario.drawn
	if d == nil {
		return
	}
	if d.beacon != nil {
		o.w.history.Beacon = beaconValue
	}
	for _, in := range d.reveals {
		at := o.w.scenario.timetable.first.closes + in
		o.w.at(at, func() {
			if !o.w.calm && !o.ending {
				if o.w.random.draws.chance(0.2) {
					o.run(command{kind: closeDraw, runs: 1 + o.w.random.draws.IntN(4)}, func() {})
					return
				}
				o.w.hit("revealed amid faults")
				o.run(command{kind: reveal, runs: 1 + o.w.random.draws.IntN(4)}, func() {})
			}
		})
	}
}

// keepClose puts the hours of a draw back into the file, where they were to change and the
// sale has closed before, or is drawn by a beacon and would close later: such a change is
// refused, and all that goes with it.
func (o *operators) keepClose(a *planner.Actual) {
	if o.w.scenario.drawn == nil || !a.Sale.Live() {
		return
	}
	old, err := spec.FromJSON(a.Sale.Newest().GetSpec())
	if err != nil {
		return
	}
	closes := old.ClosesAt.Sub(epoch)
	if !a.At.Before(old.ClosesAt) || old.Draw.Beacon != nil && o.hours.closes > closes {
		o.hours.closes = closes
	}
}

// closed is when a draw has closed by all clocks.
func (o *operators) closed() time.Duration {
	if o.closing {
		return o.w.now
	}
	return max(o.w.now, o.hours.closes+apart+5*time.Second)
}

// drawingTakes is how long it takes, when nothing is wrong, until all know of a reveal and
// the winners have received it.
const drawingTakes = 12 * time.Second

// onceDrawn goes on when the draw of a sale that clients found closed is revealed, and those
// who may have a unit have had the time to get it.
func (w *world) onceDrawn(then func()) {
	o := w.operators
	if w.scenario.drawn == nil || o.ending {
		then()
		return
	}
	w.at(o.closed(), func() {
		if o.ending {
			then()
			return
		}
		o.insist(command{kind: apply, stock: o.most}, func() {
			o.insist(command{kind: reveal}, func() {
				w.hit("revealed in the calm")
				w.after(drawingTakes, then)
			})
		})
	})
}

// await has a client whose entry was accepted query its state, a few times.
func (c *client) await(x want) {
	if x.key == "" || c.w.scenario.drawn == nil || c.awaited[x.key] {
		return
	}
	if c.awaited == nil {
		c.awaited = make(map[string]bool)
	}
	c.awaited[x.key] = true
	x.tries = 8
	c.awaitOnce(x)
}

func (c *client) awaitOnce(x want) {
	w := c.w
	in := max(w.operators.hours.closes-w.now, 0) + c.payer.spread(200*time.Millisecond, 6*time.Second)
	c.payer.later(in, func() {
		switch {
		case w.over:
			return
		case w.work != nil && w.work.asking: // any process is queried below, also one that is no more to be
			c.awaitOnce(x)
			return
		}
		c.send(x, func(a executor.Answer, received bool) {
			if x.tries--; x.tries > 0 && (!received || a.Outcome == api.Entered || !forGood(a.Outcome)) {
				c.awaitOnce(x)
			}
		})
	})
}

// won is what a client does with the unit that its entry was awarded, once it knows of it.
func (c *client) won(claim executor.Claim) {
	if c.w.scenario.drawn == nil || c.taken[claim.ID] {
		return
	}
	if c.taken == nil {
		c.taken = make(map[executor.ClaimID]bool)
	}
	c.taken[claim.ID] = true
	c.w.hit("entry won: " + string(claim.State))
	if claim.State == api.Sold && claim.HeldUntil.IsZero() && c.payer.chance(0.3) {
		c.payer.after(c.payer.between(0, 3*time.Second), api.Refund, claim, "")
	}
}

// settleEntry has a client settle its entry, which has no unit yet.
func (c *client) settleEntry(claim executor.Claim) {
	if c.payer.chance(0.1) {
		c.payer.settle(pick(c.payer.random, api.Confirm, api.Cancel, api.Refund), claim, fmt.Sprintf("early-%d-%s", c.n, claim.ID), 1, func(api.Outcome) {})
	}
}
