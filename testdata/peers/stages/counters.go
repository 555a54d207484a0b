package main

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/google/pprof/profile"

	"salectl/testdata/peers/internal/processor"
)

// reading is what was counted while something ran.
type reading struct {
	profile     *profile.Profile
	used        time.Duration // of the processors, by this process
	servers     time.Duration // of the processors, by its children
	allocations uint64
	bytes       uint64           // allocated
	rested      int64            // switches from a thread that waits
	displaced   int64            // switches from a thread that would go on
	idle        float64          // the part of the time in which a processor had nothing of Go's to run
	waits       histogram        // from when a goroutine may run until it does, in seconds
	kernel      map[string]int64 // what the kernel counted, by the events of counted
}

// during counts while do runs. children are the servers that work for it.
func during(children []int, k kernel, do func() error) (r reading, err error) {
	idleBefore := idle()
	stop, err := k.count()
	if err != nil {
		return r, err
	}
	var sampled bytes.Buffer
	if err := pprof.StartCPUProfile(&sampled); err != nil {
		return r, errors.Join(err, drop(stop()))
	}
	before, errBefore := read(children)
	err = do()
	after, errAfter := read(children)
	pprof.StopCPUProfile()
	counted, errKernel := stop()
	if err := errors.Join(err, errBefore, errAfter, errKernel); err != nil {
		return r, err
	}
	r = after.since(before)
	r.idle, r.kernel = idle().since(idleBefore), counted
	r.profile, err = profile.Parse(&sampled)
	return r, err
}

func drop(_ map[string]int64, err error) error { return err }

// counters are what is counted from the start of the process.
type counters struct {
	used, servers time.Duration
	switches      syscall.Rusage
	memory        runtime.MemStats
	waits         histogram
}

func read(children []int) (c counters, err error) {
	if c.used, err = processor.Used(); err != nil {
		return c, err
	}
	all, err := processor.Used(children...)
	if err != nil {
		return c, err
	}
	c.servers = all - c.used
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &c.switches); err != nil {
		return c, err
	}
	runtime.ReadMemStats(&c.memory)
	waits := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(waits)
	c.waits = histogram(*waits[0].Value.Float64Histogram())
	return c, nil
}

func (c counters) since(before counters) reading {
	return reading{
		used: c.used - before.used, servers: c.servers - before.servers,
		allocations: c.memory.Mallocs - before.memory.Mallocs, bytes: c.memory.TotalAlloc - before.memory.TotalAlloc,
		rested: c.switches.Nvcsw - before.switches.Nvcsw, displaced: c.switches.Nivcsw - before.switches.Nivcsw,
		waits: c.waits.since(before.waits),
	}
}

// idleness is how many seconds the processors that Go may use had nothing of Go's to run, and
// how many there were.
type idleness struct{ idle, all float64 }

// idle reads them. The runtime brings them up to date when it collects garbage.
func idle() idleness {
	runtime.GC()
	seconds := []metrics.Sample{{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}}
	metrics.Read(seconds)
	return idleness{seconds[0].Value.Float64(), seconds[1].Value.Float64()}
}

// since is the idle part of the time since then.
func (i idleness) since(before idleness) float64 {
	return (i.idle - before.idle) / max(i.all-before.all, math.SmallestNonzeroFloat64)
}

// histogram is one of the runtime's.
type histogram metrics.Float64Histogram

func (h histogram) since(before histogram) histogram {
	d := histogram{Counts: make([]uint64, len(h.Counts)), Buckets: h.Buckets}
	for i, n := range h.Counts {
		d.Counts[i] = n
		if i < len(before.Counts) {
			d.Counts[i] -= before.Counts[i]
		}
	}
	return d
}

// quantile is the upper bound of the bucket in which a part of the values ends.
func (h histogram) quantile(part float64) float64 {
	all := uint64(0)
	for _, n := range h.Counts {
		all += n
	}
	seen := uint64(0)
	for i, n := range h.Counts {
		if seen += n; n > 0 && float64(seen) >= part*float64(all) {
			if upper := h.Buckets[i+1]; !math.IsInf(upper, 1) {
				return upper
			}
			return h.Buckets[i]
		}
	}
	return 0
}
