package ledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
)

// slow is Logs whose reads take a second.
type slow struct{ *ledger.MemoryLogs }

func (s slow) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	time.Sleep(time.Second)
	return s.MemoryLogs.Read(ctx, log, from, max)
}

// TestLoadShardsTogether reads shards side by side, for an audit as well.
func TestLoadShardsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ledger.NewWorld(t)
		began := time.Now()
		if _, err := ledger.LoadShards(t.Context(), slow{w.Logs}, w.Sale); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err := audit.Run(t.Context(), slow{w.Logs}, "test", ledger.NewState, nil); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("audit: %v after %v", err, time.Since(began))
		}
	})
}

// cuts are sales some of whose shards are first read as they were before others
// received something from them.
var cuts = map[string]struct {
	befalls func(w *ledger.World, past func(shards ...int))
	readOn  []int    // the shards, in order
	next    []uint64 // how far each is read
}{
	"nothing": {func(w *ledger.World, past func(...int)) { w.Move(0, 1, 1, 3) }, nil, []uint64{4, 3, 2}},
	"a shard that has sent": {func(w *ledger.World, past func(...int)) {
		past(0)
		w.Move(0, 1, 1, 2)
	}, []int{0}, []uint64{3, 3, 2}},
	"a shard that has received": {func(w *ledger.World, past func(...int)) {
		past(1)
		w.Move(0, 1, 1, 3)
	}, []int{1}, []uint64{4, 3, 2}},
	"one beside another, which shows all": {func(w *ledger.World, past func(...int)) {
		past(1)
		w.Move(0, 2, 1, 2)
		w.Move(1, 2, 1, 2)
	}, []int{1}, []uint64{3, 3, 4}},
	"one that shows another to be behind, beside a transfer that nobody sent": {func(w *ledger.World, past func(...int)) {
		d := w.Draft(2)
		if err := d.In(1, 1, ledger.Units{{1000, 1}}); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(2, d)
		past(0, 2)
		w.Move(2, 0, 1, 2)
		w.Move(0, 1, 1, 2)
	}, []int{0, 1, 2, 1, 1}, []uint64{4, 3, 4}},
	"a transfer from a shard that there is not": {func(w *ledger.World, past func(...int)) {
		d := w.Draft(2)
		if err := d.In(ledger.WorldShards, 1, ledger.Units{{1000, 1}}); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(2, d)
	}, nil, []uint64{2, 2, 3}},
}

// What a shard has received, another has sent: a sale that goes on is read to where
// that is so, and no further. The audit does it for its books, which know no states.
func TestReadsOnToACut(t *testing.T) {
	for name, test := range cuts {
		cut := func() (*ledger.World, *ledger.LaggingLogs) {
			w := ledger.NewWorld(t)
			logs := &ledger.LaggingLogs{MemoryLogs: w.Logs, Past: make(map[string]*ledger.StoredLog)}
			first := make(map[string]*ledger.StoredLog)
			test.befalls(w, func(shards ...int) {
				for _, i := range shards {
					first[w.Shards[i].Log()] = new(*w.Logs.Logs[w.Shards[i].Log()])
				}
			})
			for i, s := range w.Shards {
				if past := first[s.Log()]; past != nil {
					logs.Past[s.Log()] = past
					w.Sell(1, i) // which nobody has to know of
				}
			}
			return w, logs
		}
		check := func(what string, w *ledger.World, logs *ledger.LaggingLogs, next func(int) uint64) {
			t.Helper()
			var want []string
			for _, i := range test.readOn {
				want = append(want, w.Shards[i].Log())
			}
			readOn := slices.DeleteFunc(logs.ReadOn, func(log string) bool { return log == w.Sale.Log() })
			if !slices.Equal(slices.Compact(readOn), slices.Compact(want)) { // a read that shows nothing new is repeated
				t.Errorf("%s, %s: read on were %v, want %v", name, what, readOn, want)
			}
			for i, want := range test.next {
				if next(i) != want {
					t.Errorf("%s, %s: shard %d is read to slot %d, want %d", name, what, i, next(i), want)
				}
			}
		}
		w, logs := cut()
		states, err := ledger.LoadShards(t.Context(), logs, w.Sale)
		if err != nil {
			t.Fatal(name, err)
		}
		check("folded", w, logs, func(i int) uint64 { return states[i].Next() })
		w, logs = cut()
		_, err = audit.Run(t.Context(), logs, "test", ledger.NewState, func(_ *ledger.Sale, shards []*ledger.State) { states = shards })
		if err != nil {
			t.Fatal(name, err)
		}
		check("booked", w, logs, func(i int) uint64 { return states[i].Next() })
	}
}

// A store that fails while the shards are read, or read on, is no end of their logs.
func TestCutsOfABrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ledger.NewWorld(t)
		past := map[string]*ledger.StoredLog{w.Shards[0].Log(): new(*w.Logs.Logs[w.Shards[0].Log()])}
		w.Move(0, 1, 1, 2)
		for name, logs := range map[string]ledger.Logs{
			"never read": ledger.BrokenLogs{MemoryLogs: w.Logs, Log: w.Shards[0].Log()},
			"never read, and no other shard knows of it": ledger.BrokenLogs{MemoryLogs: w.Logs, Log: w.Shards[2].Log()},
			"read once": brokenLater{&ledger.LaggingLogs{MemoryLogs: w.Logs, Past: past}, w.Shards[0].Log()},
		} {
			if _, err := ledger.LoadShards(t.Context(), logs, w.Sale); !errors.Is(err, ledger.ErrBroken) {
				t.Errorf("%s: folded: %v", name, err)
			}
			if _, err := audit.Run(t.Context(), logs, "test", ledger.NewState, nil); !errors.Is(err, ledger.ErrBroken) {
				t.Errorf("%s: booked: %v", name, err)
			}
		}
	})
}

// brokenLater is lagging Logs of which one log cannot be read on.
type brokenLater struct {
	*ledger.LaggingLogs
	log string
}

func (b brokenLater) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.log && from > 0 {
		return nil, nil, ledger.ErrBroken
	}
	return b.LaggingLogs.Read(ctx, log, from, max)
}
