package sim

import "testing"

// TestUnitFilesAreDeterministic: a world whose units are lines of a temporary file, secret or not,
// is the same each time.
func TestUnitFilesAreDeterministic(t *testing.T) {
	secret, public := 0, 0
	for seed := uint64(1); secret == 0 || public == 0; seed++ {
		w := newWorld(Options{Seed: seed}.orDefault())
		switch {
		case w.scenario.files == nil:
			continue
		case w.scenario.files.Secret == nil:
			public++
		default:
			secret++
		}
		t.Setenv("TMPDIR", t.TempDir())
		first := Run(Options{Seed: seed})
		t.Setenv("TMPDIR", t.TempDir())
		if second := Run(Options{Seed: seed}); first.TraceHash != second.TraceHash {
			t.Errorf("seed %d: the traces are %x and %x", seed, first.TraceHash, second.TraceHash)
		}
	}
}
