package sim

import (
	"fmt"
	"slices"

	"salectl/spec"
)

// unchosen is a stream under which no sale of TestWorldsThatFailed lets buyers choose: those
// worlds are as they were when they failed.
const unchosen = 3

// choice is a sale whose buyers may choose among units, and how they do.
type choice struct {
	rows    []int64 // how many units each has, as far as they are needed
	named   float64 // of the requests, how many are for particular units
	side    float64 // and how many are for adjacent ones
	popular int64   // units that are requested most; 0: all alike
}

// drawChoice has buyers of some sales choose. All else stays as it was drawn.
func (s *scenario) drawChoice(r random) {
	if s.lists != nil || !r.chance(0.25) {
		return
	}
	c := &choice{named: pick(r, 0.1, 0.4, 0.7), side: pick(r, 0.1, 0.3), popular: pick(r, int64(0), 4, 12, 40)}
	for range 200 {
		c.rows = append(c.rows, pick(r, int64(1), 3, 4, 8, 20))
	}
	s.choice = c
}

// declare puts it into a sale's file: as many rows as the stock fills.
func (c *choice) declare(s *spec.Sale) {
	if c == nil {
		return
	}
	s.Units = &spec.Units{Choose: true}
	left := s.Stock
	for i := 0; left > 0; i++ {
		n := min(left, c.rows[i%len(c.rows)])
		left -= n
		row := string(rune('a'+i/26)) + string(rune('a'+i%26))
		s.Units.Ranges = append(s.Units.Ranges, fmt.Sprintf("%s1-%s%d", row, row, n))
	}
}

// choose has somebody choose, if the sale lets them: units of which some are popular, or
// adjacent ones.
func (w *world) choose(x *want) {
	c, r := w.scenario.choice, w.random.choice
	if c == nil {
		return
	}
	switch draw := r.Float64(); {
	case draw < c.named:
		among := w.scenario.stock + 3 // some that the sale never had, or only later
		if c.popular > 0 && r.chance(0.7) {
			among = min(among, c.popular)
		}
		for int64(len(x.units)) < min(x.quantity, among) {
			unit := 1 + r.Int64N(among)
			if at, has := slices.BinarySearch(x.units, unit); !has {
				x.units = slices.Insert(x.units, at, unit)
			}
		}
		x.quantity = int64(len(x.units))
	case draw < c.named+c.side:
		x.adjacent = true
	}
}

// change has somebody want one unit more or, of some that are named, another in place of one.
func (x *want) change() {
	if n := len(x.units); n > 0 {
		x.units = slices.Clone(x.units)
		if x.units[n-1]%2 == 0 {
			x.units[n-1]++
			return
		}
		x.units = append(x.units, x.units[n-1]+1)
	}
	x.quantity++
}
