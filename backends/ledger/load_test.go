package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends/clock"
)

// scripted is Logs whose reads answer from a list; then they go to memory.
type scripted struct {
	*memory
	replies []Reply
	reads   int
}

func (s *scripted) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	s.reads++
	if len(s.replies) > 0 {
		r := s.replies[0]
		s.replies = s.replies[1:]
		return r.Head, r.Entries, r.Err
	}
	return s.memory.Read(ctx, log, from, max)
}

func failing(times int) []Reply {
	replies := make([]Reply, times)
	for i := range replies {
		replies[i].Err = errBroken
	}
	return replies
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*world, *scripted)
		want   error
		next   uint64
	}{
		"whole":            {func(*world, *scripted) {}, nil, 2},
		"more than a read": {func(w *world, _ *scripted) { w.timesCommit(0, 3*readAtOnce) }, nil, 2 + 3*readAtOnce},
		"absent":           {func(w *world, _ *scripted) { clear(w.logs.logs) }, nil, 0},
		"some errors":      {func(_ *world, s *scripted) { s.replies = failing(ReadTries - 1) }, nil, 2},
		"errors on the way": {func(w *world, s *scripted) {
			l := w.logs.logs[w.shards[0].log]
			s.replies = slices.Concat(failing(ReadTries-1), []Reply{{Head: l.head, Entries: l.entries[:1]}}, failing(ReadTries-1))
		}, nil, 2},
		"errors":            {func(_ *world, s *scripted) { s.replies = failing(ReadTries) }, errBroken, 0},
		"a noise of a head": {func(w *world, _ *scripted) { w.logs.logs[w.shards[0].log].head = []byte("{") }, ErrCorrupt, 2},
		"a lost last slot": {func(w *world, _ *scripted) {
			l := w.logs.logs[w.shards[0].log]
			l.entries = l.entries[:1]
		}, ErrCorrupt, 1},
		"a lost log": {func(w *world, _ *scripted) { w.logs.logs[w.shards[0].log].entries = nil }, ErrCorrupt, 0},
		"a head from the past": {func(w *world, _ *scripted) {
			head := w.logs.logs[w.shards[0].log].head
			w.timesCommit(0, 1)
			w.logs.logs[w.shards[0].log].head = head
		}, ErrCorrupt, 3},
		"gone in between": {func(w *world, s *scripted) {
			l := w.logs.logs[w.shards[0].log]
			s.replies = []Reply{{Head: l.head, Entries: l.entries[:1]}}
			clear(w.logs.logs)
		}, ErrGone, 1},
		"slow to show": {func(w *world, s *scripted) {
			for range ReadTries - 1 {
				s.replies = append(s.replies, Reply{Head: w.logs.logs[w.shards[0].log].head})
			}
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // pauses take no time
				w := newWorld(t)
				logs := &scripted{memory: w.logs}
				test.before(w, logs)
				s := NewState(w.shards[0].log)
				writer, err := Load(t.Context(), logs, s.log, s)
				if !errors.Is(err, test.want) || (err == nil) != (writer != nil) || s.Next() != test.next {
					t.Fatalf("next %d, %v", s.Next(), err)
				}
				if err == nil && (!writer.Idle() || writer.Log() != s.log) {
					t.Error("the writer is not ready")
				}
			})
		})
	}
}

// timesCommit appends that many commits to a shard.
func (w *world) timesCommit(shard, times int) {
	for range times {
		d := w.draft(shard)
		d.Own("again:1")
		w.commit(shard, d)
	}
}

// What the store does not permit it does not permit a second later either.
func TestLoadIsNotPermitted(t *testing.T) {
	w := newWorld(t)
	denied := fmt.Errorf("the file: %w", fs.ErrPermission)
	logs := &scripted{memory: w.logs, replies: []Reply{{Err: errBroken}, {Err: denied}}}
	_, err := Load(t.Context(), logs, w.shards[0].log, NewState(w.shards[0].log))
	if !errors.Is(err, denied) || logs.reads != 2 {
		t.Errorf("%d reads, %v", logs.reads, err)
	}
}

func TestLoadEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		logs := &scripted{memory: w.logs, replies: failing(ReadTries)}
		if _, err := Load(ctx, logs, w.shards[0].log, NewState(w.shards[0].log)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if logs.reads != 2 { // at once, after 10 ms, and not after 20 more
			t.Errorf("%d reads", logs.reads)
		}
	})
}

// TestLoadPauses checks how long a log is waited for that cannot be read.
func TestLoadPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		logs := &scripted{memory: w.logs, replies: failing(4)}
		time.Sleep(time.Hour)
		began := time.Now()
		if _, err := Load(t.Context(), logs, w.shards[0].log, NewState(w.shards[0].log)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 150*time.Millisecond { // 10, 20, 40 and 80
			t.Errorf("took %v", took)
		}
	})
}

// TestLoadedWriterAppends checks that what Load returns goes on where it ended.
func TestLoadedWriterAppends(t *testing.T) {
	w := newWorld(t)
	s := NewState(w.shards[0].log)
	writer, err := Load(t.Context(), w.logs, s.log, s)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Draft(testOwner, 0)
	d.Claim("u", "k", 1)
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now{}
	do := writer.Append(now, e)
	if do = writer.Done(now, do.Send.Do(t.Context(), w.logs)); do.Event != Committed {
		t.Fatalf("%+v", do)
	}
	if l := w.logs.logs[s.log]; !bytes.Equal(l.head, e.Head) || !bytes.Equal(l.entries[len(l.entries)-1], e.Bytes) {
		t.Error("the entry is not in the log")
	}
}

// TestLoadPages reads small entries a page at a time, however many that are.
func TestLoadPages(t *testing.T) {
	w := newWorld(t)
	w.timesCommit(0, 20*readAtOnce)
	logs := &scripted{memory: w.logs}
	if _, err := Load(t.Context(), logs, w.shards[0].log, NewState(w.shards[0].log)); err != nil || logs.reads != 2 {
		t.Errorf("%v, %d reads", err, logs.reads)
	}
}

// slow is Logs whose reads take a second.
type slow struct{ *memory }

func (s slow) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	time.Sleep(time.Second)
	return s.memory.Read(ctx, log, from, max)
}

// TestLoadShardsTogether reads shards side by side, for an audit as well.
func TestLoadShardsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		if _, err := LoadShards(t.Context(), slow{w.logs}, w.sale); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err := RunAudit(t.Context(), slow{w.logs}, "test", NewState, nil); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("audit: %v after %v", err, time.Since(began))
		}
	})
}

// lagging is Logs in which the first read of some logs is answered from the
// past. It notes which logs are read on, in order.
type lagging struct {
	*memory
	past   map[string]*stored
	readOn []string
}

func (l *lagging) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if from > 0 {
		l.readOn = append(l.readOn, log)
	} else if p := l.past[log]; p != nil {
		return p.head, p.entries, nil
	}
	return l.memory.Read(ctx, log, from, max)
}

// cuts are sales some of whose shards are first read as they were before others
// received something from them.
var cuts = map[string]struct {
	befalls func(w *world, past func(shards ...int))
	readOn  []int    // the shards, in order
	next    []uint64 // how far each is read
}{
	"nothing": {func(w *world, past func(...int)) { w.move(0, 1, 1, 3) }, nil, []uint64{4, 3, 2}},
	"a shard that has sent": {func(w *world, past func(...int)) {
		past(0)
		w.move(0, 1, 1, 2)
	}, []int{0}, []uint64{3, 3, 2}},
	"a shard that has received": {func(w *world, past func(...int)) {
		past(1)
		w.move(0, 1, 1, 3)
	}, []int{1}, []uint64{4, 3, 2}},
	"one beside another, which shows all": {func(w *world, past func(...int)) {
		past(1)
		w.move(0, 2, 1, 2)
		w.move(1, 2, 1, 2)
	}, []int{1}, []uint64{3, 3, 4}},
	"one that shows another to be behind, beside a transfer that nobody sent": {func(w *world, past func(...int)) {
		d := w.draft(2)
		if err := d.In(1, 1, Units{{1000, 1}}); err != nil {
			w.t.Fatal(err)
		}
		w.commit(2, d)
		past(0, 2)
		w.move(2, 0, 1, 2)
		w.move(0, 1, 1, 2)
	}, []int{0, 1, 2, 1, 1}, []uint64{4, 3, 4}},
	"a transfer from a shard that there is not": {func(w *world, past func(...int)) {
		d := w.draft(2)
		if err := d.In(worldShards, 1, Units{{1000, 1}}); err != nil {
			w.t.Fatal(err)
		}
		w.commit(2, d)
	}, nil, []uint64{2, 2, 3}},
}

// What a shard has received, another has sent: a sale that goes on is read to where
// that is so, and no further. The audit does it for its books, which know no states.
func TestReadsOnToACut(t *testing.T) {
	for name, test := range cuts {
		cut := func() (*world, *lagging) {
			w := newWorld(t)
			logs := &lagging{memory: w.logs, past: make(map[string]*stored)}
			first := make(map[string]*stored)
			test.befalls(w, func(shards ...int) {
				for _, i := range shards {
					first[w.shards[i].log] = new(*w.logs.logs[w.shards[i].log])
				}
			})
			for i, s := range w.shards {
				if past := first[s.log]; past != nil {
					logs.past[s.log] = past
					w.sell(1, i) // which nobody has to know of
				}
			}
			return w, logs
		}
		check := func(what string, w *world, logs *lagging, next func(int) uint64) {
			t.Helper()
			var want []string
			for _, i := range test.readOn {
				want = append(want, w.shards[i].log)
			}
			if !slices.Equal(slices.Compact(logs.readOn), slices.Compact(want)) { // a read that shows nothing new is repeated
				t.Errorf("%s, %s: read on were %v, want %v", name, what, logs.readOn, want)
			}
			for i, want := range test.next {
				if next(i) != want {
					t.Errorf("%s, %s: shard %d is read to slot %d, want %d", name, what, i, next(i), want)
				}
			}
		}
		w, logs := cut()
		states, err := LoadShards(t.Context(), logs, w.sale)
		if err != nil {
			t.Fatal(name, err)
		}
		check("folded", w, logs, func(i int) uint64 { return states[i].Next() })
		w, logs = cut()
		r, _, err := readRecount(t.Context(), logs, w.sale, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		check("booked", w, logs, func(i int) uint64 { return r.books[i].Next() })
	}
}

// A store that fails while the shards are read, or read on, is no end of their logs.
func TestCutsOfABrokenStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		past := map[string]*stored{w.shards[0].log: new(*w.logs.logs[w.shards[0].log])}
		w.move(0, 1, 1, 2)
		for name, logs := range map[string]Logs{
			"never read": broken{w.logs, w.shards[0].log},
			"never read, and no other shard knows of it": broken{w.logs, w.shards[2].log},
			"read once": brokenLater{&lagging{memory: w.logs, past: past}, w.shards[0].log},
		} {
			if _, err := LoadShards(t.Context(), logs, w.sale); !errors.Is(err, errBroken) {
				t.Errorf("%s: folded: %v", name, err)
			}
			if _, _, err := readRecount(t.Context(), logs, w.sale, 0); !errors.Is(err, errBroken) {
				t.Errorf("%s: booked: %v", name, err)
			}
		}
	})
}

// brokenLater is lagging Logs of which one log cannot be read on.
type brokenLater struct {
	*lagging
	log string
}

func (b brokenLater) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.log && from > 0 {
		return nil, nil, errBroken
	}
	return b.lagging.Read(ctx, log, from, max)
}

// TestLoadShardsReadsOnInOrder finds two shards behind a third, which has
// received from both, and reads them on in the order of their numbers.
func TestLoadShardsReadsOnInOrder(t *testing.T) {
	w := newWorld(t)
	past := make(map[string]*stored)
	var want []string
	for _, s := range w.shards[1:] {
		past[s.log] = new(*w.logs.logs[s.log])
		want = append(want, s.log)
	}
	w.move(1, 0, 1, 2)
	w.move(2, 0, 1, 2)
	for range 20 { // an order left to chance would be right each time once in a million
		logs := &lagging{memory: w.logs, past: past}
		if _, err := LoadShards(t.Context(), logs, w.sale); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(logs.readOn, want) {
			t.Fatalf("read on were %v, want %v", logs.readOn, want)
		}
	}
}
