package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// Exemption is a promise that a backend does not keep, since no sale needs it.
type Exemption struct {
	Promise string // one of those that TestLogs names as optional
	Reason  string // why it cannot keep it, and why that does no harm
}

// optional are the promises that a backend may be exempt from. A log's name is
// used again by nobody: a shard's has its run's uid in it, and a sale's own log
// is never deleted.
var optional = []string{"CreateAfterDelete"}

// TestLogs holds a backend to every promise of ledger.Logs. open returns two
// independent handles on one new, empty store; it closes them with t.Cleanup.
func TestLogs(t *testing.T, open func(*testing.T) (a, b ledger.Logs), exempt ...Exemption) {
	reasons := make(map[string]string)
	for _, e := range exempt {
		if !slices.Contains(optional, e.Promise) || e.Reason == "" {
			t.Fatalf("no backend is exempt from %q, for the reason %q", e.Promise, e.Reason)
		}
		reasons[e.Promise] = e.Reason
	}
	for _, test := range []struct {
		promise string
		check   func(t *testing.T, a, b ledger.Logs)
	}{
		{"AbsentLogReadsAsNothing", absentLog},
		{"CreateOnce", createOnce},
		{"CompareAndSetOnHeadBytes", compareAndSet},
		{"NextSlotOnly", nextSlotOnly},
		{"TakenByOther", takenByOther},
		{"RepeatedAppendIsTaken", repeatedAppend},
		{"ReadPages", readPages},
		{"AnyBytes", anyBytes},
		{"TooLargeIsForGood", tooLarge},
		{"HeadsInOrder", headsInOrder},
		{"OneWinnerOfACreate", oneWinnerOfACreate},
		{"OneWinnerASlot", oneWinnerASlot},
		{"HeadAndEntryAgree", headAndEntryAgree},
		{"LogsAreIndependent", logsAreIndependent},
		{"OddNames", oddNames},
		{"DeleteTheFront", deleteTheFront},
		{"DeleteEverything", deleteEverything},
		{"DeletedIsNotRecreated", deletedIsNotRecreated},
		{"CreateAfterDelete", createAfterDelete},
		{"DeleteAgain", deleteAgain},
		{"DeleteManyLargeEntries", deleteManyLargeEntries},
		{"DeleteBesideAppends", deleteBesideAppends},
		{"EndedContext", endedContext},
		{"CancelledAppendsStayConsistent", cancelledAppends},
		{"ScanIsRead", scanIsRead},
		{"ListNamesWhatIsThere", listNames},
	} {
		t.Run(test.promise, func(t *testing.T) {
			if reason, ok := reasons[test.promise]; ok {
				t.Skip(reason)
			}
			a, b := open(t)
			test.check(t, a, b)
		})
	}
}

// TestLogsReopened holds a backend to durability: what was acknowledged is
// there after the handle that wrote it is gone. open makes a new, empty store
// and returns a function that closes the store's last handle, if there is one,
// and opens a fresh one.
func TestLogsReopened(t *testing.T, open func(*testing.T) (reopen func() ledger.Logs)) {
	t.Run("AppendsAreThere", func(t *testing.T) {
		reopen := open(t)
		l := &logUnderTest{name: "durable"}
		for i := range 20 {
			l.logs = reopen()
			l.wantOn(t, l.logs)
			l.mustAppend(t, fmt.Appendf(nil, "entry %d", i))
		}
		l.wantOn(t, reopen())
	})
	t.Run("DeletesAreThere", func(t *testing.T) {
		reopen := open(t)
		logs := reopen()
		kept, gone := fill(t, logs, "kept", 5), fill(t, logs, "gone", 5)
		if err := errors.Join(logs.Delete(t.Context(), gone.name, 4), logs.Delete(t.Context(), kept.name, 1)); err != nil {
			t.Fatal(err)
		}
		logs = reopen()
		wantRead(t, logs, gone.name, 0, 10, nil, nil)
		wantRead(t, logs, kept.name, 2, 10, kept.head, kept.entries[2:])
	})
}

func absentLog(t *testing.T, a, b ledger.Logs) {
	wantRead(t, a, "nothing", 0, 10, nil, nil)
	wantRead(t, a, "nothing", 7, 10, nil, nil)
	heads, err := b.Heads(t.Context(), []string{"nothing", "more of it"})
	if err != nil || len(heads) != 2 || heads[0] != nil || heads[1] != nil {
		t.Errorf("heads of absent logs are %q, %v; want two nils", heads, err)
	}
	err = b.Append(t.Context(), "nothing", 1, headOf(0, "one"), headOf(1, "one"), []byte("entry"))
	if !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append to an absent log with an expected head: %v, want ErrTaken", err)
	}
	wantRead(t, a, "nothing", 0, 10, nil, nil)
}

func createOnce(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 1)
	for name, logs := range map[string]ledger.Logs{"same": a, "other": b} {
		err := logs.Append(t.Context(), l.name, 0, nil, headOf(0, "two"), []byte("another beginning"))
		if !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("create again on the %s handle: %v, want ErrTaken", name, err)
		}
	}
	l.wantOn(t, a)
	l.wantOn(t, b)
}

func compareAndSet(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 3)
	for name, prev := range map[string][]byte{
		"older head":  headOf(1, "one"),
		"longer":      append(bytes.Clone(l.head), ' '),
		"shorter":     l.head[:len(l.head)-1],
		"other case":  bytes.ToUpper(l.head),
		"zero behind": append(bytes.Clone(l.head), 0),
		"no head":     nil,
	} {
		if err := b.Append(t.Context(), l.name, 3, prev, headOf(3, "two"), []byte("no")); !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("append expecting the %s: %v, want ErrTaken", name, err)
		}
	}
	l.wantOn(t, b)
	l.logs = b
	l.mustAppend(t, []byte("yes"))
	l.wantOn(t, a)
}

// The right head at another slot would overwrite that, or leave a gap: the heads
// name their slots, so even a store that compares only heads can refuse it.
func nextSlotOnly(t *testing.T, a, b ledger.Logs) {
	for _, slot := range []uint64{1, 1 << 40} {
		if err := a.Append(t.Context(), "log", slot, nil, headOf(slot, "two"), []byte("no")); !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("create with slot %d: %v, want ErrTaken", slot, err)
		}
	}
	wantRead(t, b, "log", 0, 10, nil, nil)
	l := fill(t, a, "log", 5)
	for _, slot := range []uint64{0, 2, 4, 6, 1 << 40} {
		if err := b.Append(t.Context(), l.name, slot, l.head, headOf(slot, "two"), []byte("no")); !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("append to slot %d with the head of slot 4: %v, want ErrTaken", slot, err)
		}
	}
	l.wantOn(t, b)
	l.mustAppend(t, []byte("yes"))
	l.wantOn(t, a)
}

func takenByOther(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 2)
	prev := l.head
	l.mustAppend(t, []byte("the first to come"))
	if err := b.Append(t.Context(), l.name, 2, prev, headOf(2, "two"), []byte("late")); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append to a slot that another took: %v, want ErrTaken", err)
	}
	l.wantOn(t, b)
}

// A second answer of nil would make a caller believe that it had won twice.
func repeatedAppend(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 2)
	for name, logs := range map[string]ledger.Logs{"same": a, "other": b} {
		err := logs.Append(t.Context(), l.name, 1, headOf(0, "one"), l.head, l.entries[1])
		if !errors.Is(err, ledger.ErrTaken) {
			t.Errorf("the same append again on the %s handle: %v, want ErrTaken", name, err)
		}
	}
	l.wantOn(t, a)
}

func readPages(t *testing.T, a, b ledger.Logs) {
	const n = 25
	l := fill(t, a, "log", n)
	for _, from := range []uint64{0, 1, 9, 24} {
		for _, max := range []int{1, 2, 10, 25, 1000} {
			end := min(int(from)+max, n)
			wantRead(t, b, l.name, from, max, l.head, l.entries[from:end])
		}
	}
	for _, from := range []uint64{25, 26, 1 << 40} {
		wantRead(t, b, l.name, from, 10, l.head, nil)
	}
	wantRead(t, b, l.name, 3, 0, l.head, nil)
}

func anyBytes(t *testing.T, a, b ledger.Logs) {
	random := make([]byte, 1<<20)
	chacha := rand.NewChaCha8([32]byte{1})
	chacha.Read(random)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	l := &logUnderTest{logs: a, name: "log"}
	for _, entry := range [][]byte{{}, {0}, {0, 0, 0}, all, []byte("\x00in\x00between\x00"), random[:3000], random[:40_000], random, {}} {
		l.mustAppend(t, entry)
	}
	l.wantOn(t, a)
	l.wantOn(t, b)

	// But for the slot that it names, a head is bytes like any other.
	for slot := uint64(9); slot < 11; slot++ {
		next := append(fmt.Appendf(nil, "{\"slot\":%d,\x00\xff'", slot), random[:600]...)
		if err := b.Append(t.Context(), l.name, slot, l.head, next, []byte("entry")); err != nil {
			t.Fatalf("append with a binary head: %v", err)
		}
		l.entries, l.head = append(l.entries, []byte("entry")), next
	}
	l.wantOn(t, a)
}

// A store may accept any size, but a refusal is final.
func tooLarge(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 1)
	huge := make([]byte, 32<<20)
	switch err := a.Append(t.Context(), l.name, 1, l.head, headOf(1, "one"), huge); {
	case err == nil:
		l.entries, l.head = append(l.entries, huge), headOf(1, "one")
	case !errors.Is(err, ledger.ErrTooLarge):
		t.Fatalf("append of %d bytes: %v, want ErrTooLarge", len(huge), err)
	}
	l.wantOn(t, b)
	l.mustAppend(t, []byte("smaller"))
	l.wantOn(t, b)
}

func headsInOrder(t *testing.T, a, b ledger.Logs) {
	var names []string
	var want [][]byte
	for i := range 40 {
		name := fmt.Sprintf("log/%d", (i*17)%40)
		names, want = append(names, name), append(want, nil)
		if i%3 > 0 {
			want[i] = fill(t, a, name, i%3).head
		}
	}
	names, want = append(names, names[1]), append(want, want[1]) // requested twice
	wait.UntilNil(t, "the heads", func() error {
		heads, err := b.Heads(t.Context(), names)
		if err != nil || len(heads) != len(names) {
			return fmt.Errorf("%d heads and %w; want %d", len(heads), err, len(names))
		}
		for i := range heads {
			if !bytes.Equal(heads[i], want[i]) || (heads[i] == nil) != (want[i] == nil) {
				return fmt.Errorf("the head of %s is %q, want %q", names[i], heads[i], want[i])
			}
		}
		return nil
	})
	if heads, err := b.Heads(t.Context(), nil); err != nil || len(heads) != 0 {
		t.Errorf("the heads of no logs are %q, %v", heads, err)
	}
}

func logsAreIndependent(t *testing.T, a, b ledger.Logs) {
	all := []*logUnderTest{fill(t, a, "x", 3), fill(t, b, "x/", 4), fill(t, a, "x/1", 2), fill(t, b, "x/10", 5), fill(t, a, "X", 1)}
	if err := b.Delete(t.Context(), "x/", 100); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), "x/1", 0); err != nil {
		t.Fatal(err)
	}
	wantRead(t, a, "x/", 0, 10, nil, nil)
	wantRead(t, a, "x/1", 1, 10, all[2].head, all[2].entries[1:])
	for _, i := range []int{0, 3, 4} {
		all[i].wantOn(t, a)
		all[i].mustAppend(t, []byte("goes on"))
		all[i].wantOn(t, b)
	}
}

func oddNames(t *testing.T, a, b ledger.Logs) {
	var all []*logUnderTest
	for i, name := range []string{"a", "a ", " a", "a%", "a_", "a*", "a'", `a"`, `a\`, "a\n", "抢购", "é", "e\u0301", "a;--", "a/../b", "A"} {
		all = append(all, fill(t, a, name, i%3+1))
	}
	for _, l := range all {
		l.wantOn(t, b)
	}
}

func endedContext(t *testing.T, a, b ledger.Logs) {
	l := fill(t, a, "log", 2)
	for name, logs := range map[string]ledger.Logs{"used": a, "fresh": b} {
		within(t, "Read on the "+name+" handle", func(ctx context.Context) { logs.Read(ctx, l.name, 0, 10) })
		within(t, "Heads on the "+name+" handle", func(ctx context.Context) { logs.Heads(ctx, []string{l.name}) })
		within(t, "Delete on the "+name+" handle", func(ctx context.Context) { logs.Delete(ctx, "another", 10) })
		within(t, "Append on the "+name+" handle", func(ctx context.Context) {
			logs.Append(ctx, "another", 0, nil, headOf(0, "one"), []byte("entry"))
		})
	}
	l.wantOn(t, b)
	l.mustAppend(t, []byte("as if nothing had been"))
	l.wantOn(t, b)
}
