package main

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestDuring counts what a function does that allocates.
func TestDuring(t *testing.T) {
	const n, size = 1000, 4096
	var kept [][]byte
	r, err := during(nil, kernel{}, func() error {
		for range n {
			kept = append(kept, make([]byte, size))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != n || r.allocations < n || r.bytes < n*size || r.used <= 0 || r.profile == nil || r.idle < 0 || r.idle > 1 {
		t.Errorf("%+v", r)
	}
}

func TestHistogram(t *testing.T) {
	before := histogram{Counts: []uint64{5, 0, 1, 0}, Buckets: []float64{0, 1, 2, 3, math.Inf(1)}}
	after := histogram{Counts: []uint64{5, 98, 2, 1}, Buckets: before.Buckets}
	h := after.since(before) // 98 from 1 to 2, one from 2 to 3, one beyond
	for part, want := range map[float64]float64{0.5: 2, 0.98: 2, 0.99: 3, 1: 3} {
		if got := h.quantile(part); got != want {
			t.Errorf("quantile %v is %v, want %v", part, got, want)
		}
	}
	if got := (histogram{}).quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestParseCounts(t *testing.T) {
	got, err := parseCounts("Events disabled\n29,,raw_syscalls:sys_enter,5969,100.00,,\n<not supported>,,cache-misses,0,100.00,,\n0,,syscalls:sys_enter_futex,5969,100.00,,\n")
	if want := map[string]int64{allCalls: 29, futexCalls: 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := parseCounts("many,,cache-misses,0,100.00,,\n"); err == nil {
		t.Error("a count that is no number is read")
	}
}

// Where perf is not there, or may not count, nothing is counted, and nobody waits for it.
func TestNobodyMayCount(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if k := newKernel(); k != (kernel{}) {
		t.Errorf("without perf: %+v", k)
	}
	const refuses = "#!/bin/sh\necho 'Access to performance monitoring and observability operations is limited.' >&2\nexit 255\n"
	if err := os.WriteFile(filepath.Join(dir, "perf"), []byte(refuses), 0o755); err != nil {
		t.Fatal(err)
	}
	if k := newKernel(); k != (kernel{}) {
		t.Errorf("with one that refuses: %+v", k)
	}
}
