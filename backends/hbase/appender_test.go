package hbase

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// callTimeout is how long an executor gives a call.
const callTimeout = 2 * time.Second

// tape is the state of a log of which only the slots matter.
type tape struct {
	next uint64
	root ledger.Hash
}

func (t *tape) Next() uint64      { return t.next }
func (t *tape) Root() ledger.Hash { return t.root }
func (t *tape) Fold(entry []byte) error {
	t.next, t.root = t.next+1, sha256.Sum256(entry)
	return nil
}

// appender writes to a log by the ledger's protocol, as an executor does: one
// entry after the other, each until it is known to be stored.
type appender struct {
	logs ledger.Logs
	log  string
	size int

	w     *ledger.Writer
	tape  *tape
	now   clock.Clock
	acked map[uint64]ledger.Hash // what was acknowledged

	count   atomic.Int64 // of acked
	failed  atomic.Int64 // calls that did
	unknown int          // appends among them
}

func newAppender(logs ledger.Logs, log string, size int) *appender {
	a := &appender{logs: logs, log: log, size: size, now: clock.System(), acked: make(map[uint64]ledger.Hash), tape: new(tape)}
	a.w = ledger.NewWriter(log, a.tape)
	return a
}

// run appends until ctx ends. An append that is under way then counts as not
// acknowledged.
func (a *appender) run(ctx context.Context) error {
	if event, err := a.drive(ctx, a.w.CatchUp()); event != ledger.CaughtUp {
		return err
	}
	for ctx.Err() == nil {
		if err := a.append(ctx); err != nil {
			return err
		}
	}
	return nil
}

// append stores one entry. It returns nil without one when ctx ends.
func (a *appender) append(ctx context.Context) error {
	entry := entryOf(a.log, a.tape.next, a.size)
	hash := ledger.Hash(sha256.Sum256(entry))
	e := &ledger.Entry{Bytes: entry, Hash: hash, Head: headOfEntry(a.tape.next, entry)}
	event, err := a.drive(ctx, a.w.Append(e))
	for event == ledger.Again { // nobody deletes these logs
		event, err = a.drive(ctx, a.w.Resend())
	}
	switch {
	case event == ledger.Committed:
		a.acked[a.tape.next] = hash
		a.count.Add(1)
		return a.tape.Fold(entry)
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s, slot %d: event %d", a.log, a.tape.next, event)
}

// entryOf is what an appender stores in a slot.
func entryOf(log string, slot uint64, size int) []byte {
	return append(fmt.Appendf(nil, "%s, slot %d;", log, slot), bytes.Repeat([]byte("x"), size)...)
}

func headOfEntry(slot uint64, entry []byte) []byte {
	return ledger.Head{Slot: slot, Hash: sha256.Sum256(entry)}.Encode()
}

// drive makes the calls of the protocol until it has an event.
func (a *appender) drive(ctx context.Context, do ledger.Do) (ledger.Event, error) {
	for do.Event == ledger.Nothing {
		if ctx.Err() != nil {
			return ledger.Nothing, nil
		}
		if do.Send == nil {
			_ = ledger.Wait(ctx, a.logs, do.Wake-a.now().Mono)
			do = a.w.Tick(a.now())
			continue
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		reply := do.Send.Do(call, a.logs)
		cancel()
		if reply.Err != nil {
			a.failed.Add(1)
			if do.Send.Kind == ledger.AppendRequest {
				a.unknown++
			}
		}
		do = a.w.Done(a.now(), reply)
	}
	return do.Event, do.Err
}

// crowd is some appenders at work, each on a row of its own.
type crowd struct {
	all  []*appender
	stop context.CancelFunc
	busy sync.WaitGroup
}

// startCrowd lets them append until the crowd is checked.
func startCrowd(t *testing.T, logs ledger.Logs, prefix string, rows, size int) *crowd {
	c := new(crowd)
	var ctx context.Context
	ctx, c.stop = context.WithCancel(t.Context())
	for row := range rows {
		a := newAppender(logs, fmt.Sprintf("%02x/%s%d", row*256/rows, prefix, row), size)
		c.all = append(c.all, a)
		c.busy.Go(func() {
			if err := a.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { c.stop(); c.busy.Wait() })
	return c
}

// more waits until every appender has stored some more entries, and returns how
// long the last of them took.
func (c *crowd) more(t *testing.T, entries int64) time.Duration {
	t.Helper()
	return c.await(t, "entries stored", entries, func(a *appender) int64 { return a.count.Load() })
}

// suffer waits until every appender has had one more call that failed.
func (c *crowd) suffer(t *testing.T) {
	t.Helper()
	c.await(t, "failed calls", 1, func(a *appender) int64 { return a.failed.Load() })
}

func (c *crowd) await(t *testing.T, what string, more int64, count func(*appender) int64) time.Duration {
	t.Helper()
	begin := time.Now()
	want := make([]int64, len(c.all))
	for i, a := range c.all {
		want[i] = count(a) + more
	}
	wait.UntilNil(t, what, func() error {
		for i, a := range c.all {
			if n := count(a); n < want[i] {
				return fmt.Errorf("%s: %d of %d", a.log, n, want[i])
			}
		}
		return nil
	})
	return time.Since(begin)
}

// check stops all appenders, and checks on a new handle that every acknowledged append is
// stored.
func (c *crowd) check(t *testing.T, fresh ledger.Logs) {
	t.Helper()
	c.stop()
	c.busy.Wait()
	acked, unknown := 0, 0
	for _, a := range c.all {
		read := new(tape)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := ledger.Load(ctx, hashes{fresh, t, a}, a.log, read); err != nil {
			t.Error(err)
		}
		cancel()
		// The last append may have been stored without a word.
		if n := uint64(len(a.acked)); read.next < n || read.next > n+1 {
			t.Errorf("%s has %d slots, %d were acknowledged", a.log, read.next, n)
		}
		acked, unknown = acked+len(a.acked), unknown+a.unknown
	}
	t.Logf("%d entries acknowledged and there; %d appends had an unknown outcome", acked, unknown)
}

// hashes compares the entries that are read with those that were acknowledged.
type hashes struct {
	ledger.Logs
	t *testing.T
	a *appender
}

func (h hashes) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	head, entries, err := h.Logs.Read(ctx, log, from, max)
	for i, e := range entries {
		slot := from + uint64(i)
		if want, ok := h.a.acked[slot]; ok && want != sha256.Sum256(e) {
			h.t.Errorf("%s: slot %d is not what was acknowledged", log, slot)
		}
	}
	return head, entries, err
}
