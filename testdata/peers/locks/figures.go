package main

import (
	"fmt"

	"salectl/testdata/peers/internal/table"
)

// figures are all lines.
type figures struct {
	redsync, ping            map[int]*table.Figure // by servers
	plain, oneName, failFast map[int]*table.Figure

	stopped, stoppedRedsync *table.Figure

	handed, longest         map[string]*table.Figure // by who contends
	longestHeld             map[string]*table.Figure
	longestRedsync, perHand *table.Figure

	renewal          *table.Figure
	herd, herdAsking *table.Figure

	table.Table
}

// Who contends for one lock.
const (
	processes  = "64 processes"
	goroutines = "64 goroutines"
)

func newFigures() *figures {
	f := &figures{
		redsync: map[int]*table.Figure{}, ping: map[int]*table.Figure{}, oneName: map[int]*table.Figure{},
		plain: map[int]*table.Figure{}, failFast: map[int]*table.Figure{}, handed: map[string]*table.Figure{}, longest: map[string]*table.Figure{},
		longestHeld: map[string]*table.Figure{},
	}
	for _, n := range []int{3, 5} {
		name := fmt.Sprintf("µs to lock and unlock, %d nodes, p50", n)
		f.redsync[n] = f.Line(table.Figure{Name: name, Form: "%.0f", Beside: "redsync", Wanted: "ratio ≤ 0.75", Holds: table.AtMost(0.75)})
		f.ping[n] = f.Line(table.Figure{Name: name, Form: "%.0f", Beside: "a PING of all nodes", Wanted: "ratio ≤ 2.5", Holds: table.AtMost(2.5)})
		f.plain[n] = f.Line(table.Figure{Name: name, Form: "%.0f", Beside: "redsync, client as go-redis sets it up"})
		f.oneName[n] = f.Line(table.Figure{Name: name + ", one name", Form: "%.0f", Beside: "redsync"})
		f.failFast[n] = f.Line(table.Figure{Name: name, Form: "%.0f", Beside: "redsync, WithFailFast"})
	}
	f.stopped = f.Line(table.Figure{Name: "ms to lock and unlock, 1 of 5 stopped, p99", Form: "%.3f", Beside: "all five",
		Wanted: "ratio ≤ 1.5", Holds: table.AtMost(1.5)})
	f.stoppedRedsync = f.Line(table.Figure{Name: "the same of redsync", Form: "%.3f", Beside: "all five"})
	for _, who := range []string{processes, goroutines} {
		f.handed[who] = f.Line(table.Figure{Name: "hand-overs/s, " + who, Form: "%.0f", Beside: "redsync",
			Wanted: "ratio ≥ 5", Holds: table.AtLeast(5)})
		f.longest[who] = f.Line(table.Figure{Name: "ms of the longest wait, " + who, Form: "%.1f", Beside: "the mean",
			Wanted: "ratio ≤ 3", Holds: table.AtMost(3)})
		f.longestHeld[who] = f.Line(table.Figure{Name: "the same, each holds for 1 ms", Form: "%.1f", Beside: "the mean",
			Wanted: "ratio ≤ 3", Holds: table.AtMost(3)})
	}
	f.longestRedsync = f.Line(table.Figure{Name: "the same of redsync", Form: "%.1f", Beside: "the mean"})
	f.perHand = f.Line(table.Figure{Name: "Redis commands a hand-over, " + processes, Form: "%.0f", Beside: "redsync"})
	f.renewal = f.Line(table.Figure{Name: "script calls to renew 1,024 leases once, 3 nodes", Form: "%.1f",
		Beside: "redsync, 1,024 Extend", Wanted: "≤ 3", Holds: func(ours, _ float64) bool { return ours <= 3 }})
	f.herd = f.Line(table.Figure{Name: "Redis commands a release, 1,000 waiting", Form: "%.1f", Beside: "nobody waiting",
		Wanted: "ratio ≤ 2", Holds: table.AtMost(2)})
	f.herdAsking = f.Line(table.Figure{Name: "the same, each holds for 0.25 s", Form: "%.1f", Beside: "nobody waiting",
		Wanted: "ratio ≤ 2", Holds: table.AtMost(2)})
	return f
}
