package units

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/spec"
)

func TestNoUnits(t *testing.T) {
	if s, err := ForSale(spec.Sale{Name: "plain", Stock: 5}, env); s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		units   spec.Units
		columns []string
		want    []Unit
	}{
		"ranges":     {"", spec.Units{Ranges: []string{"A1-A2", "VIP"}}, []string{"unit"}, []Unit{{"A1", nil}, {"A2", nil}, {"VIP", nil}}},
		"one column": {"code\na\nb\nc\n", spec.Units{FromFile: true}, []string{"code"}, []Unit{{"a", nil}, {"b", nil}, {"c", nil}}},
		"attributes": {"code,pin,shop\nx1,1234,north\nx2,,\nx3,\"a \"\"b\"\", c\", \n", spec.Units{FromFile: true}, []string{"code", "pin", "shop"},
			[]Unit{{"x1", []string{"1234", "north"}}, {"x2", []string{"", ""}}, {"x3", []string{`a "b", c`, " "}}}},
		"the name in between": {"pin,code,shop\n1,x1,n\n2,x2,n\n3,x3,n\n", spec.Units{FromFile: true, Column: "code"}, []string{"code", "pin", "shop"},
			[]Unit{{"x1", []string{"1", "n"}}, {"x2", []string{"2", "n"}}, {"x3", []string{"3", "n"}}}},
		"as Windows writes it": {"\ufeffcode,pin\r\nä,1\r\nb,2\r\nc,3", spec.Units{FromFile: true, Column: "code"}, []string{"code", "pin"},
			[]Unit{{"ä", []string{"1"}}, {"b", []string{"2"}}, {"c", []string{"3"}}}},
		"with semicolons": {"\ufeffcode;price\r\nä;1,50\r\nb;\"2;00\"\r\nc;3\r\n", spec.Units{FromFile: true, Column: "code"}, []string{"code", "price"},
			[]Unit{{"ä", []string{"1,50"}}, {"b", []string{"2;00"}}, {"c", []string{"3"}}}},
		"empty lines at the end": {"code\na\nb\nc\n\r\n\n", spec.Units{FromFile: true}, []string{"code"}, []Unit{{"a", nil}, {"b", nil}, {"c", nil}}},
		"quoted headers": {"\ufeff\"code\",\"the pin\"\na,1\nb,2\nc,3\n", spec.Units{FromFile: true, Column: "code"}, []string{"code", "the pin"},
			[]Unit{{"a", []string{"1"}}, {"b", []string{"2"}}, {"c", []string{"3"}}}},
		"all columns there may be": {columns(maxColumns) + "\na" + strings.Repeat(",", maxColumns-1) + "\nb" + strings.Repeat(",", maxColumns-1) + "\n\ufffd" + strings.Repeat(",", maxColumns-1),
			spec.Units{FromFile: true}, strings.Split(columns(maxColumns), ","),
			[]Unit{{"a", make([]string, maxColumns-1)}, {"b", make([]string, maxColumns-1)}, {"\ufffd", make([]string, maxColumns-1)}}},
		"the longest": {"code,x\n" + strings.Repeat("c", maxField) + ",\"" + strings.Repeat(`""`, maxField) + "\"\nb,\nc,\n",
			spec.Units{FromFile: true}, []string{"code", "x"},
			[]Unit{{strings.Repeat("c", maxField), []string{strings.Repeat(`"`, maxField)}}, {"b", []string{""}}, {"c", []string{""}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.units.FromFile {
				c.units.File = write(t, c.text)
			}
			s := mustSource(t, 3, c.units)
			if c.units.FromFile && s.Columns() != nil {
				t.Errorf("before it is read its columns are %q", s.Columns())
			}
			got := all(t, s)
			if !reflect.DeepEqual(got, c.want) || !slices.Equal(s.Columns(), c.columns) {
				t.Errorf("got %q of %q", got, s.Columns())
			}
			if summary, err := s.Check(t.Context()); err != nil || summary.Count != 3 {
				t.Errorf("checked: %+v, %v", summary, err)
			}
		})
	}
}

// All that is wrong is reported at once, with places and remedies.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("x", maxField+1)
	for name, c := range map[string]struct {
		column, text, want string
		stock              int64
	}{
		"empty": {"", "", `
codes.csv:1:1: the file is empty
  Write the names of the columns into the first line, that of the units' names among them.
`, 2},
		"blank": {"code", "\n\n\n", `
codes.csv:1:1: the file is empty
  Write the names of the columns into the first line, code among them.
`, 2},
		"begins with an empty line": {"", "\ncode\na\nb\n", `
codes.csv:1:1: the line is empty
  Remove it.
`, 2},
		"another column": {"code", "kode,pin\na,1\nb,2\n", `
codes.csv:1:1: there is no column named code
  Is kode meant? Name it code.
`, 2},
		"no such column": {"code", "pin,shop\na,1\nb,2\n", `
codes.csv:1:1: there is no column named code
  The columns are pin, shop. Name the one that is meant code.
`, 2},
		"columns": {"code", "code,,pin,pin," + long + "\n", `
codes.csv:1:6: column 2 has no name
  Name each column.
codes.csv:1:11: columns 3 and 4 have the same name
  Rename one of them.
codes.csv:1:15: the name of column 5 has more than 4096 bytes
  Shorten it.
`, 2},
		"too many columns": {"", strings.Repeat("c,", 32) + "c\n", `
codes.csv:1:1: there are 33 columns, at most 32 are allowed
  Leave out those that no buyer needs.
`, 2},
		"lines": {"", "code,pin\n,1\n\nx1,1,2\nx2\n" + `"x3,3` + "\n" + `x4,4"4"` + "\n \t,5\nä\x00,6\nä\xff,7\n x8,8\nx9," + long + "\n", `
codes.csv:2:1: the unit has no name
  Write the unit's name there, or remove the line.
codes.csv:3:1: the line is empty
  Remove it.
codes.csv:4:1: this is no CSV: wrong number of fields
  Give each line as many cells as the header has.
codes.csv:5:1: this is no CSV: wrong number of fields
  Give each line as many cells as the header has.
codes.csv:6:1: a quote is not closed
  Close it in the same line, and double a quote that is meant.
codes.csv:7:5: this is no CSV: bare " in non-quoted-field
  Put texts that hold a comma or a quote into double quotes, and double each quote in them.
codes.csv:8:2: this is a tab
  Separate cells by commas or semicolons, and write spaces within them.
codes.csv:9:2: this is a control character
  Remove it; an editor that shows invisible characters finds it.
codes.csv:10:2: this is not UTF-8
  Save the file as UTF-8.
codes.csv:11:1: the unit's name begins or ends with a blank
  Remove the blank.
codes.csv: it has 1 more problem
  Correct those above first.
`, 10},
		"a name behind wide characters": {"code", "pin,code\nünï, b\nx,c\n", `
codes.csv:2:5: the unit's name begins or ends with a blank
  Remove the blank.
`, 2},
		"a field too long": {"", "code,pin\na," + long + "\nb,1\n", `
codes.csv:2:3: cell 2 has 4097 bytes, at most 4096 are allowed
  Shorten it.
`, 2},
		"a line too long": {"", "code\n" + strings.Repeat("x", 3*maxLine) + "\nb\na\n", `
codes.csv:2:1: the line has more than 262240 bytes
  Write one unit a line.
`, 3},
		"twice": {"", "code,pin\nx1,1\nx2,2\nx1,3\nx3,4\nx1,1\n", `
codes.csv:4:1: this line repeats the unit of line 2
  Remove one of them.
codes.csv:6:1: this line repeats the unit of line 2
  Remove one of them.
`, 5},
		"too few": {"", "code\na\nb\n", `
codes.csv: the file has 2 units but the stock is 1,000: it lacks 998
  Add 998 lines, or write stock: 2. The first line names the columns and is no unit.
`, 1000},
		"one too few": {"", "code\na\nb\n", `
codes.csv: the file has 2 units but the stock is 3: it lacks 1
  Add 1 line, or write stock: 2. The first line names the columns and is no unit.
`, 3},
		"too many": {"", "code\na\nb\nc\nd\n", `
codes.csv:4:1: the file has 4 units but the stock is 2: it has 2 more, from line 4 on
  Remove 2 lines, or write stock: 4.
`, 2},
		"too many, some of them twice": {"", "code\na\nb\na\n", `
codes.csv:4:1: the file has 3 units but the stock is 2: it has 1 more, from line 4 on
  Remove 1 line, or write stock: 3.
codes.csv:4:1: this line repeats the unit of line 2
  Remove one of them.
`, 2},
		"too many with problems": {"", "code\na\n\"\nc\n", `
codes.csv:3:1: a quote is not closed
  Close it in the same line, and double a quote that is meant.
codes.csv:4:1: the file has 3 units but the stock is 2: it has 1 more, from line 4 on
  Remove 1 line, or write stock: 3.
`, 2},
		"a header that nobody can read": {"code", "co\x01de\na\nb\n", `
codes.csv:1:3: this is a control character
  Remove it; an editor that shows invisible characters finds it.
`, 2},
		"invisible characters": {"", "code\na\u2028\nb\u2029\nc\ufeff\nd\n\n\ne\u0085\n", `
codes.csv:2:2: this is a control character
  Remove it; an editor that shows invisible characters finds it.
codes.csv:3:2: this is a control character
  Remove it; an editor that shows invisible characters finds it.
codes.csv:4:2: this is a control character
  Remove it; an editor that shows invisible characters finds it.
codes.csv:6:1: the line is empty
  Remove it.
codes.csv:8:2: this is a control character
  Remove it; an editor that shows invisible characters finds it.
`, 5},
		"by line": {"", "code\na\na\n\"\n", `
codes.csv:3:1: this line repeats the unit of line 2
  Remove one of them.
codes.csv:4:1: a quote is not closed
  Close it in the same line, and double a quote that is meant.
`, 3},
		"wide characters in the header": {"", "ä,ö,\nx,1,\n", `
codes.csv:1:5: column 3 has no name
  Name each column.
`, 1},
		"UTF-16, the other way round": {"", "\xfe\xff\x00c\x00o", `
codes.csv:1:1: the file is UTF-16
  Save it as UTF-8.
`, 2},
		"UTF-16": {"", "\xff\xfec\x00o\x00", `
codes.csv:1:1: the file is UTF-16
  Save it as UTF-8.
`, 2},
		"a broken header": {"", "co\"de\"\na\nb\n", `
codes.csv:1:3: this is no CSV: bare " in non-quoted-field
  Put texts that hold a comma or a quote into double quotes, and double each quote in them.
`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSource(t, c.stock, spec.Units{FromFile: true, File: write(t, c.text), Column: c.column})
			_, err := s.Check(t.Context())
			if got := printed(t, s, err); got != c.want[1:] {
				t.Errorf("got:\n%s", got)
			}
			if read := s.Read(t.Context(), nil, func(Unit, bool) error { return nil }); read == nil && !strings.Contains(c.want, "repeats the unit") {
				t.Error("it can be read")
			}
		})
	}
}

// Of many problems the first are reported, however many duplicates there are, and the number of
// the others.
func TestManyProblems(t *testing.T) {
	const each = 2005
	text := "code\n"
	for range 3 {
		for i := range each {
			text += fmt.Sprintf("c%d\n", i)
		}
	}
	s := publicFile(t, 3*each, text)
	_, err := s.Check(t.Context())
	problems := spec.Problems(err)
	if len(problems) != maxProblems+1 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	for i, p := range problems[:maxProblems] {
		if p.Line != each+2+i || !strings.HasSuffix(p.Message, fmt.Sprintf("repeats the unit of line %d", i+2)) {
			t.Errorf("got %v", p)
		}
	}
	if last := problems[maxProblems].Message; last != "it has 4,000 more problems" {
		t.Errorf("the last is %s", last)
	}
}

// No text of a file with secret units is in any error, not even if its first line is a unit.
func TestErrorsKeepSecrets(t *testing.T) {
	const canary = "CODE-CANARY"
	texts := map[string]string{
		"no header":           canary + "1\n" + canary + "2\n",
		"no header, cells":    canary + "1," + canary + "3\n" + canary + "2,x\n",
		"a header twice":      "code," + canary + "," + canary + "\n",
		"duplicates":          "code\n" + canary + "\n" + canary + "\n",
		"quotes":              "code\n" + canary + "\"x\"\n\"" + canary + "\n",
		"cells":               "code\n" + canary + "," + canary + "\n",
		"a control character": "code\n" + canary + "\x01\n" + canary + "2\xff\n",
		"blanks":              "code\n " + canary + "\n" + canary + "2 \n",
		"too few":             "code\n" + canary + "\n",
		"too many":            "code\n" + canary + "\n" + canary + "2\n" + canary + "3\n",
		"long":                "code\n" + strings.Repeat(canary, maxField) + "\n" + strings.Repeat(canary, maxLine) + "\n",
	}
	for name, text := range texts {
		for _, column := range []string{"", "code", "CODE", "CODE-"} {
			s := mustSource(t, 2, spec.Units{FromFile: true, File: write(t, text), Column: column, KeyEnv: "KEY", Secret: true})
			_, err := s.Check(t.Context())
			if err == nil {
				if column == "" && strings.HasPrefix(name, "no header") {
					continue // its first unit is taken for the header, and one is missing
				}
				t.Errorf("%s, column %q: nothing is wrong", name, column)
				continue
			}
			if shown := err.Error() + fmt.Sprintf("%+v", err) + printed(t, s, err); strings.Contains(shown, "CANARY") {
				t.Errorf("%s, column %q: it shows a code:\n%s", name, column, shown)
			}
		}
	}
	// Altered units are refused without being shown, too.
	s := secretFile(t, 2, "code,pin\n"+canary+"1,1\n"+canary+"2,2\n")
	_, err := s.Compare(t.Context(), having(map[int64]Unit{1: {canary + "1", []string{"CANARY"}}}))
	if err == nil || strings.Contains(fmt.Sprintf("%v%+v", err, err), "CANARY") {
		t.Errorf("got %v", err)
	}
}

// The nearest column is suggested for secret units, too, unless it may be one of them.
func TestNearestColumn(t *testing.T) {
	for header, want := range map[string]string{
		"Code":        "Is Code meant? Name it code.",
		"kode":        "Is kode meant? Name it code.",
		"cod1":        "Write the names of the columns into the first line, code among them, or declare another column.",
		"code-abcdef": "Write the names of the columns into the first line, code among them, or declare another column.",
	} {
		s := mustSource(t, 1, spec.Units{FromFile: true, File: write(t, header+",x\na,b\n"), Column: "code", KeyEnv: "KEY", Secret: true})
		_, err := s.Check(t.Context())
		if problems := spec.Problems(err); len(problems) != 1 || problems[0].Remedy != want {
			t.Errorf("%s: got %v", header, printed(t, s, err))
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	s := publicFile(t, 1, "code\na\n")
	if err := os.Remove(s.units.File); err != nil {
		t.Fatal(err)
	}
	_, err := s.Check(t.Context())
	if got := printed(t, s, err); !errors.Is(err, fs.ErrNotExist) || got != "codes.csv: there is no such file or folder\n  Check the path; it is relative to the working directory.\n" {
		t.Errorf("missing: %s", got)
	}
	if err := os.Mkdir(s.units.File, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.Check(t.Context())
	if got := printed(t, s, err); got != "codes.csv: it is no regular file, and units are read more than once\n  Name a file.\n" {
		t.Errorf("a folder: %s", got)
	}
	s = mustSource(t, 1, spec.Units{FromFile: true})
	_, err = s.Check(t.Context())
	if got := printed(t, s, err); !strings.Contains(got, "that only the sale file names") {
		t.Errorf("of a stored declaration: %s", got)
	}
}

// A file that changes while it is read, or between two readings, is refused.
func TestFilesThatChange(t *testing.T) {
	const want = "codes.csv: the file changed while it was read\n  Try again once nobody writes to it any more.\n"
	rewrite := func(s *Source, text string) {
		if err := os.WriteFile(s.units.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := publicFile(t, 2, "code\na\nb\n")
	err := s.Read(t.Context(), nil, func(u Unit, _ bool) error {
		if u.Name == "a" {
			rewrite(s, "code\na\nb\nc\n")
		}
		return nil
	})
	if got := printed(t, s, err); got != want {
		t.Errorf("meanwhile: %s", got)
	}
	// Nor is it overlooked if it keeps its size, or its time.
	for name, change := range map[string]func(path string) error{
		"the same size": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) },
		"the same time": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path, []byte("code\na\n"), 0o600), os.Chtimes(path, time.Time{}, info.ModTime()))
		},
	} {
		s := publicFile(t, 2, "code\na\nb\n")
		err := s.Read(t.Context(), nil, func(u Unit, _ bool) error {
			if u.Name == "a" {
				return change(s.units.File)
			}
			return nil
		})
		if got := printed(t, s, err); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, second := range map[string]func(*Source) error{
		"check": func(s *Source) error { _, err := s.Check(t.Context()); return err },
		"read":  func(s *Source) error { return s.Read(t.Context(), nil, func(Unit, bool) error { return nil }) },
		"compare": func(s *Source) error {
			_, err := s.Compare(t.Context(), having(nil))
			return err
		},
	} {
		s := publicFile(t, 2, "code\na\nb\n")
		if _, err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		rewrite(s, "code\na\nc\n")
		if got := printed(t, s, second(s)); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	s = publicFile(t, 2, "code\na\nb\n")
	c, err := s.Compare(t.Context(), having(map[int64]Unit{1: {"a", nil}}))
	if err != nil {
		t.Fatal(err)
	}
	rewrite(s, "code\nb\na\n")
	if got := printed(t, s, s.Read(t.Context(), c, func(Unit, bool) error { return nil })); got != want {
		t.Errorf("after it was compared: %s", got)
	}
	for name, use := range map[string]func(*Source){"another source": func(*Source) {}, "another source that has read it": func(s *Source) { all(t, s) }} {
		other := mustSource(t, 2, s.units)
		use(other)
		if got := printed(t, other, other.Read(t.Context(), c, func(Unit, bool) error { return nil })); got != want {
			t.Errorf("after it was compared, with %s: %s", name, got)
		}
	}
}

// Behind a first reading no unit is handed over that it has not seen in its place, wherever
// the file has changed since, and whether it is read on or not.
func TestChangedUnitsAreNotHandedOver(t *testing.T) {
	const units = 20_000 // several parts
	lines := []string{"code"}
	for i := range units {
		lines = append(lines, fmt.Sprintf("CODE-%08d", i))
	}
	text := strings.Join(lines, "\n") + "\n"
	for _, line := range []int{1, units / 2, units} {
		for name, open := range map[string]func(testing.TB, int64, string) *Source{"public": publicFile, "secret": secretFile} {
			s := open(t, units, text)
			if _, err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			altered := strings.Replace(text, lines[line], strings.ToLower(lines[line]), 1)
			if err := os.WriteFile(s.units.File, []byte(altered), 0o600); err != nil {
				t.Fatal(err)
			}
			read := 0
			err := s.Read(t.Context(), nil, func(u Unit, _ bool) error {
				if read++; u.Name != lines[read] {
					t.Fatalf("%s: line %d has changed, and unit %d is handed over as %s", name, line, read, u.Name)
				}
				return nil
			})
			if got := printed(t, s, err); !strings.Contains(got, "the file changed") {
				t.Errorf("%s: line %d has changed: %s", name, line, got)
			}
			if line == units && read < units/2 {
				t.Errorf("%s: all but the last line are as they were, and %d are handed over", name, read)
			}
		}
	}
}

func TestReadEndsEarly(t *testing.T) {
	enough := errors.New("enough")
	calls := 0
	for _, s := range []*Source{publicFile(t, 2, "code\na\nb\n"), mustSource(t, 2, spec.Units{Ranges: []string{"1-2"}})} {
		calls = 0
		if err := s.Read(t.Context(), nil, func(Unit, bool) error { calls++; return enough }); !errors.Is(err, enough) || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	for _, s := range []*Source{
		publicFile(t, 2000, "code\n"+strings.Repeat("a\n", 2000)),
		mustSource(t, 2000, spec.Units{Ranges: []string{"1-2000"}}),
	} {
		if _, err := s.Check(gone); !errors.Is(err, enough) {
			t.Errorf("with a context that has ended: %v", err)
		}
	}
	// Behind a problem nothing is handed over.
	s := publicFile(t, 3, "code\na\n\"\nc\n")
	calls = 0
	if err := s.Read(t.Context(), nil, func(Unit, bool) error { calls++; return nil }); err == nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// The digest is the hash of the columns and all fields, under the key if there is one.
func TestDigest(t *testing.T) {
	content := []byte("salectl units v1\x00" + "\x02\x04code\x03pin" + "\x01a\x01" + "1" + "\x01b\x00")
	const text = "pin,code\n1,a\n,b\n"
	digest := func(s *Source) [32]byte {
		summary, err := s.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return summary.Digest
	}
	path := write(t, text)
	public := digest(mustSource(t, 2, spec.Units{FromFile: true, File: path, Column: "code"}))
	if public != sha256.Sum256(content) {
		t.Errorf("public: %x", public)
	}
	secret := mustSource(t, 2, spec.Units{FromFile: true, File: path, Column: "code", KeyEnv: "KEY", Secret: true})
	mac := hmac.New(sha256.New, secret.Key().digest)
	mac.Write(content)
	if got := digest(secret); !bytes.Equal(got[:], mac.Sum(nil)) {
		t.Errorf("secret: %x", got)
	}
	// Plans compare it with what an older program has stored.
	if got := fmt.Sprintf("%x", mac.Sum(nil)); got != wantDigest {
		t.Errorf("of this key it was another once: %s", got)
	}
	seen := map[[32]byte]string{public: "first"}
	for name, other := range map[string]string{
		"another order": "pin,code\n,b\n1,a\n", "another column": "pim,code\n1,a\n,b\n", "another pin": "pin,code\n2,a\n,b\n", "moved": "pin,code\n,a\n1,b\n",
	} {
		d := digest(mustSource(t, 2, spec.Units{FromFile: true, File: write(t, other), Column: "code"}))
		if twin, twice := seen[d]; twice {
			t.Errorf("%s has the digest of %s", name, twin)
		}
		seen[d] = name
	}
	// How a file is written does not matter.
	if d := digest(mustSource(t, 2, spec.Units{FromFile: true, File: write(t, "\ufeff\"pin\",code\r\n\"1\",a\r\n,b"), Column: "code"})); d != public {
		t.Error("quotes and line ends matter")
	}
}

const wantDigest = "5b935ae70311a4c040d060491a21ea127131ebafa5211ae3436b9e30448bfd84"

// A million units take little memory, and their names none.
func TestManyUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes a file of a million lines")
	}
	const units = 1_000_000
	var text strings.Builder
	text.WriteString("code,pin\n")
	for i := range units {
		fmt.Fprintf(&text, "COUPON-%07d-XXXXXXXXXXXXXXXXXXXX,%d\n", i*7919%units, i)
	}
	s := secretFile(t, units, text.String())
	text.Reset()
	before := heap()
	marks, summary, err := s.index(t.Context())
	if err != nil || summary.Count != units {
		t.Fatal(summary, err)
	}
	each := float64(heap()-before) / units
	t.Logf("%.1f bytes a unit", each)
	if each > 26 || len(marks) != units || cap(marks) > units+sparePlaces {
		t.Errorf("%.1f bytes a unit, %d marks in a place for %d", each, len(marks), cap(marks))
	}
	runtime.KeepAlive(marks)
}

// A file that is far too long is not remembered, and neither are ranges given too much room.
func TestMarksAreAsManyAsUnits(t *testing.T) {
	s := publicFile(t, 2, "code\n"+strings.Repeat("a\n", 3*sparePlaces))
	_, _, err := s.index(t.Context())
	problems := spec.Problems(err) // one is that the file is too long
	if want := fmt.Sprintf("it has %d more problems", 1+2+sparePlaces-1-maxProblems); len(problems) != maxProblems+1 || problems[maxProblems].Message != want {
		t.Errorf("got %v, want %s", err, want)
	}
	s = mustSource(t, 5, spec.Units{Ranges: []string{"1-5"}})
	if marks, _, err := s.index(t.Context()); err != nil || cap(marks) != 5 {
		t.Errorf("room for %d marks, %v", cap(marks), err)
	}
}

func columns(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("c", i))
	}
	return strings.Join(names, ",")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
