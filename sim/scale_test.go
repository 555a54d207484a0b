package sim

import (
	"testing"
	"time"
)

// More processes sell more, and claims that come to the wrong one cost time. A world of the
// same options comes to the same.
func TestScale(t *testing.T) {
	costs := ScaleCosts{
		Processors: 1, Request: 20 * time.Microsecond, Decide: 5 * time.Microsecond, Forward: 5 * time.Microsecond,
		Flush: 20 * time.Microsecond, Append: 50 * time.Microsecond, Call: 50 * time.Microsecond,
	}
	scale := func(processes int, follow bool, change func(*ScaleOptions)) *ScaleResult {
		t.Helper()
		o := ScaleOptions{
			Processes: processes, Shards: 6, Callers: 100, Follow: follow, Costs: costs,
			Store: ScaleStore{Machines: 1, Append: 10 * time.Microsecond, Away: time.Millisecond},
			Warm:  10 * time.Millisecond, Span: 100 * time.Millisecond,
		}
		if change != nil {
			change(&o)
		}
		r, err := Scale(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, placed, lost := scale(1, true, nil), scale(3, true, nil), scale(3, false, nil)
	if again := scale(3, false, nil); *again != *lost {
		t.Errorf("%+v, and again %+v", lost, again)
	}
	// A claim costs 25 µs beside its part of a commit, in which there are few.
	if one.Rate < 25_000 || one.Rate > 40_000 || one.Processor < .9 || one.Forwarded != 0 {
		t.Errorf("one process: %+v", one)
	}
	if placed.Rate < 2.4*one.Rate || placed.Rate > 4*one.Rate || placed.Forwarded != 0 {
		t.Errorf("one process: %+v; three whose callers know the owners: %+v", one, placed)
	}
	if lost.Rate > .9*placed.Rate || lost.Forwarded < .6 || lost.Forwarded > .73 {
		t.Errorf("callers know the owners: %+v; they do not: %+v", placed, lost)
	}
	slow := scale(3, true, func(o *ScaleOptions) { o.Store.Append = 5 * time.Millisecond })
	if slow.Store < .95 || slow.Processor > .5 || slow.Rate > placed.Rate/2 {
		t.Errorf("with a slow store: %+v", slow)
	}
	if _, err := Scale(ScaleOptions{Processes: 2, Shards: 1, Callers: 1, Costs: costs, Store: ScaleStore{Machines: 1}, Span: time.Millisecond}); err != nil {
		t.Errorf("more processes than shards: %v", err)
	}
}
