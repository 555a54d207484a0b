package main

import (
	"salectl/testdata/peers/internal/table"
)

// curves are the points of all rounds, by contender and by the requested number of callers.
type curves map[string]map[int][]point

func (c curves) add(name string, callers int, p point) {
	if c[name] == nil {
		c[name] = make(map[int][]point)
	}
	c[name][callers] = append(c[name][callers], p)
}

// line is a contender's points, by ever more callers.
type line struct {
	name   string
	points []point
}

// medians are the lines, in the order of names. A p99 of which half of the rounds know only
// that it was more is more.
func (c curves) medians() (lines []line) {
	for _, name := range names {
		l := line{name: name}
		for _, callers := range crowds {
			rounds := c[name][callers]
			if len(rounds) == 0 {
				continue
			}
			var rates, waits []float64
			more := 0
			for _, p := range rounds {
				rates, waits = append(rates, p.rate), append(waits, p.p99)
				if p.atLeast {
					more++
				}
			}
			l.points = append(l.points, point{rounds[0].callers, table.Median(rates), table.Median(waits), 2*more >= len(rounds)})
		}
		lines = append(lines, l)
	}
	return lines
}
