package shard

import (
	"fmt"
	"slices"
	"testing"
)

// TestOverLimit asks for more than a user with many claims may have: the newest are listed, within
// bounds, and all are counted.
func TestOverLimit(t *testing.T) {
	for name, c := range map[string]struct {
		quantities []int64
		listed     int
	}{
		"one":             {[]int64{3}, 1},
		"as many":         {slices.Repeat([]int64{1}, 10), 10},
		"more":            {slices.Repeat([]int64{1}, 25), 10},
		"large":           {slices.Repeat([]int64{300}, 5), 3},
		"as large":        {slices.Repeat([]int64{500}, 5), 2},
		"the largest":     {[]int64{1, 1000}, 1},
		"behind a large":  {[]int64{1000, 1}, 1},
		"the largest two": {[]int64{1000, 1000}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var limit int64
			for _, n := range c.quantities {
				limit += n
			}
			w := newWorld(t, limit, limit+1)
			h := w.serving("first")
			for i, n := range c.quantities {
				h.ask("ann", fmt.Sprint(i), n)
				if i%2 == 0 {
					w.settle() // else with the next
				}
			}
			inCommit := h.ask("ann", "in the commit", 1)
			w.settle()
			after := h.ask("ann", "after it", 1)
			w.settle()
			for _, x := range []*asked{inCommit, after} {
				x.want(t, "limit_reached")
				var got []int64
				for _, c := range x.answer.Claims {
					got = append(got, int64(len(c.Units)))
				}
				if want := c.quantities[len(c.quantities)-c.listed:]; !slices.Equal(got, want) || x.answer.Count != len(c.quantities) {
					t.Errorf("listed are %d of %d claims, want %d of %d", got, x.answer.Count, want, len(c.quantities))
				}
			}
		})
	}
}
