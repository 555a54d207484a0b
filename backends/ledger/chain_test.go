package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// threeSlots returns the stored bytes of a small log.
func threeSlots(t testing.TB) [][]byte {
	t.Helper()
	s, first := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 30)
	d.Claim("u", "k", 2)
	return [][]byte{first[0].Bytes, first[1].Bytes, MustCommit(t, s, d).Bytes}
}

func TestChainBreaks(t *testing.T) {
	whole := threeSlots(t)
	late, err := func() ([]byte, error) {
		s, _ := MustOpenShard(t, 10, 2)
		s.timeUs = -1 // so that the entry's time is not mended
		entry, err := s.encode(By().at(-1).proto(), Totals{})
		return entry.Bytes, err
	}()
	if err != nil {
		t.Fatal(err)
	}
	altered := bytes.Clone(whole[1])
	altered[len(altered)-1] ^= 1
	for name, test := range map[string]struct {
		log     string
		entries [][]byte
		at      string // part of the error; "" for none
	}{
		"whole":            {testLog, whole, ""},
		"a slot is lost":   {testLog, [][]byte{whole[0], whole[2]}, "slot 1: does not follow"},
		"the first lost":   {testLog, whole[1:], "slot 0: does not follow"},
		"a slot is twice":  {testLog, [][]byte{whole[0], whole[0]}, "slot 1: does not follow"},
		"swapped":          {testLog, [][]byte{whole[0], whole[2], whole[1]}, "slot 1: does not follow"},
		"an altered byte":  {testLog, [][]byte{whole[0], altered, whole[2]}, "slot 2: does not follow"},
		"cut off":          {testLog, [][]byte{whole[0], whole[1][:len(whole[1])-1]}, "slot 1: does not decode"},
		"empty":            {testLog, [][]byte{{}}, "slot 0: does not follow"},
		"of another log":   {"00/0123456789abcdef/1", whole, "slot 0: does not follow"},
		"time runs back":   {testLog, [][]byte{whole[0], whole[1], late}, "slot 2: its time is before"},
		"noise":            {testLog, [][]byte{whole[0], []byte("noise")}, "slot 1: does not decode"},
		"a log's own name": {testLog, [][]byte{[]byte(testLog)}, "slot 0: does not decode"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(test.log)
			var err error
			for _, entry := range test.entries {
				if err = s.Fold(entry); err != nil {
					break
				}
			}
			switch {
			case test.at == "" && err != nil:
				t.Error(err)
			case test.at != "" && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.at)):
				t.Errorf("got %v, want %q", err, test.at)
			}
		})
	}
}

// TestEncodedCommitStays checks that what an Entry holds does not change with
// the state that it came from.
func TestEncodedCommitStays(t *testing.T) {
	s, _ := MustOpenShard(t, 10, 2)
	d := s.Draft(TestOwner, 30)
	d.Claim("u", "k", 1)
	prev := s.hash
	e := MustCommit(t, s, d)
	MustCommit(t, s, s.Draft(TestOwner, 31))
	if !bytes.Equal(e.Commit.GetPrev(), prev[:]) || sum(e.Bytes) != e.Hash {
		t.Error("an entry changed after it was applied")
	}
}

func TestHead(t *testing.T) {
	want := Head{Slot: 7, Hash: sum([]byte("x")), Totals: Totals{
		Generation: 2, Epoch: 3, Owner: `[::1]:7080 "x"`, Phase: PhaseOpen,
		Limit: 20, Available: 9, Held: 3, Sold: 6, InFlight: 2,
	}}
	stored := want.Encode()
	if got, err := ParseHead(stored); err != nil || got != want {
		t.Errorf("read back %+v: %v", got, err)
	}
	const form = `{"slot":7,"hash":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","generation":2,"epoch":3,` +
		`"owner":"[::1]:7080 \"x\"","phase":"open","limit":20,"available":9,"held":3,"sold":6,"inFlight":2}`
	if string(stored) != form {
		t.Errorf("stored as\n%s\nnot\n%s", stored, form)
	}
	for _, head := range []string{string(stored), `{"slot":7}`, `{"slot":7,"and":`} {
		if slot, ok := HeadSlot([]byte(head)); slot != 7 || !ok {
			t.Errorf("%s names slot %d, %v", head, slot, ok)
		}
	}
	for _, head := range []string{"", "{}", `{"slot":`, `{"slot":7`, `{"slot":,`, `{"slot":-1}`, `{"slot":x}`, `{"slot":18446744073709551616}`, `{"epoch":7}`, "7,", "7}"} {
		if slot, ok := HeadSlot([]byte(head)); ok {
			t.Errorf("%q names slot %d", head, slot)
		}
	}
	for name, bad := range map[string]string{
		"nothing":      "",
		"no JSON":      "slot 7",
		"short hash":   strings.Replace(form, "2d71", "", 1),
		"no hex":       strings.Replace(form, "2d71", "zzzz", 1),
		"slot as text": strings.Replace(form, ":7,", `:"7",`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := ParseHead([]byte(bad)); err == nil {
				t.Errorf("read as %+v", h)
			}
		})
	}
	if !json.Valid(stored) || bytes.ContainsRune(stored, '\n') {
		t.Error("a head is one line of JSON")
	}
}
