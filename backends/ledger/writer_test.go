package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
)

var ErrBroken = errors.New("broken")

// trial is a Writer that has read a log of two slots and has an entry to
// append, beside what somebody else could have written into the same slot.
type trial struct {
	w      *Writer
	s      *State
	before Reply // the log as it is
	mine   *Entry
	theirs *Entry
	now    clock.Now
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	b := &trial{s: NewState(testLog)}
	other, stored := MustOpenShard(t, 10, 5)
	b.before = Reply{Head: stored[1].Head, Entries: [][]byte{stored[0].Bytes, stored[1].Bytes}}
	b.w = NewWriter(testLog, b.s)
	b.w.CatchUp()
	if do := b.w.Done(b.now, b.before); do.Event != CaughtUp || !b.w.Idle() {
		t.Fatalf("a log read whole: %+v", do)
	}
	d := other.Draft([]byte("other"), 30)
	d.Own("other:1")
	b.theirs = MustCommit(t, other, d)
	d = b.s.Draft(TestOwner, 30)
	d.Claim("u", "k", 1)
	mine, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b.mine = mine
	return b
}

// wantAppend checks that a step sends the entry against the head that was read.
func (b *trial) wantAppend(t *testing.T, do Do) {
	t.Helper()
	if r := do.Send; r == nil || r.Kind != AppendRequest || r.Slot != 2 || r.Log != testLog ||
		!bytes.Equal(r.Prev, b.before.Head) || !bytes.Equal(r.Entry, b.mine.Bytes) || !bytes.Equal(r.Head, b.mine.Head) {
		t.Fatalf("not the entry was sent: %+v", do)
	}
}

func (b *trial) wantRead(t *testing.T, do Do, slot uint64) {
	t.Helper()
	if r := do.Send; r == nil || r.Kind != ReadRequest || r.Slot != slot || r.Max < 1 {
		t.Fatalf("no read from slot %d: %+v", slot, do)
	}
}

// wait lets a pause pass, not a moment too early.
func (b *trial) wait(t *testing.T, do Do) Do {
	t.Helper()
	if do.Wake <= b.now.Mono || do.Wake > b.now.Mono+lastRetry || do.Send != nil || do.Event != Nothing || b.w.Idle() {
		t.Fatalf("no pause: %+v", do)
	}
	b.now.Mono = do.Wake - 1
	if early := b.w.Tick(b.now); early.Send != nil || early.Wake != do.Wake {
		t.Fatalf("woken early: %+v", early)
	}
	b.now.Mono++
	return b.w.Tick(b.now)
}

// What the slot may hold when it is read after an append, and what must follow.
var slotHolds = map[string]struct {
	reply func(*trial) Reply
	then  func(*testing.T, *trial, Do)
}{
	"my entry": {
		func(b *trial) Reply { return Reply{Head: b.mine.Head, Entries: [][]byte{b.mine.Bytes}} },
		func(t *testing.T, b *trial, do Do) { b.wantCommitted(t, do) },
	},
	"my entry and another's after it": {
		func(b *trial) Reply {
			return Reply{Head: b.theirs.Head, Entries: [][]byte{b.mine.Bytes, b.theirs.Bytes}}
		},
		func(t *testing.T, b *trial, do Do) { b.wantCommitted(t, do) },
	},
	"another's entry": {
		func(b *trial) Reply { return Reply{Head: b.theirs.Head, Entries: [][]byte{b.theirs.Bytes}} },
		func(t *testing.T, b *trial, do Do) { b.wantTaken(t, do) },
	},
	"another's entry, read with an old head": {
		func(b *trial) Reply { return Reply{Head: b.before.Head, Entries: [][]byte{b.theirs.Bytes}} },
		func(t *testing.T, b *trial, do Do) {
			b.wantRead(t, do, 3)
			do = b.w.Done(b.now, Reply{Head: b.before.Head}) // it lags still
			b.wantRead(t, b.wait(t, do), 3)
			b.wantTaken(t, b.w.Done(b.now, Reply{Head: b.theirs.Head}))
		},
	},
	"nothing": {
		func(b *trial) Reply { return Reply{Head: b.before.Head} },
		func(t *testing.T, b *trial, do Do) {
			if !b.inDoubt() {
				t.Error("not in doubt")
			}
			b.wantAppend(t, b.wait(t, do))
			b.wantCommitted(t, b.w.Done(b.now, Reply{}))
		},
	},
	"nothing, under a newer head": {
		func(b *trial) Reply { return Reply{Head: b.theirs.Head} },
		func(t *testing.T, b *trial, do Do) {
			b.wantAppend(t, b.wait(t, do)) // cannot win any more, and does no harm
			b.wantRead(t, b.w.Done(b.now, Reply{Err: ErrTaken}), 2)
		},
	},
	"an unknown": {
		func(b *trial) Reply { return Reply{Err: ErrBroken} },
		func(t *testing.T, b *trial, do Do) { b.wantRead(t, b.wait(t, do), 2) },
	},
	"no log": {
		func(b *trial) Reply { return Reply{} },
		func(t *testing.T, b *trial, do Do) {
			if do.Event != Gone || do.Send != nil || do.Wake != 0 {
				t.Errorf("a log that is gone: %+v", do)
			}
			if do := b.w.Tick(b.now); do.Send != nil {
				t.Errorf("sent after it was gone: %+v", do)
			}
		},
	},
	"noise": {
		func(b *trial) Reply { return Reply{Head: b.theirs.Head, Entries: [][]byte{[]byte("noise")}} },
		func(t *testing.T, b *trial, do Do) {
			if do.Event != Damaged || !errors.Is(do.Err, ErrCorrupt) {
				t.Errorf("noise: %+v", do)
			}
		},
	},
}

// inDoubt reports whether the outcome of an append is unknown.
func (b *trial) inDoubt() bool { return b.w.sent != nil && b.w.tries > 0 }

func (b *trial) wantCommitted(t *testing.T, do Do) {
	t.Helper()
	if do.Event != Committed || do.Send != nil || do.Wake != 0 || !b.w.Idle() {
		t.Fatalf("not committed: %+v", do)
	}
	if b.inDoubt() || b.s.Next() != 2 {
		t.Fatalf("in doubt %v, next %d: applying it is the caller's", b.inDoubt(), b.s.Next())
	}
}

func (b *trial) wantTaken(t *testing.T, do Do) {
	t.Helper()
	if do.Event != Taken || do.Send != nil || do.Wake != 0 || !b.w.Idle() || b.s.Next() != 3 || b.s.IsOwner(TestOwner) {
		t.Fatalf("not taken: %+v", do)
	}
	next := b.w.Append(b.mine)
	if !bytes.Equal(next.Send.Prev, b.theirs.Head) || next.Send.Slot != 3 {
		t.Errorf("the next append follows slot %d: %+v", next.Send.Slot, next)
	}
}

func TestWriterOutcomes(t *testing.T) {
	for outcome, err := range map[string]error{"taken": ErrTaken, "unknown": ErrBroken} {
		for holds, slot := range slotHolds {
			t.Run(outcome+", the slot holds "+holds, func(t *testing.T) {
				b := newTrial(t)
				b.wantAppend(t, b.w.Append(b.mine))
				b.wantRead(t, b.w.Done(b.now, Reply{Err: err}), 2)
				slot.then(t, b, b.w.Done(b.now, slot.reply(b)))
			})
		}
	}
	t.Run("stored", func(t *testing.T) {
		b := newTrial(t)
		b.w.Append(b.mine)
		b.wantCommitted(t, b.w.Done(b.now, Reply{}))
	})
	t.Run("too large", func(t *testing.T) {
		b := newTrial(t)
		b.w.Append(b.mine)
		if do := b.w.Done(b.now, Reply{Err: ErrTooLarge}); do.Event != TooLarge || do.Send != nil || !b.w.Idle() {
			t.Errorf("too large: %+v", do)
		}
	})
}

// TestWriterPatience checks that pauses grow.
func TestWriterPatience(t *testing.T) {
	b := newTrial(t)
	b.now.Mono = time.Minute
	b.w.Append(b.mine)
	last := time.Duration(0)
	for range 20 {
		do := b.w.Done(b.now, Reply{Err: ErrBroken})
		do = b.w.Done(b.now, Reply{Head: b.before.Head})
		if pause := do.Wake - b.now.Mono; pause < last {
			t.Fatalf("a pause of %v after one of %v", pause, last)
		} else {
			last = pause
		}
		b.wantAppend(t, b.wait(t, do))
		if !b.inDoubt() {
			t.Fatal("not in doubt")
		}
	}
	if last != lastRetry {
		t.Errorf("the longest pause is %v", last)
	}
	b.wantCommitted(t, b.w.Done(b.now, Reply{}))
}

// TestWriterCreates creates a log, which is sent again only if the caller requests
// it: the log might have been deleted meanwhile.
func TestWriterCreates(t *testing.T) {
	s := NewState(testLog)
	first := mustGeneration(t, NewState(testLog), 10, 1)
	begin := func(t *testing.T) *Writer {
		w := NewWriter(testLog, s)
		w.CatchUp()
		if do := w.Done(clock.Now{}, Reply{}); do.Event != CaughtUp || s.Next() != 0 {
			t.Fatalf("no log: %+v", do)
		}
		if do := w.Append(first); do.Send.Prev != nil || do.Send.Slot != 0 {
			t.Fatalf("a create: %+v", do.Send)
		}
		if do := w.Done(clock.Now{}, Reply{Err: ErrBroken}); do.Send.Kind != ReadRequest {
			t.Fatalf("an unknown create: %+v", do)
		}
		return w
	}
	t.Run("again", func(t *testing.T) {
		w := begin(t)
		do := w.Done(clock.Now{}, Reply{})
		if do.Event != Again || do.Send != nil || do.Wake != 0 || w.Idle() {
			t.Fatalf("a create that is not there: %+v", do)
		}
		if do := w.Resend(); do.Send.Kind != AppendRequest || !bytes.Equal(do.Send.Entry, first.Bytes) || do.Send.Prev != nil {
			t.Fatalf("sent again: %+v", do)
		}
		if do := w.Done(clock.Now{}, Reply{}); do.Event != Committed {
			t.Fatalf("stored: %+v", do)
		}
	})
	t.Run("given up", func(t *testing.T) {
		w := begin(t)
		w.Done(clock.Now{}, Reply{})
		w.Abandon()
		if do := w.Tick(clock.Now{Mono: time.Hour}); do.Send != nil || !w.Idle() {
			t.Fatalf("after giving up: %+v", do)
		}
		w.CatchUp() // it was stored all the same
		if do := w.Done(clock.Now{}, Reply{Err: ErrBroken}); do.Wake != firstRetry {
			t.Fatalf("the first pause of the new read is %v", do.Wake)
		}
		w.Tick(clock.Now{Mono: firstRetry})
		if do := w.Done(clock.Now{}, Reply{Head: first.Head, Entries: [][]byte{first.Bytes}}); do.Event != CaughtUp || s.Next() != 1 {
			t.Fatalf("read: %+v", do)
		}
	})
}

// TestWriterReads reads a log in pieces, and heads that do not fit yet.
func TestWriterReads(t *testing.T) {
	entries := threeSlots(t)
	whole := NewState(testLog)
	var heads [][]byte
	for _, e := range entries {
		if err := whole.Fold(e); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, whole.Head().Encode())
	}
	wrong := whole.Head()
	wrong.Hash[0] ^= 1
	for name, test := range map[string]struct {
		replies []Reply
		want    Event
	}{
		"at once":               {[]Reply{{Head: heads[2], Entries: entries}}, CaughtUp},
		"one by one":            {[]Reply{{Head: heads[2], Entries: entries[:1]}, {Head: heads[2], Entries: entries[1:2]}, {Head: heads[2], Entries: entries[2:]}}, CaughtUp},
		"while it grows":        {[]Reply{{Head: heads[1], Entries: entries[:1]}, {Head: heads[2], Entries: entries[1:]}}, CaughtUp},
		"as it was":             {[]Reply{{Head: heads[1], Entries: entries[:2]}}, CaughtUp},
		"the head lags":         {[]Reply{{Head: heads[0], Entries: entries}, {Head: heads[0]}, {Head: heads[2]}}, CaughtUp},
		"the slots lag":         {[]Reply{{Head: heads[2]}, {Head: heads[2], Entries: entries[:1]}, {Head: heads[2]}, {Head: heads[2], Entries: entries[1:]}}, CaughtUp},
		"with errors":           {[]Reply{{Err: ErrBroken}, {Head: heads[2], Entries: entries[:2]}, {Err: ErrBroken}, {Head: heads[2], Entries: entries[2:]}}, CaughtUp},
		"nothing there":         {[]Reply{{}}, CaughtUp},
		"deleted meanwhile":     {[]Reply{{Head: heads[2], Entries: entries[:1]}, {}}, Gone},
		"a head of other bytes": {[]Reply{{Head: wrong.Encode(), Entries: entries}}, Damaged},
		"a head of noise":       {[]Reply{{Head: []byte("noise"), Entries: entries}}, Damaged},
		"an empty head":         {[]Reply{{Head: []byte{}}}, Damaged},
		"a head of no slot":     {[]Reply{{Head: Head{Slot: math.MaxUint64}.Encode()}, {}}, CaughtUp},
		"a slot lost":           {[]Reply{{Head: heads[2], Entries: slices.Concat(entries[:1], entries[2:])}}, Damaged},
	} {
		t.Run(name, func(t *testing.T) {
			b := &trial{w: NewWriter(testLog, NewState(testLog))}
			do := b.w.CatchUp()
			for i, r := range test.replies {
				if do.Wake != 0 {
					do = b.wait(t, do)
				}
				if do.Event != Nothing || do.Send == nil || do.Send.Kind != ReadRequest {
					t.Fatalf("before reply %d: %+v", i, do)
				}
				do = b.w.Done(b.now, r)
			}
			if do.Event != test.want || do.Send != nil || (do.Event == Damaged) != errors.Is(do.Err, ErrCorrupt) {
				t.Errorf("in the end: %+v", do)
			}
		})
	}
}

// A writer that has read a log is not at its end where a head is of later slots, which
// the read does not show yet.
func TestWriterReadsOn(t *testing.T) {
	b := newTrial(t)
	b.w.CatchUp()
	do := b.w.Done(b.now, Reply{Head: b.theirs.Head})
	b.wantRead(t, b.wait(t, do), 2)
	if do := b.w.Done(b.now, Reply{Head: b.theirs.Head, Entries: [][]byte{b.theirs.Bytes}}); do.Event != CaughtUp || b.s.Next() != 3 {
		t.Errorf("read on: %+v", do)
	}
}

// After each new slot the pauses begin anew.
func TestWriterPausesAfterForeignEntries(t *testing.T) {
	other, stored := MustOpenShard(t, 10, 5)
	b := &trial{w: NewWriter(testLog, NewState(testLog)), s: other}
	do := b.w.CatchUp()
	for _, entry := range [][]byte{nil, nil, stored[0].Bytes, nil} {
		if entry != nil {
			b.wantRead(t, b.w.Done(b.now, Reply{Head: stored[1].Head, Entries: [][]byte{entry}}), 1)
		}
		do = b.w.Done(b.now, Reply{Err: ErrBroken})
		if entry != nil && do.Wake-b.now.Mono != firstRetry {
			t.Errorf("the first pause after a new entry is %v", do.Wake-b.now.Mono)
		}
		b.wait(t, do)
	}
}

// Of large entries no more are read at once than make a page.
func TestWriterReadsPages(t *testing.T) {
	s, stored := MustOpenShard(t, 10, 5)
	d := s.Draft(TestOwner, 30)
	for i := range 5 {
		d.Claim(fmt.Sprint("u", i), strings.Repeat("k", 50_000), 1)
	}
	large := MustCommit(t, s, d)
	next := MustCommit(t, s, s.Draft(TestOwner, 31))
	w := NewWriter(testLog, NewState(testLog))
	w.CatchUp()
	w.Done(clock.Now{}, Reply{Head: next.Head, Entries: [][]byte{stored[0].Bytes, stored[1].Bytes}})
	if do := w.Done(clock.Now{}, Reply{Head: next.Head, Entries: [][]byte{large.Bytes}}); do.Send.Max != 4 {
		t.Errorf("%d entries of 250 kB are read at once, want 4", do.Send.Max)
	}
}

// TestWriterReportsState checks the reported state of a writer: whether something is
// under way, whether that is an append, and whether its outcome is in doubt.
func TestWriterReportsState(t *testing.T) {
	b := newTrial(t)
	b.now.Mono = time.Minute
	is := func(what string, idle, appending, doubt bool) {
		t.Helper()
		if b.w.Idle() != idle || b.w.Appending() != appending || b.inDoubt() != doubt {
			t.Errorf("%s: idle %v, appending %v, in doubt %v", what, b.w.Idle(), b.w.Appending(), b.inDoubt())
		}
	}
	is("at first", true, false, false)
	b.w.CatchUp()
	is("while it reads", false, false, false)
	first := b.w.Done(b.now, Reply{Err: ErrBroken})
	is("after a read that failed", false, false, false)
	b.wait(t, first)
	b.w.Done(b.now, Reply{Head: b.before.Head})
	b.w.Append(b.mine)
	is("while it appends", false, true, false)
	b.w.Done(b.now, Reply{Err: ErrBroken})
	is("while nobody knows", false, false, true)
	b.w.Done(b.now, Reply{Head: b.mine.Head, Entries: [][]byte{b.mine.Bytes}})
	is("when it is stored", true, false, false)
}
