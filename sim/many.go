package sim

import (
	"iter"
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
