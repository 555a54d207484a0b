// The command soak runs simulated sales until one of them is not what salectl
// promises, or all requested ones have passed.
//
//	soak -seeds 50000 -from 0     one line a failure, a table of the failpoints at the end
//	soak -seed 4711 -trace        one world again, every event as a line
//	soak -seed 4711 -shrink       the smallest world that fails alike
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"salectl/sim"
)

func main() {
	seeds := flag.Uint64("seeds", 1000, "how many worlds to run")
	from := flag.Uint64("from", 0, "the first seed; 0: begin at the time of the clock, so that each soak is fresh")
	seed := flag.Int64("seed", -1, "run this one world alone")
	trace := flag.Bool("trace", false, "with -seed: write every event")
	shrink := flag.Bool("shrink", false, "with -seed: make the world smaller as long as it fails")
	var o sim.Options
	flag.IntVar(&o.Clients, "clients", 0, "clients with requests at a time; 0: as many as a seed has")
	flag.IntVar(&o.Ops, "ops", 0, "operations of clients; 0: as many as a seed has")
	flag.IntVar(&o.Faults, "faults", 0, "the most faults, -1 for none; 0: as many as a seed has")
	flag.DurationVar(&o.Until, "until", 0, "virtual time at which faults stop; 0: as late as a seed has")
	flag.Parse()
	debug.SetGCPercent(800) // worlds are small and short-lived
	if *seed < 0 {
		if *from == 0 {
			*from = uint64(time.Now().UnixMilli())
		}
		os.Exit(soak(*from, *seeds, o))
	}
	o.Seed = uint64(*seed)
	os.Exit(one(o, *trace, *shrink))
}

// one runs a single world.
func one(o sim.Options, trace, shrink bool) int {
	if shrink {
		small, ok := sim.Shrink(o)
		if !ok {
			fmt.Printf("seed %d does not fail\n", o.Seed)
			return 0
		}
		o = small
	}
	if trace {
		o.Trace = os.Stdout
	}
	r := sim.Run(o)
	fmt.Printf("seed %d: %d operations, %d faults, %d events, trace %x\n", o.Seed, r.Ops, r.Faults, r.Events, r.TraceHash[:8])
	if r.Err == nil {
		fmt.Println("passed")
		return 0
	}
	fmt.Printf("FAILED: %v\n%s\n", r.Err, r.Replay())
	return 1
}

// soak runs many worlds, one a CPU at a time.
func soak(from, seeds uint64, o sim.Options) int {
	began, last := time.Now(), time.Now()
	t := newTally()
	for r := range sim.Many(from, seeds, runtime.GOMAXPROCS(0), o) {
		t.add(r)
		if r.Err != nil {
			fmt.Printf("\rFAILED %s: %s\n", r.Replay(), r.FirstProblem())
		}
		if time.Since(last) > time.Second {
			last = time.Now()
			fmt.Printf("\r%d of %d, %.0f a second, %d failed ", t.worlds, seeds, t.rate(began), t.failed)
		}
	}
	fmt.Printf("\r%d worlds from seed %d, %.0f a second, %d failed\n", t.worlds, from, t.rate(began), t.failed)
	t.print(os.Stdout)
	if t.failed > 0 {
		return 1
	}
	return 0
}
