package draw

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/internal/tamper"
)

// TestVerifyAnyAlteration alters each value of each line that Verify reads, alone, and removes, doubles and
// swaps each line of an entry. Verify finds it, but for what no list of entries can prove.
func TestVerifyAnyAlteration(t *testing.T) {
	const (
		// The sale's name is in no digest: the report names it for a person to compare. Of a claim's name
		// only the order counts.
		always = `^(header: sale|entry: (claim|at)) (letter|removed|swapped with sale$)`
		// A list may be without users or keys. Without either, labels are what is proven.
		nameless = `|^entry: (user|key) removed`
		// After the draw the file alone does not prove how many units there are, nor that nothing more is awarded.
		revealed = `|^header: draw\.(winners \+ 1|ended (inverted|removed))$`
		// Before it nothing of this is used yet.
		hidden = `|^header: draw\.(closesAt|substitutes|stock|reach|winners|ranks|lapsed|ended|commitment|beacon\.\w+)\b`
	)
	for name, c := range map[string]struct {
		change   func(*list)
		unproven string
		noted    bool // what was published in time is given too
	}{
		"a whole draw":                  {func(*list) {}, nameless + revealed, false},
		"a draw held to what was noted": {func(*list) {}, nameless + revealed, true},
		"a published list": {func(l *list) {
			for i := range l.lines {
				l.lines[i].User, l.lines[i].Key = "", ""
			}
		}, revealed, true},
		"entries that are closed": {func(l *list) {
			l.record.Link, l.record.Ranks, l.record.Stock, l.record.Reach, l.record.Lapsed, l.record.Ended, l.record.CommittedCloses = nil, 0, 0, 4, 0, false, ""
			for i := range l.lines {
				l.lines[i].State, l.lines[i].Rank = StateEntered, 0
			}
		}, nameless + hidden, false},
	} {
		t.Run(name, func(t *testing.T) {
			beacon := drand
			l := newList(&beacon, []byte{1, 2, 3})
			c.change(l)
			var o Options
			if c.noted {
				o = Options{Beacon: []byte{1, 2, 3}, Commitment: &l.record.Commitment, Root: l.record.Root}
			}
			passes := func(lines []string) bool {
				r, err := Verify(strings.NewReader(strings.Join(lines, "")), o)
				return err == nil && r.OK
			}
			lines := slices.Collect(strings.Lines(string(l.export(t))))
			if !passes(lines) {
				t.Fatal("the list itself is not verified")
			}
			unproven := regexp.MustCompile(always + c.unproven)
			wantFound := func(what string, lines []string) {
				if passes(lines) && !unproven.MatchString(what) {
					t.Errorf("not found: %s", what)
				}
			}
			for i, line := range lines[:len(lines)-1] { // the commit behind them is not read
				kind := "entry: "
				if i == 0 {
					kind = "header: "
				}
				for what, altered := range tamper.Line(line) {
					other := slices.Clone(lines)
					other[i] = altered
					wantFound(kind+what, other)
				}
				if i == 0 {
					continue
				}
				wantFound("entry removed", slices.Delete(slices.Clone(lines), i, i+1))
				wantFound("entry doubled", slices.Insert(slices.Clone(lines), i, line))
				if i > 1 {
					swapped := slices.Clone(lines)
					swapped[i-1], swapped[i] = line, lines[i-1]
					wantFound("entries swapped", swapped)
				}
			}
		})
	}
}
