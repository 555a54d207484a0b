package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

func oneWinnerOfACreate(t *testing.T, a, b ledger.Logs) {
	const racers = 8
	for round := range 20 {
		name := fmt.Sprintf("log %d", round)
		var won atomic.Int32
		won.Store(-1)
		var race8 []func()
		for i := range racers {
			logs := []ledger.Logs{a, b}[i%2]
			race8 = append(race8, func() {
				writer := fmt.Sprint(i)
				switch err := logs.Append(t.Context(), name, 0, nil, headOf(0, writer), []byte(writer)); {
				case err == nil:
					if !won.CompareAndSwap(-1, int32(i)) {
						t.Errorf("%s: %d won as well as %d", name, i, won.Load())
					}
				case !errors.Is(err, ledger.ErrTaken):
					t.Errorf("%s: %d: %v, want nil or ErrTaken", name, i, err)
				}
			})
		}
		race(race8...)
		if won.Load() < 0 {
			t.Fatalf("%s: nobody won", name)
		}
		writer := fmt.Sprint(won.Load())
		wantRead(t, a, name, 0, 10, headOf(0, writer), [][]byte{[]byte(writer)})
	}
}

// Writers on both handles follow the log and race for each slot.
func oneWinnerASlot(t *testing.T, a, b ledger.Logs) {
	const slots = 60
	l := fill(t, a, "log", 1)
	winners := make([]atomic.Pointer[string], slots)
	var racers []func()
	for i := range 6 {
		logs := []ledger.Logs{a, b}[i%2]
		racers = append(racers, func() { follow(t, logs, l.name, fmt.Sprint("writer ", i), winners) })
	}
	race(racers...)

	entries := l.entries
	for slot := 1; slot < slots; slot++ {
		w := winners[slot].Load()
		if w == nil {
			t.Fatalf("no writer won slot %d", slot)
		}
		entries = append(entries, []byte(*w))
	}
	wantRead(t, b, l.name, 0, slots+1, headOf(slots-1, *winners[slots-1].Load()), entries)
}

// follow appends to the log's end until all slots are taken, and records the slots that it
// won by the store's replies.
func follow(t *testing.T, logs ledger.Logs, name, writer string, winners []atomic.Pointer[string]) {
	for begin := time.Now(); time.Since(begin) < wait.Limit; {
		slot, head, err := end(t.Context(), logs, name)
		if err != nil {
			t.Error(err)
			return
		}
		next := slot + 1
		if next == uint64(len(winners)) {
			return
		}
		switch err := logs.Append(t.Context(), name, next, head, headOf(next, writer), []byte(writer)); {
		case err == nil:
			if !winners[next].CompareAndSwap(nil, &writer) {
				t.Errorf("%s won slot %d, which %s had won", writer, next, *winners[next].Load())
			}
		case !errors.Is(err, ledger.ErrTaken):
			t.Errorf("%s: slot %d: %v, want nil or ErrTaken", writer, next, err)
			return
		}
	}
	t.Errorf("%s: the slots were not taken within %v", writer, wait.Limit)
}

// end returns the log's head and the slot that it names.
func end(ctx context.Context, logs ledger.Logs, name string) (slot uint64, head []byte, err error) {
	heads, err := logs.Heads(ctx, []string{name})
	if err != nil {
		return 0, nil, err
	}
	if _, err := fmt.Sscanf(string(heads[0]), `{"slot":%d,`, &slot); err != nil {
		return 0, nil, fmt.Errorf("the head of %q is %q: %w", name, heads[0], err)
	}
	return slot, heads[0], nil
}

// While one writes, whoever reads a head finds the entry that it names.
func headAndEntryAgree(t *testing.T, a, b ledger.Logs) {
	const slots = 150
	entryOf := func(slot uint64) []byte { return bytes.Repeat(headOf(slot, "one"), 200) }
	l := &logUnderTest{logs: a, name: "log"}
	l.mustAppend(t, entryOf(0))
	ctx, finished := context.WithCancel(t.Context())
	reader := func(logs ledger.Logs) func() {
		return func() {
			for ctx.Err() == nil {
				if err := headHasEntry(t.Context(), logs, l.name, entryOf); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}
	race(reader(a), reader(b), reader(b), func() {
		defer finished()
		for slot := uint64(1); slot < slots; slot++ {
			head := headOf(slot, "one")
			if err := a.Append(t.Context(), l.name, slot, l.head, head, entryOf(slot)); err != nil {
				t.Errorf("slot %d: %v", slot, err)
				return
			}
			l.head = head
		}
	})
}

func headHasEntry(ctx context.Context, logs ledger.Logs, name string, entryOf func(uint64) []byte) error {
	from, _, err := end(ctx, logs, name)
	if err != nil {
		return err
	}
	head, entries, err := logs.Read(ctx, name, from, 1000)
	if err != nil {
		return err
	}
	var slot uint64
	if _, err := fmt.Sscanf(string(head), `{"slot":%d,`, &slot); err != nil {
		return fmt.Errorf("the head is %q: %w", head, err)
	}
	if slot < from {
		return nil // it lags behind what was read before
	}
	if uint64(len(entries)) <= slot-from {
		return fmt.Errorf("the head names slot %d, but a read from %d found %d entries", slot, from, len(entries))
	}
	for i, entry := range entries {
		if !bytes.Equal(entry, entryOf(from+uint64(i))) {
			return fmt.Errorf("slot %d has %d bytes that are not its entry: %.40q", from+uint64(i), len(entry), entry)
		}
	}
	return nil
}

// A writer whose contexts end at any moment resolves each unknown outcome as
// the append protocol does, and finds every slot its own.
func cancelledAppends(t *testing.T, a, b ledger.Logs) {
	const slots = 60
	l := fill(t, a, "log", 1)
	for slot := uint64(1); slot < slots; slot++ {
		head, entry := headOf(slot, "one"), fmt.Appendf(nil, "entry %d", slot)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(slot%20)*50*time.Microsecond)
		err := a.Append(ctx, l.name, slot, l.head, head, entry)
		cancel()
		for begin := time.Now(); err != nil && !errors.Is(err, ledger.ErrTaken); {
			if time.Since(begin) > wait.Limit {
				t.Fatalf("slot %d: %v", slot, err)
			}
			err = b.Append(t.Context(), l.name, slot, l.head, head, entry)
		}
		l.head, l.entries = head, append(l.entries, entry)
		wantRead(t, b, l.name, slot, 10, head, [][]byte{entry})
	}
	l.wantOn(t, a)
}
