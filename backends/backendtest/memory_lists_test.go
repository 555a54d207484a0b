package backendtest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/memory"
)

func newLists() *memory.Lists {
	return memory.NewLists("memory", func() time.Time { return time.Unix(1_800_000_000, 0) })
}

// Each fault of a grab, observed by the contents of the list: at once, after three more
// calls, and after all late writes.
func TestListsFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault              memory.Fault
		now, later, landed int64 // users who have a unit
	}{
		"none":         {memory.Fault{}, 1, 1, 1},
		"error before": {memory.Fault{Kind: memory.ErrorBefore}, 0, 0, 0},
		"reply lost":   {memory.Fault{Kind: memory.LostReply}, 1, 1, 1},
		"late":         {memory.Fault{Kind: memory.Late, N: 2}, 0, 1, 1},
		"very late":    {memory.Fault{Kind: memory.Late}, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLists()
			l := listsTest{T: t, a: n, b: n}
			l.fill(shard, 1, ledger.Range{First: 1, Count: 9})
			n.SetFaults(memory.On(memory.OpGrab, memory.Script(test.fault)))
			b := batch(shard, 1, "one")
			given, err := n.Grab(t.Context(), []lists.Batch{b})
			if errors.Is(err, memory.ErrInjected) != (test.fault.Kind != memory.None) || (given == nil) != (err != nil) {
				t.Errorf("the caller gets %+v, %v", given, err)
			}
			b.Users[0] = "another" // the batch is its caller's again
			want := func(when string, users int64) {
				if s := l.state(shard); s.Users != users || s.Units != 9-users || s.Entries != users {
					t.Errorf("%s the list is %+v; want %d users", when, s, users)
				}
			}
			want("at once", test.now)
			l.run()
			l.run()
			want("later", test.later)
			n.Land()
			want("landed", test.landed)
			if got := l.grab(n, shard, 1, "one").Units[0]; got.Before != (test.landed == 1) || got.Number != 1 {
				t.Errorf("at the second request, the user has %+v", got)
			}
		})
	}
}

// A write that is held back is judged when it comes in, and is lost with the
// node's connections.
func TestListsLateWrites(t *testing.T) {
	n := newLists()
	l := listsTest{T: t, a: n, b: n}
	l.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	n.SetFaults(memory.On(memory.OpTake, memory.Script(memory.Fault{Kind: memory.Late}, memory.Fault{Kind: memory.Late})))
	n.Take(t.Context(), shard, 1, 3)
	l.stop(shard, 2)
	if n.Land() != 1 || l.state(shard).Units != 9 {
		t.Errorf("a take that comes in after a stop leaves %+v; want all units", l.state(shard))
	}
	l.fill(shard, 3, ledger.Range{First: 1, Count: 9})
	n.Take(t.Context(), shard, 3, 3)
	n.Restart()
	if n.Land() != 0 {
		t.Error("a write that was held back has survived a restart")
	}
}

// What a node had once is not changed by what it does later.
func TestListsSnapshot(t *testing.T) {
	n := newLists()
	l := listsTest{T: t, a: n, b: n}
	l.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	l.grab(n, shard, 1, "one")
	before, saved := l.state(shard), n.Snapshot()
	for round := range uint64(2) {
		if round > 0 {
			l.fill(shard, 2, ledger.Range{First: 1, Count: 9})
		}
		l.grab(n, shard, 1+round, "two", "three")
		l.must("add", n.Add(t.Context(), shard, 1+round, ledger.Units{{First: 30, Count: 1}}))
		n.RestartFrom(saved)
		want := before
		want.On = false
		l.wantState(shard, want)
		if entries := l.read(shard, ""); len(entries) != 1 || entries[0].Grabs[0].User != "one" {
			t.Errorf("the stream has %+v; want what it had", entries)
		}
	}
}

// The same calls have the same answers.
func TestListsAreDeterministic(t *testing.T) {
	play := func() (all []any) {
		n := newLists()
		l := listsTest{T: t, a: n, b: n}
		l.fill(shard, 1, ledger.Range{First: 1, Count: 900})
		n.SetFaults(memory.Random(7, memory.Rates{memory.ErrorBefore: 0.2, memory.LostReply: 0.2, memory.Late: 0.2}))
		for i := range 50 {
			given, err := n.Grab(t.Context(), []lists.Batch{batch(shard, 1, names(fmt.Sprint(i), 9)...)})
			all = append(all, given, fmt.Sprint(err))
		}
		n.Restart()
		n.SetFaults(nil)
		return append(all, l.read(shard, ""), l.state(shard), l.run())
	}
	if one, two := play(), play(); !reflect.DeepEqual(one, two) {
		t.Errorf("the same calls had the answers %+v and %+v", one, two)
	}
}
