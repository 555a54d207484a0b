package sim

import (
	"slices"
	"time"

	"salectl/spec"
)

// hours are from when until when a sale takes claims, in virtual time; 0: from the
// start, and until it is closed by hand.
type hours struct{ opens, closes time.Duration }

// timetable is how the hours of a sale are declared, and declared otherwise later.
type timetable struct {
	first   hours
	changes []change
	kept    bool // the last hours end the sale; else the faults end with none declared
}

// change is a generation that has other hours.
type change struct {
	at time.Duration
	hours
}

// drawHours gives some sales hours. All else stays as it was drawn.
func (s *scenario) drawHours(r random, until time.Duration) {
	if !r.chance(0.3) {
		return
	}
	t := &timetable{first: drawHours(r, until), kept: r.chance(0.5)}
	for range r.IntN(4) {
		t.changes = append(t.changes, change{r.between(until/10, until), drawHours(r, until)})
	}
	slices.SortFunc(t.changes, func(a, b change) int { return int(a.at - b.at) })
	if t.kept { // what is left is sold when all clocks are right, up to an end that comes
		end := hours{opens: r.between(0, until+10*time.Second), closes: until + r.between(15*time.Second, time.Minute)}
		t.changes = append(t.changes, change{until, end})
	}
	s.timetable = t
}

// drawHours draws hours of which one end at least lies in the time of the faults.
func drawHours(r random, until time.Duration) (h hours) {
	if r.chance(0.7) {
		h.opens = r.between(until/25, until*2/3)
	}
	if h.opens == 0 || r.chance(0.6) {
		h.closes = h.opens + r.between(until/25, until)
	}
	return h
}

// declare puts the hours into a sale's file.
func (h hours) declare(s *spec.Sale) {
	if h.opens != 0 {
		s.OpensAt = epoch.Add(h.opens.Truncate(time.Microsecond))
	}
	if h.closes != 0 {
		s.ClosesAt = epoch.Add(h.closes.Truncate(time.Microsecond))
	}
}

// scheduleHours has the operators declare the hours, each when its time comes.
func (o *operators) scheduleHours() {
	t := o.w.scenario.timetable
	if t == nil {
		return
	}
	o.hours = t.first
	for _, c := range t.changes {
		o.w.at(c.at, func() {
			o.hours = c.hours
			if c.at < o.w.Until && !o.w.calm { // else whatever comes next declares them
				o.w.hit("hours changed")
				o.run(command{kind: apply, stock: o.w.scenario.stock, runs: 3}, func() {})
			}
		})
	}
	if !t.kept {
		o.w.at(o.w.Until, func() { o.hours = hours{} })
	}
}

// over reports whether the hours have ended, by any clock.
func (o *operators) over() bool {
	return o.hours.closes != 0 && o.w.now > o.hours.closes-5*time.Second
}
