package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"salectl/backends/ledger"
)

// scanIsRead compares a ledger.Scanner with Read: a scan returns the first entries of each log,
// also if other logs are requested, missing, truncated or appended to meanwhile.
func scanIsRead(t *testing.T, a, b ledger.Logs) {
	scanner, can := a.(ledger.Scanner)
	if !can {
		t.Skip("it is no ledger.Scanner")
	}
	var names []string
	logs := map[string]*logUnderTest{}
	for i := range 20 {
		l := &logUnderTest{logs: b, name: fmt.Sprint("log ", i)}
		logs[l.name], names = l, append(names, l.name)
	}
	names = append(names, "absent")
	logs["absent"] = &logUnderTest{}
	for round := range 30 {
		for i, name := range names[:20] {
			if round <= i+1 {
				logs[name].mustAppend(t, fmt.Appendf(nil, "%s, round %d", name, round))
			}
		}
	}
	if err := b.Delete(t.Context(), "log 3", 2); err != nil {
		t.Fatal(err)
	}
	logs["log 3"].entries = nil // it has no slot 0
	if err := b.Delete(t.Context(), "log 4", 5); err != nil {
		t.Fatal(err)
	}
	logs["log 4"].entries = nil

	handed := make([][][]byte, len(names))
	err := scanner.Scan(t.Context(), names, func(log int, entry []byte) error {
		if handed[log] = append(handed[log], entry); len(handed[log]) == 1 && log > 4 {
			logs[names[log]].mustAppend(t, []byte("meanwhile"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		want := logs[name].entries
		if len(handed[i]) > len(want) {
			t.Errorf("%s: %d entries are handed out, it has %d", name, len(handed[i]), len(want))
			continue
		}
		for slot, entry := range handed[i] {
			if !bytes.Equal(entry, want[slot]) {
				t.Errorf("%s: %q is handed out as slot %d, which has %q", name, entry, slot, want[slot])
			}
		}
	}
	enough, got := errors.New("enough"), 0
	err = scanner.Scan(t.Context(), names, func(int, []byte) error {
		got++
		return enough
	})
	if got > 1 || got == 1 && !errors.Is(err, enough) {
		t.Errorf("after %d entries and an error the scan returns %v", got, err)
	}
}
