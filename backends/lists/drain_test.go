package lists_test

import (
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

// What a list gives is read when it is said to be, the earliest if it is said more
// than once. What comes after that gathers for as long again, and what the log has is
// deleted by the read that looks for more.
func TestGathers(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	b.idles(m, 500*ms) // without news it is looked at every half second
	b.grab(1, 2)
	m.ScheduleDrain(b.now, 100*ms)
	m.ScheduleDrain(b.now, 300*ms)
	b.idles(m, 100*ms)
	b.pass(20 * ms)
	m.ScheduleDrain(b.now, 40*ms)
	b.idles(m, 40*ms)
	b.pass(40 * ms)
	b.calls(m, lists.ReadCall)
	b.idles(m, 0)             // until they are in the log
	m.ScheduleDrain(b.now, 0) // even if there is more: it goes with the next
	b.idles(m, 0)
	if got := b.commit(m, 0); !slices.Equal(got, []string{"user-1", "user-2"}) || m.Due() {
		t.Fatalf("%q are in the log", got)
	}
	b.calls(m, lists.ReadCall)

	b.grab(1, 2)
	m.ScheduleDrain(b.now, 80*ms)
	b.pass(80 * ms)
	b.calls(m, lists.ReadCall)
	b.commit(m, 0)
	b.idles(m, 80*ms)
	b.pass(79 * ms)
	b.idles(m, ms)
	b.pass(ms)
	b.calls(m, lists.ReadCall)
	b.kept()
	b.idles(m, 500*ms)
	b.pass(500 * ms)
	b.calls(m, lists.ReadCall)
	b.idles(m, 500*ms)

	b.grab(1, 2)
	m.ScheduleDrain(b.now, 2*time.Second) // it is looked at by then
	b.idles(m, 500*ms)
	b.pass(400 * ms)
	m.Hurry()
	b.calls(m, lists.ReadCall)
	b.commit(m, 0)
	b.calls(m, lists.ReadCall) // nothing gathers any more
	b.kept()
	b.idles(m, 500*ms)
}

// A stream that has more than a read takes is read on at once.
func TestReadsOn(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{Read: 4})
	b.grab(1, 4)
	b.grab(1, 3)
	b.grab(1, 1)
	b.grab(1, 3)
	m.ScheduleDrain(b.now, 100*ms)
	b.pass(100 * ms)
	for range 2 {
		b.calls(m, lists.ReadCall)
		if n := len(b.commit(m, 0)); n != 4 {
			t.Fatalf("%d grabs of one read", n)
		}
	}
	b.calls(m, lists.ReadCall)
	b.commit(m, 0)
	b.idles(m, 100*ms)
	b.pass(100 * ms)
	b.calls(m, lists.ReadCall)
	b.kept()
}

// A commit has no more grabs than it may. Those of a commit that failed are in the
// next, and each is told of once.
func TestGrabsOfACommit(t *testing.T) {
	b, m := onBench(t, 20, lists.Sizes{})
	b.grab(1, 5)
	m.ScheduleDrain(b.now, 0)
	b.calls(m, lists.ReadCall)
	m.Draft(b.draft(), 2) // which is not appended
	m.Draft(b.draft(), 1)
	if got := b.commit(m, 2); !slices.Equal(got, []string{"user-1", "user-2"}) || !m.Due() {
		t.Errorf("first %q, want two", got)
	}
	if got := b.commit(m, 9); !slices.Equal(got, []string{"user-3", "user-4", "user-5"}) || m.Due() {
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
	m.ScheduleDrain(b.now, 0)
	b.next(m, lists.ReadCall)
	m.Done(b.now, lists.Reply{Entries: []lists.Entry{{ID: "1-1", Fill: 1, Grabs: grabs}}})
	d := b.draft()
	for i := int64(3); d.Grab(ledger.Grab{User: fmt.Sprint(i), Key: strings.Repeat("k", 5_000), Unit: i}).Kind == ledger.Granted; i++ {
	}
	m.Draft(d, 0)
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
		m.ScheduleDrain(b.now, 0)
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
