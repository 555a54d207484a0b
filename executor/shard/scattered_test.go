package shard

import (
	"fmt"
	"slices"
	"testing"

	"salectl/api"
)

// scattered are sales whose units lie in far more shards than a claim can be filled
// from: each buyer wants more than any shard has.
var scattered = map[string]struct {
	shards   int
	share    int64 // units a shard
	buyers   int
	quantity int64
	slots    float64 // a claim sold, at most
}{
	"five units a shard, for twenty each":     {1024, 5, 250, 20, 10},
	"all of them are wanted":                  {1024, 5, 256, 20, 11},
	"one unit a shard":                        {256, 1, 12, 20, 60},
	"many claims for each unit of few shards": {64, 16, 1024, 1, 2},
}

// written returns how many slots all shards have.
func (w *world) written() (n uint64) {
	for shard := range w.shards {
		n += w.slots(shard)
	}
	return n
}

// A shard that is short asks few others, each for all that it wants of it: what a
// claim costs is its share of the transfers that must be, and not the more the
// more shards there are.
func TestScatteredUnits(t *testing.T) {
	for name, c := range scattered {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.quantity, slices.Repeat([]int64{c.share}, c.shards)...)
			h := w.serving("first")
			before := w.written()
			var all []*asked
			for i := range c.buyers {
				all = append(all, h.ask(fmt.Sprintf("buyer-%d", i), "key", c.quantity))
			}
			w.settle()
			for _, x := range all {
				if x.answer.Outcome == api.NoneNow { // the last units were between two shards
					h.ask(x.User, "again", c.quantity)
					w.settle()
				}
			}
			if n := count(w.asked, api.Sold); n != c.buyers {
				t.Errorf("%d sold of %d", n, c.buyers)
			}
			if slots := float64(w.written()-before) / float64(c.buyers); slots > c.slots {
				t.Errorf("%.1f slots written a claim", slots)
			}
		})
	}
}
