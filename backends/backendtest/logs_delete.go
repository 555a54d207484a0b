package backendtest

import (
	"errors"
	"fmt"
	"testing"

	"salectl/backends/ledger"
)

func deleteTheFront(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 10)
	if err := b.Delete(t.Context(), l.name, 3); err != nil {
		t.Fatal(err)
	}
	wantRead(t, a, l.name, 4, 100, l.head, l.entries[4:])
	// What is read from a deleted slot must not pass for that slot's entry.
	wantRead(t, a, l.name, 0, 100, l.head, nil)
	wantRead(t, b, l.name, 3, 100, l.head, nil)
	l.mustAppend(t, []byte("goes on"))
	wantRead(t, b, l.name, 4, 100, l.head, l.entries[4:])

	if err := a.Delete(t.Context(), l.name, 9); err != nil {
		t.Fatal(err)
	}
	wantRead(t, b, l.name, 10, 100, l.head, l.entries[10:])
	l.mustAppend(t, []byte("and on"))
	wantRead(t, b, l.name, 10, 100, l.head, l.entries[10:])
}

func deleteEverything(t *testing.T, a, b ledger.Logs) {
	for name, upTo := range map[string]uint64{"to the head's slot": 4, "beyond it": 5, "far beyond": 1 << 50} {
		fill(t, a, name, 5)
		if err := b.Delete(t.Context(), name, upTo); err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
		for _, logs := range []ledger.Logs{a, b} {
			wantRead(t, logs, name, 0, 100, nil, nil)
			wantRead(t, logs, name, 5, 100, nil, nil)
		}
		if heads, err := a.Heads(t.Context(), []string{name}); err != nil || heads[0] != nil {
			t.Errorf("the head of a log deleted %s is %q, %v", name, heads, err)
		}
	}
}

// An append that comes late, after its log was deleted, must not bring it back.
func deletedIsNotRecreated(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 3)
	if err := b.Delete(t.Context(), l.name, 2); err != nil {
		t.Fatal(err)
	}
	for name, logs := range map[string]ledger.Logs{"that wrote": a, "that deleted": b} {
		err := logs.Append(t.Context(), l.name, 3, l.head, headOf(3, "one"), []byte("late"))
		if !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("append with the old head on the handle %s: %v, want ErrTaken", name, err)
		}
	}
	wantRead(t, a, l.name, 0, 10, nil, nil)
}

// A name may be used again, and shares nothing with the log before.
func createAfterDelete(t *testing.T, a, b ledger.Logs) {
	before := fill(t, a, "log", 30)
	if err := b.Delete(t.Context(), before.name, 29); err != nil {
		t.Fatal(err)
	}
	again := fill(t, b, before.name, 2)
	again.wantOn(t, a)
	err := a.Append(t.Context(), before.name, 30, before.head, headOf(30, "one"), []byte("late"))
	if !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append with the head of the log before: %v, want ErrTaken", err)
	}
	again.wantOn(t, b)
}

func deleteAgain(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 6)
	for range 2 {
		for _, upTo := range []uint64{0, 2, 1} {
			for _, logs := range []ledger.Logs{a, b} {
				if err := logs.Delete(t.Context(), l.name, upTo); err != nil {
					t.Fatalf("delete up to %d: %v", upTo, err)
				}
			}
		}
		wantRead(t, a, l.name, 3, 100, l.head, l.entries[3:])
	}
	for range 3 {
		for _, logs := range []ledger.Logs{a, b} {
			if err := errors.Join(logs.Delete(t.Context(), l.name, 5), logs.Delete(t.Context(), "never was", 5)); err != nil {
				t.Fatal(err)
			}
		}
		wantRead(t, b, l.name, 0, 100, nil, nil)
	}
	wantRead(t, b, "never was", 0, 100, nil, nil)
}

// Large enough for a backend that deletes in steps to need several.
func deleteManyLargeEntries(t *testing.T, a, b ledger.Logs) {
	whole, front := &logUnderTest{logs: a, name: "whole"}, &logUnderTest{logs: a, name: "front"}
	for i := range 40 {
		for _, l := range []*logUnderTest{whole, front} {
			entry := make([]byte, 100_000)
			copy(entry, fmt.Sprint(i))
			l.mustAppend(t, entry)
		}
	}
	if err := errors.Join(b.Delete(t.Context(), whole.name, 39), b.Delete(t.Context(), front.name, 37)); err != nil {
		t.Fatal(err)
	}
	wantRead(t, a, whole.name, 0, 100, nil, nil)
	wantRead(t, a, front.name, 38, 100, front.head, front.entries[38:])
}

// The front of a log is deleted while others append to it and to another.
func deleteBesideAppends(t *testing.T, a, b ledger.Logs) {
	logs := []*logUnderTest{fill(t, a, "cut", 100), fill(t, a, "whole", 1)}
	var racers []func()
	for _, l := range logs {
		racers = append(racers, func() {
			for slot := uint64(len(l.entries)); slot < 140; slot++ {
				head, entry := headOf(slot, "one"), fmt.Appendf(nil, "entry %d", slot)
				if err := a.Append(t.Context(), l.name, slot, l.head, head, entry); err != nil {
					t.Errorf("%s, slot %d: %v", l.name, slot, err)
					return
				}
				l.head, l.entries = head, append(l.entries, entry)
			}
		})
	}
	race(append(racers, func() {
		for upTo := uint64(0); upTo <= 90; upTo += 9 {
			if err := b.Delete(t.Context(), "cut", upTo); err != nil {
				t.Errorf("delete up to %d: %v", upTo, err)
			}
		}
	})...)
	wantRead(t, b, "cut", 91, 1000, logs[0].head, logs[0].entries[91:])
	logs[1].wantOn(t, b)
}
