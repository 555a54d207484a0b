package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/ledger/payload"
	"salectl/spec"
	"salectl/units"
)

// exported returns the export of a sealed world whose claims have all kinds of
// states and keys.
func exported(t *testing.T) (*ledger.World, []byte) {
	t.Helper()
	w := ledger.BusyWorld(t)
	d := w.Draft(1)
	d.Claim(w.Buyer(1), "\xff\x00 no text", 1)
	d.Claim(w.Buyer(1), "", 1)
	d.Claim(w.Buyer(1), "<&>\u2028\"", 1)
	w.Commit(1, d)
	w.End()
	return w, mustExport(t, w)
}

// exportOf returns the sale of a world, whose units are numbers, to export.
func exportOf(w *ledger.World) export.Sale {
	return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs}
}

func mustExport(t testing.TB, w *ledger.World) []byte {
	t.Helper()
	var to bytes.Buffer
	if err := exportOf(w).Write(t.Context(), &to); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// readExport folds the commits of an export, for whoever has nothing else of the
// sale, and audits it.
func readExport(file []byte) (export.Header, []*ledger.State, error) {
	lines := append(exportLines(file), "")
	var header export.Header
	if err := json.Unmarshal([]byte(lines[0]), &header); err != nil {
		return header, nil, err
	}
	shards := make([]*ledger.State, len(header.Roots))
	for i := range shards {
		shards[i] = ledger.NewState(spec.ShardLog(header.UID, i, len(shards)))
	}
	for _, line := range lines[1:] {
		if line == "" || strings.HasPrefix(line, `{"log":`) {
			break
		}
		if strings.HasPrefix(line, `{"claim":`) {
			continue
		}
		var c export.Commit
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return header, nil, err
		}
		if err := shards[*c.Shard].Fold(c.Commit); err != nil {
			return header, nil, err
		}
	}
	a, _, err := export.Audit(bytes.NewReader(file), nil)
	if err == nil && !a.OK {
		err = errors.New(strings.Join(a.Problems, "\n"))
	}
	return header, shards, err
}

func TestExportRoundTrip(t *testing.T) {
	w, file := exported(t)
	header, shards, err := readExport(file)
	if err != nil {
		t.Fatal(err)
	}
	if header.Sale != "test" || header.UID != ledger.TestUID || header.Format != 1 || header.Kind != "export" || len(shards) != ledger.WorldShards {
		t.Errorf("header %+v", header)
	}
	for i, s := range shards {
		if ledger.Observe(s) != ledger.Observe(w.Shards[i]) || header.Roots[i] != s.Root() {
			t.Errorf("shard %d comes back as\n%s", i, ledger.Observe(s))
		}
	}
	want := export.Counts{Shards: 3, Slots: 43, Claims: 13, Sold: 16, Available: 14, Outcomes: ledger.Outcomes{Confirmed: 10, Cancelled: 3}}
	if header.Counts != want {
		t.Errorf("counts %+v", header.Counts)
	}
}

func TestExportIsTheSameAgain(t *testing.T) {
	w, file := exported(t)
	if !bytes.Equal(mustExport(t, w), file) {
		t.Error("two exports of one fold differ")
	}
	for i, s := range w.Shards {
		w.Shards[i] = ledger.NewState(s.Log())
		if _, err := ledger.Load(t.Context(), w.Logs, s.Log(), w.Shards[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(mustExport(t, w), file) {
		t.Error("the export of another fold differs")
	}
}

func TestExportForm(t *testing.T) {
	w := ledger.NewWorld(t)
	d := w.Draft(0)
	d.Claim("user1", "key <1>", 2)
	d.Claim("user2", "\xff", 1)
	w.Commit(0, d)
	lines := strings.Split(string(mustExport(t, w)), "\n")
	for i, want := range []string{
		`{"format":1,"kind":"export","sale":"test","uid":"0123456789abcdef","roots":["` + w.Shards[0].Root().String() + `",`,
		`{"claim":"0-2-0","sale":"test","user":"user1","units":[1,2],"state":"sold","at":"1970-01-01T00:00:01.000007Z","key":"key <1>"}`,
		`{"claim":"0-2-1","sale":"test","user":"user2","units":[3],"state":"sold","at":"1970-01-01T00:00:01.000007Z","keyBase64":"/w=="}`,
		`{"shard":0,"slot":0,"commit":"`,
	} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is\n%s, want\n%s", i+1, lines[i], want)
		}
	}
	if !strings.HasSuffix(lines[0], `"counts":{"shards":3,"slots":7,"claims":2,"sold":3,"held":0,"available":27,"inFlight":0},"saleLog":{"first":0,"slots":1,"root":"`+w.Sale.Part(1).Root.String()+`"}}`) {
		t.Errorf("the header ends otherwise: %s", lines[0])
	}
}

// TestExportTampered leaves out, repeats and swaps the lines of an export. None may pass.
func TestExportTampered(t *testing.T) {
	w, file := exported(t)
	lines := exportLines(file)
	if _, _, err := readExport([]byte(strings.Join(lines, ""))); err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		wantNoticed(t, w, "is gone", i, slices.Delete(slices.Clone(lines), i, i+1))
		wantNoticed(t, w, "is there twice", i, slices.Insert(slices.Clone(lines), i, line))
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = line, lines[i-1]
			wantNoticed(t, w, "is swapped with the one before", i, swapped)
		}
	}
	wantNoticed(t, w, "is all there is", 0, lines[:1])
	wantNoticed(t, w, "has no end", len(lines)-1, append(slices.Clone(lines[:len(lines)-1]), strings.TrimSuffix(lines[len(lines)-1], "\n")))
	wantNoticed(t, w, "is cut", len(lines)-1, append(slices.Clone(lines[:len(lines)-1]), lines[len(lines)-1][:20]))
}

// TestExportTamperedCommits alters the line of a commit. None may pass, nor may
// a commit whose bytes are others than those that were folded.
func TestExportTamperedCommits(t *testing.T) {
	w, file := exported(t)
	lines := exportLines(file)
	for i, line := range lines {
		var c export.Commit
		if err := json.Unmarshal([]byte(line), &c); err != nil || len(c.Commit) == 0 {
			continue
		}
		for what, alter := range map[string]func(*export.Commit){
			"names the slot after":     func(c *export.Commit) { c.Slot++ },
			"names the shard before":   func(c *export.Commit) { *c.Shard-- },
			"names the shard after":    func(c *export.Commit) { *c.Shard++ },
			"is by another writer":     func(c *export.Commit) { c.Commit[2] ^= 1 },
			"has a commit without end": func(c *export.Commit) { c.Commit = c.Commit[:len(c.Commit)-1] },
		} {
			other := c
			other.Commit, other.Shard = bytes.Clone(c.Commit), new(int)
			if c.Shard != nil {
				*other.Shard = *c.Shard
			}
			alter(&other)
			altered := slices.Clone(lines)
			altered[i] = string(lineOf(other))
			wantNoticed(t, w, what, i, altered)
		}
	}
}

// TestExportTamperedAtEveryByte alters every letter and digit of an export.
func TestExportTamperedAtEveryByte(t *testing.T) {
	if testing.Short() {
		t.Skip("it alters each byte")
	}
	w, file := exported(t)
	for at, lines := range alteredAt(file, 1) {
		wantNoticed(t, w, fmt.Sprintf("is altered at %d", at.column), at.line, lines)
	}
}

// TestAuditOfAnyExport leaves out, repeats and swaps the lines of exports of all kinds of sales, and
// alters each third of their letters. Their audit finds all but what it reports as not proven.
func TestAuditOfAnyExport(t *testing.T) {
	if testing.Short() {
		t.Skip("it alters each third letter of many exports")
	}
	key := mustKey(t, 1)
	payloads := func(key *units.Key, redact bool) []byte {
		_, lines := payloadExport(t, key, func(w *ledger.World, payloads *payload.Reader, to *bytes.Buffer) error {
			if redact {
				return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads, Redacted: true}.Write(t.Context(), to)
			}
			return export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: w.Logs, Payloads: payloads}.Write(t.Context(), to)
		})
		return []byte(strings.Join(lines, ""))
	}
	packets := ledger.PacketsWorld(t, nil)
	packets.Taken(1)
	open := mustExport(t, packets)
	packets.Seal()
	moving := ledger.NewWorld(t)
	moving.Sell(1, 1)
	moving.Move(0, 1, 2, 1)
	moving.Move(2, 0, 3, 2)
	for name, c := range map[string]struct {
		file     []byte
		key      *units.Key
		unproven string // a regular expression of what is
	}{
		"on the way":      {file: mustExport(t, moving)},
		"packets, open":   {file: open, unproven: `"commitment":"\w*"|"commit":"[^"]*","hash"`},
		"packets, sealed": {file: mustExport(t, packets)},
		"draw":            {file: drawnExport(t)},
		"public units":    {file: payloads(nil, false)},
		"secret units":    {file: payloads(key, false), key: key},
		"secret, no key":  {file: payloads(key, false), unproven: `"payloads":\[[^\]]*\]`},
		"redacted":        {file: payloads(key, true), unproven: `"commit":"[^"]*","hash"`},
	} {
		t.Run(name, func(t *testing.T) {
			noticed := func(lines []string) bool {
				a, _, err := export.Audit(strings.NewReader(strings.Join(lines, "")), c.key)
				return err != nil || !a.OK
			}
			lines := exportLines(c.file)
			if a, _, err := export.Audit(bytes.NewReader(c.file), c.key); err != nil || !a.OK {
				t.Fatalf("%v, %+v", err, a)
			}
			for i, line := range lines {
				if !noticed(slices.Delete(slices.Clone(lines), i, i+1)) {
					t.Errorf("line %d is gone: %s", i+1, line)
				}
				if !noticed(slices.Insert(slices.Clone(lines), i, line)) {
					t.Errorf("line %d is there twice: %s", i+1, line)
				}
				if swapped := slices.Clone(lines); i > 0 {
					if swapped[i-1], swapped[i] = line, lines[i-1]; !noticed(swapped) {
						t.Errorf("line %d is swapped with the one before: %s", i+1, line)
					}
				}
			}
			unproven := regexp.MustCompile(c.unproven)
			for at, altered := range alteredAt(c.file, 3) {
				within := slices.ContainsFunc(unproven.FindAllStringIndex(lines[at.line], -1), func(span []int) bool {
					return span[0] <= at.column && at.column < span[1]
				})
				if !within && !noticed(altered) {
					t.Fatalf("line %d is altered at %d: %s", at.line+1, at.column, altered[at.line])
				}
			}
		})
	}
}

// letter is one of a file.
type letter struct{ line, column int }

// alteredAt yields a file's lines once for each of its letters and digits, or for one in so many,
// with that altered.
func alteredAt(file []byte, in int) iter.Seq2[letter, []string] {
	return func(yield func(letter, []string) bool) {
		lines, n := exportLines(file), 0
		for i, line := range lines {
			for at := range len(line) {
				c := line[at]
				if (c < '0' || c > '8') && (c < 'a' || c > 'y') && (c < 'A' || c > 'Y') {
					continue
				}
				if n++; n%in > 0 {
					continue
				}
				altered := slices.Clone(lines)
				altered[i] = line[:at] + string(c+1) + line[at+1:]
				if !yield(letter{i, at}, altered) {
					return
				}
			}
		}
	}
}

// exportLines returns the lines of an export, each with its end.
func exportLines(file []byte) []string { return slices.Collect(strings.Lines(string(file))) }

// wantNoticed checks that an export of which a line was altered is refused, by itself
// and as that of the world's ledger.
func wantNoticed(t *testing.T, w *ledger.World, what string, line int, lines []string) {
	t.Helper()
	altered := strings.Join(lines, "")
	if a, _, err := export.Audit(strings.NewReader(altered), nil); err == nil && a.OK {
		t.Errorf("line %d %s, and its audit did not notice:\n%s", line+1, what, lines[min(line, len(lines)-1)])
	}
	if err := exportOf(w).Check(t.Context(), strings.NewReader(altered)); err == nil {
		t.Errorf("line %d %s, and it passes for the ledger's:\n%s", line+1, what, lines[min(line, len(lines)-1)])
	}
}

// An export that is right in itself is still not that of other shards.
func TestCheckExportOfAnother(t *testing.T) {
	w, file := exported(t)
	older := ledger.BusyWorld(t)
	planned := ledger.NewSale(w.Sale.Log())
	if err := planned.Fold(w.Logs.Logs[w.Sale.Log()].Entries[0]); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]struct {
		sale   string
		log    *ledger.Sale
		shards []*ledger.State
	}{
		"sale":       {"tset", w.Sale, w.Shards},
		"an older":   {"test", w.Sale, older.Shards},
		"older plan": {"test", planned, w.Shards},
	} {
		if err := (export.Sale{Name: other.sale, Log: other.log, Shards: other.shards, Logs: w.Logs}).Check(t.Context(), bytes.NewReader(file)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A disk that fails while the export is read back is not an export that ends, even if the
// disk goes on behind.
func TestCheckExportOfBadDisk(t *testing.T) {
	w, file := exported(t)
	for at, c := range file {
		if c != '\n' && at%100 != 0 {
			continue
		}
		from := io.MultiReader(bytes.NewReader(file[:at+1]), &errorOnce{}, bytes.NewReader(file[at+1:]))
		if err := exportOf(w).Check(t.Context(), from); !errors.Is(err, ledger.ErrBroken) {
			t.Errorf("after %d bytes: %v", at+1, err)
		}
	}
}

// errorOnce is a reader that fails, and then is at its end.
type errorOnce struct{ failed bool }

func (e *errorOnce) Read([]byte) (int, error) {
	if e.failed {
		return 0, io.EOF
	}
	e.failed = true
	return 0, ledger.ErrBroken
}

// The error names what was altered.
func TestExportReportsErrors(t *testing.T) {
	w, file := exported(t)
	lines := strings.SplitAfter(string(file), "\n")
	claims := w.Shards[0].Claims() + w.Shards[1].Claims() + w.Shards[2].Claims()
	insert := func(line string) string { return strings.Join(slices.Insert(slices.Clone(lines), claims+1, line), "") }
	for want, altered := range map[string]string{
		fmt.Sprintf("line %d of the export", claims+2): insert(lines[claims]),
		"line 1 of the export":                         strings.Replace(string(file), "test", "tset", 1),
		"continues after its end":                      string(file) + "{}\n",
		fmt.Sprintf("ends in line %d", len(lines)-1):   strings.TrimSuffix(string(file), "\n"),
	} {
		err := exportOf(w).Check(t.Context(), strings.NewReader(altered))
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ledger.ErrCorrupt) == errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	// A disk that fails in the middle of a line does not make the line wrong.
	from := io.MultiReader(strings.NewReader(insert(lines[claims])[:len(strings.Join(lines[:claims+1], ""))+20]), iotest.ErrReader(ledger.ErrBroken))
	if err := exportOf(w).Check(t.Context(), from); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("got %v", err)
	}
}

func TestReadExportOfSomethingElse(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"nothing":         {"", "begins with a header"},
		"no JSON":         {"hello", "begins with a header"},
		"no JSON, a line": {"hello\n", "begins with a header"},
		"a later version": {`{"format":2,"kind":"export","sale":"test","uid":"x","roots":[],"counts":{}}` + "\n{}\n", "an export of format 2"},
		"another JSON":    {`{"apiVersion":"salectl/v1"}` + "\n", `of kind ""`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := export.Audit(strings.NewReader(test.file), nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The header counts what is held and on the way, too.
func TestExportHeaderOfLiveSale(t *testing.T) {
	w := ledger.BusyWorld(t)
	want := export.Counts{Shards: 3, Slots: w.Shards[0].Next() + w.Shards[1].Next() + w.Shards[2].Next(), Claims: 10, Sold: 8, Held: 8, Outcomes: ledger.Outcomes{OpenHolds: 5, Confirmed: 5}}
	for _, s := range w.Shards {
		want.Available += s.Available
		want.InFlight += s.InFlight
	}
	if got := export.CountsOf(w.Shards); got != want || got.InFlight != 5 {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// TestExportOfLiveSale exports what was folded while the logs have gone on.
func TestExportOfLiveSale(t *testing.T) {
	w := ledger.BusyWorld(t)
	w.TimesCommit(2, ledger.ReadAtOnce) // so that the cut is within the second page
	cut := slices.Clone(w.Shards)
	for i, s := range cut {
		cut[i] = ledger.NewState(s.Log())
		if _, err := ledger.Load(t.Context(), w.Logs, s.Log(), cut[i]); err != nil {
			t.Fatal(err)
		}
	}
	before := mustExport(t, w)
	w.Sell(1, 1)
	w.TimesCommit(2, 2*ledger.ReadAtOnce)
	var file bytes.Buffer
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: cut, Logs: w.Logs}).Write(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), before) {
		t.Error("the export is not that of the cut")
	}
	if _, shards, err := readExport(file.Bytes()); err != nil || shards[2].Next() != cut[2].Next() {
		t.Errorf("read back: %v", err)
	}
}

func TestExportFails(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(*ledger.World)
		want   error
	}{
		"a slot altered since": {func(w *ledger.World) { w.Logs.Logs[w.Shards[1].Log()].Entries[2][3] ^= 1 }, ledger.ErrCorrupt},
		"the last slot altered since": {func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[0].Log()]
			last := len(l.Entries) - 1
			l.Entries[last] = bytes.Replace(l.Entries[last], []byte("payment"), []byte("taymenp"), 1)
		}, ledger.ErrCorrupt},
		"slots lost since": {func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[1].Log()]
			l.Entries = l.Entries[:3]
		}, ledger.ErrGone},
		"a log deleted since": {func(w *ledger.World) { delete(w.Logs.Logs, w.Shards[1].Log()) }, ledger.ErrGone},
		"another log": {func(w *ledger.World) {
			w.Logs.Logs[w.Shards[1].Log()] = w.Logs.Logs[w.Shards[0].Log()]
		}, ledger.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			w := ledger.BusyWorld(t)
			test.damage(w)
			if err := exportOf(w).Write(t.Context(), io.Discard); !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	for what, log := range map[string]func(*ledger.World) string{
		"a shard's log": func(w *ledger.World) string { return w.Shards[1].Log() },
		"the sale's":    func(w *ledger.World) string { return w.Sale.Log() },
	} {
		t.Run(what+" cannot be read", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := ledger.BusyWorld(t)
				if err := (export.Sale{Name: "test", Log: w.Sale, Shards: w.Shards, Logs: ledger.BrokenLogs{MemoryLogs: w.Logs, Log: log(w)}}).Write(t.Context(), io.Discard); !errors.Is(err, ledger.ErrBroken) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
	t.Run("a full disk", func(t *testing.T) {
		w := ledger.BusyWorld(t)
		if err := exportOf(w).Write(t.Context(), fullDisk{}); !errors.Is(err, ledger.ErrBroken) {
			t.Errorf("got %v", err)
		}
	})
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, ledger.ErrBroken }

// lineOf is a line as an export has it.
func lineOf(v any) []byte {
	var line bytes.Buffer
	lines := json.NewEncoder(&line)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(v); err != nil {
		panic(err)
	}
	return line.Bytes()
}

// claimLines are the lines of all claims.
func claimLines(t *testing.T, w *ledger.World) []export.Claim {
	t.Helper()
	found, err := exportOf(w).Find(t.Context(), export.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
