package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"salectl/sim"
)

// tally sums up the events of worlds.
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

// print writes how often each failpoint was hit. None should be at zero.
func (t *tally) print(to io.Writer) {
	fmt.Fprintf(to, "operations a world: %d, at least %d; faults: %d, at least %d\n",
		t.ops/max(1, t.worlds), t.fewestOps, t.faults/max(1, t.worlds), t.fewestFaults)
	steps := make(map[string]*[7]int)
	var others, never []string
	for _, name := range slices.Sorted(maps.Keys(t.hits)) {
		if t.hits[name] == 0 {
			never = append(never, name)
		}
		step, column := stepOf(name)
		switch {
		case column < 0:
			others = append(others, name)
		case steps[step] == nil:
			steps[step] = new([7]int)
			fallthrough
		default:
			steps[step][column] = t.hits[name]
		}
	}
	table := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	defer table.Flush()
	fmt.Fprint(table, "\n| step\t| ", strings.Join(columns[:], "\t| "), "\t|\n|---", strings.Repeat("\t|---:", len(columns)), "\t|\n")
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		fmt.Fprint(table, "| ", step)
		for _, n := range steps[step] {
			fmt.Fprint(table, "\t| ", n)
		}
		fmt.Fprint(table, "\t|\n")
	}
	fmt.Fprint(table, "\n| what else happened\t| times\t|\n|---\t|---:\t|\n")
	for _, name := range others {
		fmt.Fprintf(table, "| %s\t| %d\t|\n", name, t.hits[name])
	}
	fmt.Fprintf(table, "\nnever hit: %d %s\n", len(never), strings.Join(never, ", "))
}

// columns are what may become of a step: how far its call came, and where its
// process was killed.
var columns = [7]string{
	"sent", "landed", "answered", "lost", "crash before sending", "crash after sending", "crash before taking in",
}

// stepOf returns the step that a failpoint belongs to and its column, -1 if it
// is none of a step's.
func stepOf(name string) (step string, column int) {
	for i, c := range columns {
		if step, ok := strings.CutSuffix(name, ":"+c); ok {
			return step, i
		}
		if step, ok := strings.CutPrefix(name, c+" "); ok {
			return step, i
		}
	}
	return "", -1
}
