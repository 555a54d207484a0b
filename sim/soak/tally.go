package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"salectl/sim"
)

// tally sums up what worlds met with.
type tally struct {
	worlds, failed int
	ops, faults    int
	fewestOps      int
	fewestFaults   int
	hits           map[string]int
}

func newTally() *tally {
	t := &tally{hits: make(map[string]int)}
	for _, name := range sim.Failpoints() {
		t.hits[name] = 0
	}
	return t
}

func (t *tally) add(r *sim.Result) {
	if t.worlds++; r.Err != nil {
		t.failed++
	}
	t.ops += r.Ops
	t.faults += r.Faults
	if t.worlds == 1 {
		t.fewestOps, t.fewestFaults = r.Ops, r.Faults
	}
	t.fewestOps, t.fewestFaults = min(t.fewestOps, r.Ops), min(t.fewestFaults, r.Faults)
	for name, n := range r.Hits {
		t.hits[name] += n
	}
}

func (t *tally) rate(began time.Time) float64 { return float64(t.worlds) / time.Since(began).Seconds() }

// print writes how often each failpoint was met. None should be at zero.
func (t *tally) print(to io.Writer) {
	fmt.Fprintf(to, "operations a world: %d, at least %d; faults: %d, at least %d\n\n",
		t.ops/max(1, t.worlds), t.fewestOps, t.faults/max(1, t.worlds), t.fewestFaults)
	fmt.Fprintln(to, "| failpoint | met |\n|---|---:|")
	for _, name := range slices.Sorted(maps.Keys(t.hits)) {
		fmt.Fprintf(to, "| %s | %d |\n", name, t.hits[name])
	}
}
