package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// plug keeps the writer in the middle of a transaction until release is called.
func plug(t *testing.T, w *writer) (release func()) {
	t.Helper()
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.do(context.Background(), &change{creates: true, step: func(*sqlite.Conn) (answer, failed error) {
			close(begun)
			<-end
			return nil, nil
		}})
	}()
	<-begun
	release = sync.OnceFunc(func() {
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(release)
	return release
}

// What queues during a transaction is committed in one, each change answered
// by itself.
func TestGroupCommit(t *testing.T) {
	const logs = 50
	dir := t.TempDir()
	path := filepath.Join(dir, ledgerFile)
	store := mustOpenLogs(t, dir)
	makeLedger(t, dir, 1)
	release := plug(t, store.writer)
	before := countCommits(t, path)
	errs := make([]error, logs)
	var all sync.WaitGroup
	gone, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range logs {
		c := &chain{logs: store, log: fmt.Sprint(i)}
		ctx := t.Context()
		switch i % 10 {
		case 3: // loses
			c.head = []byte("never was")
		case 5: // leaves
			ctx = gone
		}
		all.Go(func() { errs[i] = c.append(ctx, []byte("entry")) })
	}
	wait.Until(t, "all appends in the queue", func() bool { return queued(store.writer) == logs })
	cancel()
	release()
	all.Wait()

	for i, err := range errs {
		want := map[int]error{3: ledger.ErrTaken, 5: context.Canceled}[i%10]
		if !errors.Is(err, want) {
			t.Errorf("append %d: %v, want %v", i, err, want)
		}
		head, _, err := store.Read(t.Context(), fmt.Sprint(i), 0, 1)
		if err != nil || (head != nil) != (want == nil) {
			t.Errorf("log %d has the head %q, %v; it was answered %v", i, head, err, want)
		}
	}
	if n := countCommits(t, path) - before; n != 1 {
		t.Errorf("%d transactions for all that queued behind one, want 1", n)
	}
}

func queued(w *writer) int { return len(w.queue) }

func isClosed(w *writer) bool {
	open := w.calls.TryRLock()
	if open {
		w.calls.RUnlock()
	}
	return !open
}

// countCommits counts the frames of the write-ahead log that end a transaction.
func countCommits(t *testing.T, path string) (n int) {
	t.Helper()
	const header, frameHeader = 32, 24
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for at := header; at+frameHeader+pageSize <= len(wal); at += frameHeader + pageSize {
		if pages := binary.BigEndian.Uint32(wal[at+4:]); pages != 0 {
			n++
		}
	}
	return n
}

func TestClose(t *testing.T) {
	dir := t.TempDir()
	logs, node := mustOpenLogs(t, dir), mustOpenNode(t, dir, time.Now)
	c := &chain{logs: logs, log: "log"}
	c.mustAppend(t, []byte("before"))
	release := plug(t, logs.writer)
	appended, closed := make(chan error, 1), make(chan error, 1)
	go func() { appended <- c.append(t.Context(), []byte("under way")) }()
	wait.Until(t, "an append in the queue", func() bool { return queued(logs.writer) == 1 })
	go func() { closed <- logs.Close() }()
	wait.Until(t, "a writer that closes", func() bool { return isClosed(logs.writer) })
	select {
	case <-closed:
		t.Fatal("Close has not waited for the append that is under way")
	default:
	}
	release()
	if err := errors.Join(<-appended, <-closed); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"append":      c.append(t.Context(), nil),
		"delete":      logs.Delete(t.Context(), "log", 0),
		"read":        func() error { _, _, err := logs.Read(t.Context(), "log", 0, 1); return err }(),
		"close again": errors.Join(logs.Close(), logs.Close(), ErrClosed),
		"node":        errors.Join(node.Close(), node.Mark(t.Context(), "marker", "")),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	_, entries, err := mustOpenLogs(t, dir).Read(t.Context(), "log", 0, 10)
	if len(entries) != 2 || err != nil {
		t.Errorf("%d entries, %v; want 2", len(entries), err)
	}
}

// Beside a process that writes without end, another one gets its turns.
func TestAnotherWriterGetsIn(t *testing.T) {
	dir := t.TempDir()
	busy := startAppending(t, dir)
	busy.mustAcknowledge(t)
	// Unread acknowledgements would fill the pipe and stop it.
	var reading sync.WaitGroup
	reading.Go(func() {
		for busy.acknowledge() == nil {
		}
	})
	defer func() {
		busy.Process.Kill()
		reading.Wait()
		busy.Wait()
	}()
	other := &chain{logs: mustOpenLogs(t, dir), log: "other"}
	var longest time.Duration
	for range 30 {
		begin := time.Now()
		other.mustAppend(t, []byte("entry"))
		longest = max(longest, time.Since(begin))
	}
	t.Logf("the longest wait was %v", longest)
	if longest > lockWait/2 {
		t.Errorf("the longest wait was %v", longest)
	}
}

// What a killed process left of deleted logs is freed by the next Delete, and
// never shows in a new log of the name.
func TestDeleteGoesOn(t *testing.T) {
	dir := t.TempDir()
	makeLedger(t, dir, 400)
	logs := mustOpenLogs(t, dir)
	second := &chain{logs: logs, log: "log 1"}
	for range 300 {
		second.mustAppend(t, entryOf(second.next))
	}
	begin := func(log string) *deletion {
		d := &deletion{log: log, upTo: 1 << 40}
		if err := logs.writer.do(t.Context(), &change{step: d.step}); err != nil || d.done {
			t.Fatalf("the first step of a deletion: done %t, %v; want some left", d.done, err)
		}
		return d
	}
	begun := begin("log 0")
	begin("log 1")
	again := &chain{logs: logs, log: "log 0"}
	again.mustAppend(t, entryOf(0))
	wantEntries(t, logs, "log 0", 1)
	if n := countRows(t, dir, "garbage"); n != 2 {
		t.Fatalf("%d deleted logs have entries left, want 2", n)
	}

	// The one that goes on leaves the new log of its name alone.
	if err := logs.writer.do(t.Context(), &change{step: begun.step}); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, logs, "log 0", 1)
	if err := logs.Delete(t.Context(), "something else", 0); err != nil {
		t.Fatal(err)
	}
	if entries, garbage := countRows(t, dir, "entries"), countRows(t, dir, "garbage"); entries != 1 || garbage != 0 {
		t.Errorf("%d entries and %d deleted logs are left, want 1 and 0", entries, garbage)
	}
	wantEntries(t, logs, "log 0", 1)
}

func countRows(t *testing.T, dir, table string) (n int64) {
	t.Helper()
	db := ledgerDatabase(dir)
	s, err := db.open(false)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(db.path), err)
	}
	defer s.Close()
	stmt, err := s.Prepare("SELECT count(*) FROM " + table)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stmt.Step(); err != nil {
		t.Fatal(err)
	}
	return stmt.ColumnInt64(0)
}
