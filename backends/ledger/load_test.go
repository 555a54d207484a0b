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
	*MemoryLogs
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
	return s.MemoryLogs.Read(ctx, log, from, max)
}

func failing(times int) []Reply {
	replies := make([]Reply, times)
	for i := range replies {
		replies[i].Err = ErrBroken
	}
	return replies
}

func TestLoad(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*World, *scripted)
		want   error
		next   uint64
	}{
		"whole":            {func(*World, *scripted) {}, nil, 2},
		"more than a read": {func(w *World, _ *scripted) { w.TimesCommit(0, 3*readAtOnce) }, nil, 2 + 3*readAtOnce},
		"absent":           {func(w *World, _ *scripted) { clear(w.Logs.Logs) }, nil, 0},
		"some errors":      {func(_ *World, s *scripted) { s.replies = failing(ReadTries - 1) }, nil, 2},
		"errors on the way": {func(w *World, s *scripted) {
			l := w.Logs.Logs[w.Shards[0].log]
			s.replies = slices.Concat(failing(ReadTries-1), []Reply{{Head: l.Head, Entries: l.Entries[:1]}}, failing(ReadTries-1))
		}, nil, 2},
		"errors":            {func(_ *World, s *scripted) { s.replies = failing(ReadTries) }, ErrBroken, 0},
		"a noise of a head": {func(w *World, _ *scripted) { w.Logs.Logs[w.Shards[0].log].Head = []byte("{") }, ErrCorrupt, 2},
		"a lost last slot": {func(w *World, _ *scripted) {
			l := w.Logs.Logs[w.Shards[0].log]
			l.Entries = l.Entries[:1]
		}, ErrCorrupt, 1},
		"a lost log": {func(w *World, _ *scripted) { w.Logs.Logs[w.Shards[0].log].Entries = nil }, ErrCorrupt, 0},
		"a head from the past": {func(w *World, _ *scripted) {
			head := w.Logs.Logs[w.Shards[0].log].Head
			w.TimesCommit(0, 1)
			w.Logs.Logs[w.Shards[0].log].Head = head
		}, ErrCorrupt, 3},
		"gone in between": {func(w *World, s *scripted) {
			l := w.Logs.Logs[w.Shards[0].log]
			s.replies = []Reply{{Head: l.Head, Entries: l.Entries[:1]}}
			clear(w.Logs.Logs)
		}, ErrGone, 1},
		"slow to show": {func(w *World, s *scripted) {
			for range ReadTries - 1 {
				s.replies = append(s.replies, Reply{Head: w.Logs.Logs[w.Shards[0].log].Head})
			}
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // pauses take no time
				w := NewWorld(t)
				logs := &scripted{MemoryLogs: w.Logs}
				test.before(w, logs)
				s := NewState(w.Shards[0].log)
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

// What the store does not permit it does not permit a second later either.
func TestLoadIsNotPermitted(t *testing.T) {
	w := NewWorld(t)
	denied := fmt.Errorf("the file: %w", fs.ErrPermission)
	logs := &scripted{MemoryLogs: w.Logs, replies: []Reply{{Err: ErrBroken}, {Err: denied}}}
	_, err := Load(t.Context(), logs, w.Shards[0].log, NewState(w.Shards[0].log))
	if !errors.Is(err, denied) || logs.reads != 2 {
		t.Errorf("%d reads, %v", logs.reads, err)
	}
}

func TestLoadEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		logs := &scripted{MemoryLogs: w.Logs, replies: failing(ReadTries)}
		if _, err := Load(ctx, logs, w.Shards[0].log, NewState(w.Shards[0].log)); !errors.Is(err, context.DeadlineExceeded) {
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
		w := NewWorld(t)
		logs := &scripted{MemoryLogs: w.Logs, replies: failing(4)}
		time.Sleep(time.Hour)
		began := time.Now()
		if _, err := Load(t.Context(), logs, w.Shards[0].log, NewState(w.Shards[0].log)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 150*time.Millisecond { // 10, 20, 40 and 80
			t.Errorf("took %v", took)
		}
	})
}

// TestLoadedWriterAppends checks that what Load returns goes on where it ended.
func TestLoadedWriterAppends(t *testing.T) {
	w := NewWorld(t)
	s := NewState(w.Shards[0].log)
	writer, err := Load(t.Context(), w.Logs, s.log, s)
	if err != nil {
		t.Fatal(err)
	}
	d := s.Draft(TestOwner, 0)
	d.Claim("u", "k", 1)
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now{}
	do := writer.Append(e)
	if do = writer.Done(now, do.Send.Do(t.Context(), w.Logs)); do.Event != Committed {
		t.Fatalf("%+v", do)
	}
	if l := w.Logs.Logs[s.log]; !bytes.Equal(l.Head, e.Head) || !bytes.Equal(l.Entries[len(l.Entries)-1], e.Bytes) {
		t.Error("the entry is not in the log")
	}
}

// TestLoadPages reads small entries a page at a time, however many that are.
func TestLoadPages(t *testing.T) {
	w := NewWorld(t)
	w.TimesCommit(0, 20*readAtOnce)
	logs := &scripted{MemoryLogs: w.Logs}
	if _, err := Load(t.Context(), logs, w.Shards[0].log, NewState(w.Shards[0].log)); err != nil || logs.reads != 2 {
		t.Errorf("%v, %d reads", err, logs.reads)
	}
}

// lagging is Logs in which the first read of some logs is answered from the
// past. It notes which logs are read on, in order.
type LaggingLogs struct {
	*MemoryLogs
	Past   map[string]*StoredLog
	ReadOn []string
}

func (l *LaggingLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if from > 0 {
		l.ReadOn = append(l.ReadOn, log)
	} else if p := l.Past[log]; p != nil {
		return p.Head, p.Entries, nil
	}
	return l.MemoryLogs.Read(ctx, log, from, max)
}

// TestLoadShardsReadsOnInOrder finds two shards behind a third, which has
// received from both, and reads them on in the order of their numbers.
func TestLoadShardsReadsOnInOrder(t *testing.T) {
	w := NewWorld(t)
	past := make(map[string]*StoredLog)
	var want []string
	for _, s := range w.Shards[1:] {
		past[s.log] = new(*w.Logs.Logs[s.log])
		want = append(want, s.log)
	}
	w.Move(1, 0, 1, 2)
	w.Move(2, 0, 1, 2)
	for range 20 { // an order left to chance would be right each time once in a million
		logs := &LaggingLogs{MemoryLogs: w.Logs, Past: past}
		if _, err := LoadShards(t.Context(), logs, w.Sale); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(logs.ReadOn, want) {
			t.Fatalf("read on were %v, want %v", logs.ReadOn, want)
		}
	}
}
