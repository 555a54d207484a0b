package lists_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

const ms = time.Millisecond

// onBench has a list that gives, under fill 1, and its machine.
func onBench(t *testing.T, units int64, sizes lists.Sizes) (*bench, *lists.Machine) {
	t.Helper()
	b := newBench(t, units)
	b.own()
	m := lists.NewMachine(b.list, sizes)
	b.on(m)
	return b, m
}

// Grabs are due within the shortest duration of those that came since the last draft. Those that come while
// a draft is appended gather anew. The read without a reason deletes what the log has.
func TestGathers(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	b.idles(m, 500*ms)
	b.granted(m, 2, 100*ms)
	b.granted(m, 2, 300*ms)
	b.idles(m, 100*ms)
	b.pass(20 * ms)
	if got := b.commit(m, 0); len(got) > 0 || m.Due(b.now) {
		t.Fatalf("%q are in the log before they are due", got)
	}
	b.granted(m, 1, 40*ms)
	b.idles(m, 40*ms)
	b.pass(40 * ms)
	if !m.Due(b.now) {
		t.Fatal("the grabs are not due")
	}
	b.idles(m, 440*ms)
	d := b.draft()
	m.Draft(b.now, d, 0)
	b.append(d)
	b.granted(m, 2, 80*ms)
	if got := m.Committed(b.now, b.state); len(got) != 5 || m.Due(b.now) {
		t.Fatalf("%v are in the log, due %v", got, m.Due(b.now))
	}
	b.idles(m, 80*ms)
	m.ScheduleDrain(b.now, 0)
	if got := b.commit(m, 0); !slices.Equal(got, []string{"user-6", "user-7"}) {
		t.Fatalf("%q are in the log", got)
	}
	b.idles(m, 440*ms)
	b.pass(440 * ms)
	b.calls(m, lists.ReadCall)
	b.kept()
	b.idles(m, 500*ms)
}

// A commit that fails leaves the grabs due.
func TestFailedCommit(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	b.granted(m, 2, 0)
	m.Draft(b.now, b.draft(), 0) // which is not appended
	if !m.Due(b.now) {
		t.Fatal("the grabs are not due any more")
	}
	if got := b.commit(m, 0); len(got) != 2 {
		t.Errorf("%q are in the log, want two users", got)
	}
}

// The log has the entries of a stream in the order of their numbers. A read fetches those whose replies are
// lost or late, and never deletes them before the log has them.
func TestMissingReplies(t *testing.T) {
	for name, test := range map[string]struct {
		missing func(*bench, *lists.Machine)
		after   time.Duration // until the stream is read
	}{
		"lost": {func(b *bench, m *lists.Machine) { b.grab(1, 1); m.Unanswered(1) }, 0},
		"late": {func(b *bench, m *lists.Machine) { b.grab(1, 1); b.granted(m, 2, 0) }, 50 * ms},
		"late again": {func(b *bench, m *lists.Machine) {
			b.grab(1, 1)
			b.granted(m, 2, 0)
			b.pass(20 * ms)
			b.granted(m, 1, 0)
		}, 30 * ms},
		"of a call without news": {func(b *bench, m *lists.Machine) { b.grab(1, 1) }, 500 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := onBench(t, 20, lists.Sizes{})
			b.granted(m, 3, 0)
			test.missing(b, m)
			if got := b.commit(m, 0); len(got) != 3 {
				t.Fatalf("%q are in the log, want the users of the first entry", got)
			}
			if test.after > 0 {
				b.idles(m, test.after)
				b.pass(test.after)
			}
			b.calls(m, lists.ReadCall)
			if s, err := b.node.Inspect(context.Background(), b.list); err != nil || s.Entries == 0 {
				t.Fatalf("the stream has %d entries, %v; the log lacks some", s.Entries, err)
			}
			b.commit(m, 0)
			b.pass(500 * ms)
			b.calls(m, lists.ReadCall)
			b.kept()
		})
	}
}

// A reply that comes behind the read of its entry, or a second time, adds nothing. One of an earlier fill
// does not either.
func TestRepliesThatCameBefore(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	late, grabs := b.grab(1, 2)
	next, more := b.grab(1, 2)
	m.Granted(b.now, 1, next, more, 0)
	m.Granted(b.now, 1, late, grabs, 0)
	m.Granted(b.now, 1, late, grabs, 0)
	m.Granted(b.now, 1, next, more, 0)
	if got := b.commit(m, 0); len(got) != 4 {
		t.Fatalf("%q are in the log, want four users", got)
	}
	number, read := b.grab(1, 1)
	m.Unanswered(1)
	b.calls(m, lists.ReadCall)
	m.Granted(b.now, 1, number, read, 0)
	m.Granted(b.now, 7, number+1, read, 0)
	if got := b.commit(m, 0); len(got) != 1 || m.Due(b.now) {
		t.Errorf("%q are in the log, want one user", got)
	}
	b.settled(m)
	b.kept()
}

// A stream that has more than a read takes is read on at once.
func TestReadsOn(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{Read: 4})
	for _, n := range []int{4, 3, 1, 3} {
		b.grab(1, n)
	}
	m.Unanswered(1)
	for range 2 {
		b.calls(m, lists.ReadCall)
		if n := len(b.commit(m, 0)); n != 4 {
			t.Fatalf("%d grabs of one read", n)
		}
	}
	b.calls(m, lists.ReadCall)
	b.commit(m, 0)
	b.idles(m, 500*ms)
	b.pass(500 * ms)
	b.calls(m, lists.ReadCall)
	b.kept()
}

// A commit has no more grabs than it may. Those of a commit that failed are in the next, and each is
// returned once. An entry is deleted when the log has all of it.
func TestGrabsOfACommit(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	b.granted(m, 5, 0)
	m.Draft(b.now, b.draft(), 2) // which is not appended
	m.Draft(b.now, b.draft(), 1)
	if got := b.commit(m, 2); !slices.Equal(got, []string{"user-1", "user-2"}) || !m.Due(b.now) {
		t.Errorf("first %q, want two", got)
	}
	m.Unanswered(1)
	b.calls(m, lists.ReadCall)
	if s, err := b.node.Inspect(context.Background(), b.list); err != nil || s.Entries != 1 {
		t.Errorf("the stream has %d entries, %v; want the one of which the log has a part", s.Entries, err)
	}
	if got := b.commit(m, 9); !slices.Equal(got, []string{"user-3", "user-4", "user-5"}) || m.Due(b.now) {
		t.Errorf("then %q, want three", got)
	}
	b.settled(m)
	b.kept()
}

// A grab that has no room in a commit waits for the next, and those behind it wait
// with it.
func TestFullCommit(t *testing.T) {
	b, m := onBench(t, 300, lists.Sizes{})
	grabs := []ledger.Grab{
		{User: "long", Key: strings.Repeat("k", 10_000), Unit: 1, GrantedUs: 1},
		{User: "short", Key: "key", Unit: 2, GrantedUs: 1},
	}
	m.Granted(b.now, 1, 1, grabs, 0)
	d := b.draft()
	for i := int64(3); d.Grab(ledger.Grab{User: fmt.Sprint(i), Key: strings.Repeat("k", 5_000), Unit: i}).Kind == ledger.Granted; i++ {
	}
	m.Draft(b.now, d, 0)
	if got := m.Committed(b.now, b.state); len(got) > 0 {
		t.Errorf("%d grabs are in a commit that is full", len(got))
	}
	if v := d.Grab(grabs[1]); v.Kind != ledger.Granted {
		t.Fatalf("the short one has no room: %d", v.Kind)
	}
	if got := b.commit(m, 0); !slices.Equal(got, []string{"long", "short"}) {
		t.Errorf("%q are in the next commit, want both", got)
	}
}

// What keeps a list from being read is told, and it is read again after a pause that
// grows. It gives on meanwhile.
func TestReadFails(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	broken := errors.New("broken off")
	for range 2 {
		b.grab(1, 2)
		m.Unanswered(1)
		for _, pause := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
			b.next(m, lists.ReadCall)
			m.Done(b.now, lists.Reply{Err: broken})
			b.idles(m, pause*ms)
			if m.Trouble() != broken || m.On() != 1 {
				t.Fatalf("it is on under %d, the trouble %v", m.On(), m.Trouble())
			}
			b.pass(pause * ms)
		}
		b.calls(m, lists.ReadCall)
		if m.Trouble() != nil {
			t.Errorf("it goes well, and the trouble is %v", m.Trouble())
		}
		b.settled(m)
		b.kept()
	}
}
