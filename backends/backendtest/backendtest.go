// Package backendtest holds every backend to what it promised. TestLogs, TestNode and
// TestLists are the promises of ledger.Logs, quorum.Node and lists.Node, one subtest
// each; a backend's own test is a call of them.
package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// logUnderTest is one log and what it must hold.
type logUnderTest struct {
	logs    ledger.Logs
	name    string
	first   uint64   // slot of entries[0]
	entries [][]byte // acknowledged, in order
	head    []byte
}

// headOf makes a head that names its slot and whoever wrote it.
func headOf(slot uint64, writer string) []byte {
	return fmt.Appendf(nil, `{"slot":%d,"writer":%q}`, slot, writer)
}

// mustAppend appends entry to the next slot.
func (l *logUnderTest) mustAppend(t *testing.T, entry []byte) {
	t.Helper()
	slot := l.first + uint64(len(l.entries))
	head := headOf(slot, "one")
	if err := l.logs.Append(t.Context(), l.name, slot, l.head, head, entry); err != nil {
		t.Fatalf("append to %q, slot %d: %v", l.name, slot, err)
	}
	l.head = head
	l.entries = append(l.entries, entry)
}

// fill begins a log and appends some entries to it.
func fill(t *testing.T, logs ledger.Logs, name string, entries int) *logUnderTest {
	t.Helper()
	l := &logUnderTest{logs: logs, name: name}
	for i := range entries {
		l.mustAppend(t, fmt.Appendf(nil, "%s, entry %d", name, i))
	}
	return l
}

// wantOn checks that a handle reads the log as it must be.
func (l *logUnderTest) wantOn(t *testing.T, logs ledger.Logs) {
	t.Helper()
	wantRead(t, logs, l.name, l.first, 1<<20, l.head, l.entries)
}

// wantRead checks what a handle reads. A read may lag behind, so wantRead repeats it for a
// while before it fails.
func wantRead(t *testing.T, logs ledger.Logs, name string, from uint64, max int, head []byte, entries [][]byte) {
	t.Helper()
	wait.UntilNil(t, fmt.Sprintf("the entries of %q", name), func() error {
		gotHead, got, err := logs.Read(t.Context(), name, from, max)
		switch {
		case err != nil:
			return fmt.Errorf("read %q from %d: %w", name, from, err)
		case !bytes.Equal(gotHead, head) || (gotHead == nil) != (head == nil):
			return fmt.Errorf("read %q from %d: the head is %q, want %q", name, from, gotHead, head)
		case len(got) != len(entries):
			return fmt.Errorf("read %q from %d, at most %d: %d entries, want %d", name, from, max, len(got), len(entries))
		}
		for i := range got {
			if !bytes.Equal(got[i], entries[i]) {
				return fmt.Errorf("read %q: slot %d has %d bytes %.40q, want %d bytes %.40q",
					name, from+uint64(i), len(got[i]), got[i], len(entries[i]), entries[i])
			}
		}
		return nil
	})
}

// race runs all functions at the same time, as far as the machine can, and
// returns when all have.
func race(racers ...func()) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for _, r := range racers {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			r()
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// within runs call under a context that has ended before, and fails if it does
// not return soon. What it returns is up to it.
func within(t *testing.T, what string, call func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	select {
	case <-returned:
	case <-time.After(wait.Limit):
		t.Fatalf("%s under an ended context had not returned after %v", what, wait.Limit)
	}
}
