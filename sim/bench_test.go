package sim

import "testing"

// BenchmarkWorld runs one world after another, each of its own seed.
func BenchmarkWorld(b *testing.B) {
	events := 0
	for i := range b.N {
		events += Run(Options{Seed: uint64(i)}).Events
	}
	b.ReportMetric(float64(events)/float64(b.N), "events/world")
}
