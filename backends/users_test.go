package backends

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/rules"
	"salectl/spec"
)

// filed is a sale with its users in a file.
func filed(path string) spec.Sale {
	return spec.Sale{Name: "tickets", Users: &spec.Users{
		Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeInt}}, File: path, Fresh: spec.Duration(30 * time.Second), Cached: 10,
	}}
}

// put replaces a file at once, as its owner should.
func put(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path+".new", []byte(text), 0o666)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file is read again once what is known of it would be too old, and no sooner. What
// cannot be read is an error from then on, until it can be again.
func TestUsersOfAFileThatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.csv")
	put(t, path, "id,level\nada,1\n")
	var now clock.Now
	sale := filed(path)
	users, closeUsers, err := openUsers(sale, rules.SchemaFor(sale), func() clock.Now { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer closeUsers()
	for _, step := range []struct {
		what  string
		after time.Duration
		file  string // what it is replaced with before; "": nothing
		want  string // ada's level, or the error
	}{
		{"at first", 0, "", "1"},
		{"changed, and fresh", 30 * time.Second, "id,level\nada,2\n", "1"},
		{"fresh no more", time.Millisecond, "", "2"},
		{"bad, and fresh", 30 * time.Second, "id,level\nada,many\n", "2"},
		{"bad", time.Millisecond, "", `look up users: ` + path + `:2:5: level: "many" is no int`},
		{"mended, and left alone", time.Second - 1, "id,level\nada,3\n", `"many" is no int`},
		{"mended", 1, "", "3"},
		{"the same for long", time.Hour, "", "3"},
		{"gone, and fresh", time.Second, "gone", "3"},
		{"gone", 30 * time.Second, "", "there is no such file of users"},
		{"back", time.Second, "id,level\nada,4\n", "4"},
		{"without ada", time.Hour, "id,level\nbob,4\n", "missing"},
	} {
		now.Mono += step.after
		switch step.file {
		case "":
		case "gone":
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		default:
			put(t, path, step.file)
		}
		got, err := users.Lookup(t.Context(), []string{"ada"})
		switch {
		case err != nil && strings.Contains(err.Error(), step.want):
		case err != nil || rules.Show(got[0].Value("level")) != step.want:
			t.Errorf("%s: got %v, %v; want %s", step.what, got, err, step.want)
		}
	}
}

// A file that is the same is not read again, and one that changes while it is read is
// not believed.
func TestUsersOfAFileThatIsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.ndjson")
	put(t, path, `{"id":"ada","level":1}`+"\n")
	sale := filed(path)
	f := &watched[*rules.File]{
		files: func() ([]string, error) { return []string{path}, nil },
		read:  func(*rules.File) (*rules.File, error) { return rules.OpenFile(path, rules.SchemaFor(sale)) },
		clock: func() clock.Now { return clock.Now{} },
	}
	if err := f.load(); err != nil {
		t.Fatal(err)
	}
	first := f.known.Load().value
	if err := f.load(); err != nil || f.known.Load().value != first {
		t.Errorf("the same file was read again, %v", err)
	}
	// The clock is read between the read and the last check of the file.
	put(t, path, `{"id":"ada","level":2}`+"\n")
	f.clock = func() clock.Now {
		put(t, path, `{"id":"ada","level":3}`+"\n")
		return clock.Now{}
	}
	if err := f.load(); err == nil || !strings.Contains(err.Error(), "changed while it was read") || f.known.Load().value != first {
		t.Errorf("a file that changes meanwhile: %v", err)
	}
}

// A lookup that waits for another one's read ends with its context.
func TestUsersOfAFileEndInTime(t *testing.T) {
	f := &watchedUsers{watched[*rules.File]{turn: make(chan struct{}, 1)}}
	f.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Lookup(ctx, []string{"ada"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOpenUsersReportsErrors(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "users.csv")
	put(t, bad, "id,level\nada,x\nbob,1\nzoe,1\neve,y\n")
	users, _, err := OpenUsers(filed(bad), rules.SchemaFor(filed(bad)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Lookup(t.Context(), nil); len(spec.Problems(err)) != 2 {
		t.Errorf("got %v", err)
	}
	if err := CheckUsers(t.Context(), filed(bad)); len(spec.Problems(err)) != 2 || spec.Problems(err)[1].Line != 5 {
		t.Errorf("checked: %v", err)
	}
	if err := CheckUsers(t.Context(), filed(bad+"x.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("checked: %v", err)
	}
	if _, _, err := OpenUsers(filed(""), rules.SchemaFor(filed(""))); err == nil || !strings.Contains(err.Error(), "that only the sale file names") {
		t.Errorf("got %v", err)
	}
	if err := CheckUsers(t.Context(), spec.Sale{}); err != nil {
		t.Errorf("no users: %v", err)
	}
	past := spec.Sale{History: &spec.History{Files: []string{bad}}}
	var source *rules.SourceError
	if err := CheckUsers(t.Context(), past); !errors.As(err, &source) || !strings.Contains(source.What, "its first line is not that of an export") {
		t.Errorf("no export: %v", err)
	}
	past.History.Files = []string{bad + "x.ndjson"}
	if err := CheckUsers(t.Context(), past); len(spec.Problems(err)) != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	table := filed("")
	table.Users.Table = &spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"127.0.0.1:1"}, Table: "users", Family: "u"}}
	users, closeUsers, err := OpenUsers(table, rules.SchemaFor(table))
	if _, cached := users.(*rules.Cache); err != nil || !cached {
		t.Fatalf("a table: %T, %v", users, err)
	}
	if err := closeUsers(); err != nil {
		t.Error(err)
	}
	table.Users.Table.Table = ""
	if _, _, err := OpenUsers(table, rules.SchemaFor(table)); err == nil || !strings.HasPrefix(err.Error(), "sale tickets: users: ") {
		t.Errorf("a table without a name: %v", err)
	}
}

// Of a sale without users, nobody is known.
func TestNoUsers(t *testing.T) {
	users, closeUsers, err := OpenUsers(spec.Sale{}, rules.SchemaFor(spec.Sale{}))
	if err != nil {
		t.Fatal(err)
	}
	defer closeUsers()
	got, err := users.Lookup(t.Context(), []string{"ada", "bob"})
	if err != nil || len(got) != 2 || got[1].ID() != "bob" || got[1].Known() {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestFilesOfATableOfUsers(t *testing.T) {
	sale := filed("users.csv")
	sale.Embedded = &spec.Embedded{}
	before, err := Files(sale)
	if err != nil {
		t.Fatal(err)
	}
	sale.Users.Table = new(spec.UsersTable)
	if n, err := Files(sale); err != nil || n <= before {
		t.Errorf("with a table %d files, without %d, %v", n, before, err)
	}
}

// What is kept in two places may age in each for half of the time, and what is kept in one
// for all of it.
func TestFreshness(t *testing.T) {
	const fresh = 30 * time.Second
	file, table := &spec.Users{File: "users.csv"}, &spec.Users{Table: new(spec.UsersTable)}
	exports, kept := []string{"*.ndjson"}, new(spec.Rows)
	for name, c := range map[string]struct {
		users   *spec.Users
		history *spec.History
		tables  bool
		each    time.Duration
	}{
		"nothing":              {nil, nil, false, fresh},
		"a file":               {file, nil, false, fresh},
		"files":                {file, &spec.History{Files: exports}, false, fresh},
		"a table":              {table, nil, true, fresh},
		"tables":               {table, &spec.History{Table: kept}, true, fresh},
		"a table of history":   {nil, &spec.History{Table: kept}, true, fresh},
		"a table, and exports": {table, &spec.History{Files: exports}, true, fresh / 2},
		"a file, and a table":  {file, &spec.History{Table: kept}, true, fresh / 2},
		"history in both":      {nil, &spec.History{Files: exports, Table: kept}, true, fresh / 2},
	} {
		if tables, each := freshness(spec.Sale{Users: c.users, History: c.history}, fresh); tables != c.tables || each != c.each {
			t.Errorf("%s: %v, %s, want %v, %s", name, tables, each, c.tables, c.each)
		}
	}
}

func BenchmarkUsersOfAFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "users.csv")
	if err := os.WriteFile(path, []byte("id,level\nada,1\n"), 0o666); err != nil {
		b.Fatal(err)
	}
	sale := filed(path)
	users, _, err := OpenUsers(sale, rules.SchemaFor(sale))
	if err != nil {
		b.Fatal(err)
	}
	ids := []string{"ada"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := users.Lookup(context.Background(), ids); err != nil {
			b.Fatal(err)
		}
	}
}

// What was bought in exports, and in more of them as they come, is known with the users,
// and a run that stands in two places counts once.
func TestUsersWithHistory(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "users.csv"), "id,level\nada,1\n")
	put(t, filepath.Join(dir, "drop-1.ndjson"), exported("1"))
	var now clock.Now
	sale := filed(filepath.Join(dir, "users.csv"))
	sale.History = &spec.History{Files: []string{filepath.Join(dir, "drop-*.ndjson")}}
	users, closeUsers, err := openUsers(sale, rules.SchemaFor(sale), func() clock.Now { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer closeUsers()
	bought := func(want int64) {
		t.Helper()
		all, err := users.Lookup(t.Context(), []string{"ada", "eve"})
		if err != nil {
			t.Fatal(err)
		}
		var units int64
		for _, p := range all[0].History() {
			units += p.Units
		}
		if units != want || rules.Show(all[0].Value("level")) != "1" || len(all[1].History()) != 0 {
			t.Errorf("ada bought %d units, want %d; eve bought %v", units, want, all[1].History())
		}
	}
	bought(2)
	put(t, filepath.Join(dir, "drop-2.ndjson"), exported("2"))
	put(t, filepath.Join(dir, "drop-2-copy.ndjson"), exported("2"))
	bought(2)
	now.Mono += 31 * time.Second
	bought(4)
	fails := func(want string) {
		t.Helper()
		now.Mono += 31 * time.Second
		if _, err := users.Lookup(t.Context(), []string{"ada"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	put(t, filepath.Join(dir, "drop-3.ndjson"), "{}\n")
	fails("drop-3.ndjson: its first line is not that of an export")
	// A purchase that was known is never forgotten: neither when its export is gone, nor when
	// one of an earlier time has taken its place.
	put(t, filepath.Join(dir, "drop-3.ndjson"), exported("3"))
	if err := os.Remove(filepath.Join(dir, "drop-1.ndjson")); err != nil {
		t.Fatal(err)
	}
	fails("run 0001 of sale drop-1 is in no export any more; it was in " + filepath.Join(dir, "drop-1.ndjson"))
	older := strings.Replace(exported("1"), `"slots":1,"claims":1,"sold":2`, `"slots":0,"claims":0,"sold":0`, 1)
	put(t, filepath.Join(dir, "drop-1.ndjson"), older[:strings.Index(older, "\n")+1])
	fails("drop-1.ndjson is an older export of run 0001 of sale drop-1 than the one read before")
	put(t, filepath.Join(dir, "drop-1.ndjson"), exported("1"))
	now.Mono += time.Second
	bought(6)

	twice := histories{staticHistory{"1": 2}, staticHistory{"1": 3, "2": 3}}
	all, err := twice.History(t.Context(), []string{"ada"})
	if err != nil || len(all[0]) != 2 || all[0][0].Units != 2 {
		t.Errorf("of two places: %v, %v", all, err)
	}
	sale.History.Files = []string{}
	if _, _, err := OpenUsers(sale, rules.SchemaFor(sale)); err == nil || !strings.Contains(err.Error(), "that only the sale file names") {
		t.Error(err)
	}
}

// Files may come after the users are opened, such as those of a folder that is mounted late. Until then
// lookups fail.
func TestUsersOfFilesThatComeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "late")
	var now clock.Now
	sale := filed(filepath.Join(dir, "users.csv"))
	sale.History = &spec.History{Files: []string{filepath.Join(dir, "drop-1.ndjson")}}
	users, closeUsers, err := openUsers(sale, rules.SchemaFor(sale), func() clock.Now { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer closeUsers()
	fails := func(want string) {
		t.Helper()
		if _, err := users.Lookup(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		now.Mono += tryAgain
	}
	fails("there is no such file of users")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "users.csv"), "id,level\nada,1\n")
	fails("there is no such export")
	put(t, filepath.Join(dir, "drop-1.ndjson"), exported("1"))
	if all, err := users.Lookup(t.Context(), []string{"ada"}); err != nil || len(all[0].History()) != 1 {
		t.Errorf("got %v, %v", all, err)
	}
}

// exported returns an export of a run in which ada bought two units.
func exported(n string) string {
	return `{"format":1,"kind":"export","sale":"drop-` + n + `","uid":"000` + n + `","roots":["00"],"counts":{"slots":1,"claims":1,"sold":2}}` + "\n" +
		`{"claim":"0-1-0","sale":"drop-` + n + `","user":"ada","units":[1,2],"state":"sold","at":"2026-11-2` + n + `T12:00:00Z"}` + "\n" +
		`{"shard":0,"slot":0,"commit":"AAAA"}` + "\n"
}

// staticHistory is what everybody bought, by run.
type staticHistory map[string]int64

func (h staticHistory) History(_ context.Context, ids []string) ([][]rules.Purchase, error) {
	all := make([][]rules.Purchase, len(ids))
	for i := range ids {
		for run, units := range h {
			all[i] = append(all[i], rules.Purchase{Run: run, Units: units})
		}
	}
	return all, nil
}
