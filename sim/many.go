package sim

import (
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
)

// Many runs the worlds of seeds in a row, several at a time, and yields each as
// it is done.
func Many(from, seeds uint64, atOnce int, o Options) iter.Seq[*Result] {
	return func(yield func(*Result) bool) {
		var next atomic.Uint64
		var stop atomic.Bool
		results := make(chan *Result, atOnce)
		var running sync.WaitGroup
		for range atOnce {
			running.Go(func() {
				for i := next.Add(1) - 1; i < seeds && !stop.Load(); i = next.Add(1) - 1 {
					o := o
					o.Seed = from + i
					results <- Run(o)
				}
			})
		}
		go func() { running.Wait(); close(results) }()
		for r := range results {
			if !stop.Load() && !yield(r) {
				stop.Store(true) // what is under way is taken and dropped
			}
		}
	}
}

// Replay is the command that runs the world again.
func (r *Result) Replay() string {
	line := fmt.Sprintf("go run ./sim/soak -seed %d", r.Options.Seed)
	plain := Options{}.orDefault()
	if o := r.Options; o.Clients != plain.Clients {
		line += fmt.Sprintf(" -clients %d", o.Clients)
	}
	if o := r.Options; o.Ops != plain.Ops {
		line += fmt.Sprintf(" -ops %d", o.Ops)
	}
	if o := r.Options; o.Faults != plain.Faults {
		line += fmt.Sprintf(" -faults %d", o.Faults)
	}
	if o := r.Options; o.Until != plain.Until {
		line += fmt.Sprintf(" -until %v", o.Until)
	}
	return line
}

// FirstProblem is the first line of what is wrong.
func (r *Result) FirstProblem() string {
	if r.Err == nil {
		return ""
	}
	first, _, _ := strings.Cut(r.Err.Error(), "\n")
	return first
}
