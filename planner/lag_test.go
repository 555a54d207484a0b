package planner

import (
	"slices"
	"testing"

	"salectl/backends/backendtest"
	"salectl/spec"
)

// While shards are brought to a generation, a read of the sale's log may say that
// the log is gone, and the one after it show no more than its begin. What was
// known of the sale stays until the log is read as far again: another shard may
// ask for its next generation at any time.
func TestApplyReadsThePast(t *testing.T) {
	now := backendtest.Fault{}
	gone, begin := backendtest.Fault{Kind: backendtest.Stale, N: 2}, backendtest.Fault{Kind: backendtest.Stale, N: 1}
	for name, test := range map[string]struct {
		shards int
		reads  []backendtest.Fault // of the sale's log, in order; then all are of now
		from   []uint64            // the slots from which it is read first
	}{
		"gone, while a shard is at work":      {3, []backendtest.Fault{now, now, gone}, []uint64{0, 2, 2, 0}},
		"gone, and then no more than a begin": {1, []backendtest.Fault{now, gone, begin}, []uint64{0, 2, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			small, large := tickets(10), tickets(20)
			small.LockCount, large.LockCount = test.shards, test.shards
			for first := w.begin(w.mustPlan(small)); w.actual().Sale.Generation() == 0; {
				first.step(inOrder)
			}
			log, reads := spec.SaleLog("tickets"), backendtest.Script(test.reads...)
			var from []uint64
			w.faults = backendtest.On(backendtest.OpRead, func(c backendtest.Call) backendtest.Fault {
				if c.Log != log {
					return now
				}
				from = append(from, c.Slot)
				return reads(c)
			})
			w.mustApply(large) // generation 2, and 1 with it: no shard has that yet
			w.wantStock(20)
			if n := min(len(from), len(test.from)); !slices.Equal(from[:n], test.from) {
				t.Errorf("the sale's log was read from slots %v, want %v and more", from, test.from)
			}
		})
	}
}
