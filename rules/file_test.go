package rules

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Both forms of a file have the same attributes of the same users.
func TestOpenFile(t *testing.T) {
	files := map[string]string{
		"users.csv": "\ufeffid,vip,extra,level,city,score,since,tags\r\n" +
			"ada,true,x,5,\"Wien, 1\",3.5,2025-11-21T13:00:00+01:00,early|gold\r\n" +
			"bob,,,,,,,\r\n" +
			"eve,false,,-1,,0,,a\r\n",
		"semicolons.csv": "id;vip;level;city;score;since;tags\r\n" +
			"ada;true;5;Wien, 1;3.5;2025-11-21T13:00:00+01:00;early|gold\r\n" +
			"bob;;;;;;\r\n" +
			"eve;false;-1;;0;;a\r\n",
		"users.ndjson": "\ufeff" + `{"id": "ada", "vip": true, "extra": {"x": [1]}, "level": 5, "city": "Wien, 1", "score": 3.5, "since": "2025-11-21T12:00:00Z", "tags": ["early", "gold"]}
{"id": "bob", "vip": null}

{"tags": ["a"], "vip": false, "level": -1, "score": 0, "id": "eve"}
`,
	}
	want := []Attributes{
		mustNew(t, shopper, "eve", types.Int(-1), nil, types.Double(0), types.Bool(false), nil, listOf([]string{"a"})),
		shopper.Unknown("zoe"),
		mustNew(t, shopper, "bob"),
		mustNew(t, shopper, "ada", types.Int(5), types.String("Wien, 1"), types.Double(3.5), types.Bool(true), types.Timestamp{Time: noon.AddDate(-1, 0, 0)}, listOf([]string{"early", "gold"})),
	}
	for name, text := range files {
		f, err := OpenFile(write(t, name, text), shopper)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Lookup(t.Context(), []string{"eve", "zoe", "bob", "ada"})
		if err != nil || len(f.places) != 3 {
			t.Fatal(len(f.places), err)
		}
		for i := range want {
			if got[i].Digest() != want[i].Digest() || got[i].Known() != want[i].Known() {
				t.Errorf("%s: %s is %v, want %v", name, want[i].ID(), got[i].of.values, want[i].of.values)
			}
		}
	}
}

// A file of users with a manifest beside it is the one of which that tells: one that was cut
// behind a line is not. An empty line alone is a file without users.
func TestOpenFileManifest(t *testing.T) {
	const digest = "2ab0dd47f7c40a1f5a1cbb1bfd1b1f5b6c0f3ff93e1d9d1df5e0ba9ba22ee5f9"
	path := write(t, "users.ndjson", "\n")
	if f, err := OpenFile(path, shopper); err != nil || len(f.places) != 0 {
		t.Errorf("without users: %v, %v", f, err)
	}
	for manifest, want := range map[string]string{
		fmt.Sprintf("%x", sha256.Sum256([]byte("\n"))): "",
		digest: "users.ndjson.sha256 has the SHA-256 " + digest + ", but the file 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b: one of the two was altered",
	} {
		if err := os.WriteFile(path+".sha256", []byte(manifest+"  users.ndjson\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFile(path, shopper); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", manifest, err)
		}
	}
}

// TestNumbersInJSON reads numbers beyond 64 bits: they are doubles, and neither texts nor ids.
func TestNumbersInJSON(t *testing.T) {
	schema := NewSchema(spec.Attribute{Name: "score", Type: spec.TypeDouble}, spec.Attribute{Name: "level", Type: spec.TypeString})
	for line, want := range map[string]string{
		`{"id": "ada", "score": 123456789012345678901}`: "",
		`{"id": "ada", "score": 1e999}`:                 `score: "1e999" is no double; write a number such as 0.5`,
		`{"id": "ada", "level": 123456789012345678901}`: "level: 123456789012345678901 is no string in JSON",
		`{"id": 123456789012345678901}`:                 "the id is no text",
	} {
		f, err := OpenFile(write(t, "users.ndjson", line+"\n"), schema)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if err == nil {
			all, _ := f.Lookup(t.Context(), []string{"ada"})
			if got := all[0].Value("score"); got != types.Double(123456789012345678901) {
				t.Errorf("%s: %v", line, Show(got))
			}
		}
	}
}

func TestOpenFileSaysWhatIsWrong(t *testing.T) {
	level := NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt}, spec.Attribute{Name: "vip", Type: spec.TypeBool})
	for _, c := range []struct{ name, text, want string }{
		{"users.csv", "id,level,vip\nada,5,true\nbob,x,yes\nada,,\n,1,\n", `
users.csv:3:5: level: "x" is no int; write digits such as 42, from -9223372036854775808 to 9223372036854775807
  Correct it, leave it empty if it is not known, or declare level as another type than int.
users.csv:4:1: the user "ada" is in the file twice
  Keep one of the lines.
users.csv:5:1: a user has no id
  Add an id to each user.
`},
		{"users.csv", "", `
users.csv:1:1: the file is empty
  Write the names of the columns into the first line, id among them.
`},
		{"users.csv", "user,levle,vip,vip\n", `
users.csv:1:1: there is no column named id
  The columns are user, levle, vip, vip. Name the one that is meant id.
users.csv:1:1: there is no column named level
  Is levle meant? Name it level.
users.csv:1:16: there are two columns named vip
  Rename one of them.
`},
		{"users.csv", "id,level,vip\nada,5\n", `
users.csv:2:1: this is no CSV: wrong number of fields
  Give each line as many cells as the header has.
`},
		{"users.csv", "id,level,vip\nada,\"5,true\n", `
users.csv:2:13: this is no CSV: extraneous or missing " in quoted-field
  Put texts that hold a comma or a quote into double quotes, and double each quote in them.
`},
		{"users.ndjson", `{"id": "ada", "level": "5"}
{"id": "bob", "level": 1.5}
{"id": 7}
{"id": "bob", "vip": true, "vip": false}
{"id": "bob"
{"id": "bob"} {}
["bob"]
{"level": 3}
`, `
users.ndjson:1:15: level: "5" is no int in JSON
  Correct it, leave it empty if it is not known, or declare level as another type than int.
users.ndjson:2:15: level: "1.5" is no int; write digits such as 42, from -9223372036854775808 to 9223372036854775807
  Correct it, leave it empty if it is not known, or declare level as another type than int.
users.ndjson:3:2: the id is no text
  Write it as a text, such as "4711".
users.ndjson:4:33: it has "vip" twice in one object
  Write one JSON object a line, with each name once.
users.ndjson:5:13: it is no JSON: unexpected EOF
  Write one JSON object a line, with each name once.
users.ndjson:6:14: it is no JSON: something follows the first value
  Write one JSON object a line, with each name once.
users.ndjson:7:1: this is no JSON object
  Write one object a line, such as {"id": "ada"}.
users.ndjson:8:1: a user has no id
  Add an id to each user.
`},
		{"users.ndjson", "", `
users.ndjson:1:1: the file is empty
  Write one user per line; without users write an empty line.
`},
		{"users.csv", "id;level;vip\nM\xfcller;5;true\n", `
users.csv:2:1: the user id "M\xfcller": must be UTF-8
  Correct it.
`},
		{"users.csv", "id,level,vip\n\"a\x00\",5,\n" + strings.Repeat("u", 256) + ",6,\n", `
users.csv:2:1: the user id "a\x00": must not contain control characters
  Correct it.
users.csv:3:1: the user id "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu"…: 256 bytes are too many, at most 255
  Correct it.
`},
		{"users.txt", "", `
users.txt: the file name does not show the format
  Name it .csv for CSV with a header, or .ndjson for one JSON object a line.
`},
		{"missing.csv", "-", `
missing.csv: there is no such file of users
  Write the path of a file that exists.
`},
	} {
		path := write(t, c.name, c.text)
		if c.text == "-" {
			os.Remove(path)
		}
		f, err := OpenFile(path, level)
		if f != nil || err == nil {
			t.Errorf("%s: %q was read", c.name, c.text)
			continue
		}
		var got strings.Builder
		for _, p := range spec.Problems(err) {
			p.File = filepath.Base(p.File)
			got.WriteString(p.Text())
		}
		if want := strings.TrimPrefix(c.want, "\n"); got.String() != want {
			t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
		}
	}
}

// All users are found, however many slots of the table were taken when they came.
func TestManyUsers(t *testing.T) {
	table := newFile(levels)
	const users = 10_000
	for i := range users {
		if !table.add(fmt.Sprint("u", i), []Value{types.Int(int64(i))}) || table.add("u0", make([]Value, 1)) {
			t.Fatal("u", i)
		}
	}
	for i := range users {
		if got := table.get(fmt.Sprint("u", i)).Value("level"); got != types.Int(int64(i)) {
			t.Fatalf("u%d has level %s", i, got)
		}
	}
	if table.get("u10000").Known() || table.get("").Known() {
		t.Error("there are users that nobody added")
	}
}

// A file full of mistakes is not a screen full of messages.
func TestOpenFileStopsAtSomeProblems(t *testing.T) {
	_, err := OpenFile(write(t, "users.csv", "id,level\n"+strings.Repeat("a,x\n", 1000)), NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt}))
	if n := len(spec.Problems(err)); n != maxFileProblems {
		t.Errorf("%d problems", n)
	}
}

// Users of a large file stay below a hundred bytes each.
func TestAFileIsCompact(t *testing.T) {
	const users = 100_000
	var text strings.Builder
	text.WriteString("id,level,city,score,vip,since\n")
	for i := range users {
		fmt.Fprintf(&text, "user-%07d,%d,Wien,3.5,true,2025-11-21T12:00:00Z\n", i, i%10)
	}
	path := write(t, "users.csv", text.String())
	text.Reset()
	five := NewSchema(shopper.attributes[:5]...)
	before := heap()
	f, err := OpenFile(path, five)
	if err != nil {
		t.Fatal(err)
	}
	each := float64(heap()-before) / users
	t.Logf("%.1f bytes a user", each)
	if each > 100 {
		t.Errorf("%.1f bytes a user", each)
	}
	got, _ := f.Lookup(t.Context(), []string{"user-0099999", "user-0000000", "user-0100000"})
	if !got[0].Known() || Show(got[0].Value("level")) != "9" || !got[1].Known() || got[2].Known() || len(f.places) != users {
		t.Errorf("%v, %d users", got, len(f.places))
	}
	runtime.KeepAlive(f)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The ids stand in the order of the file, however many there are.
func TestFileIDs(t *testing.T) {
	text, want := "id\n", []string{}
	for i := range 1000 {
		want = append(want, fmt.Sprintf("user-%d", i*7919%1000))
		text += want[i] + "\n"
	}
	f, err := OpenFile(write(t, "users.csv", text), NewSchema())
	if err != nil {
		t.Fatal(err)
	}
	if got := f.IDs(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
