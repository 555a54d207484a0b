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
		Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeInt}}, File: path, Fresh: 30 * time.Second, Cached: 10,
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
		want  string // ada's level, or what the error says
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
		case err != nil || got[0].Value("level").String() != step.want:
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
	f := &watchedFile{path: path, schema: rules.SchemaFor(sale), clock: func() clock.Now { return clock.Now{} }}
	if err := f.load(); err != nil {
		t.Fatal(err)
	}
	first := f.users
	if err := f.load(); err != nil || f.users != first {
		t.Errorf("the same file was read again, %v", err)
	}
	// The clock is asked between reading and the last look at the file.
	put(t, path, `{"id":"ada","level":2}`+"\n")
	f.clock = func() clock.Now {
		put(t, path, `{"id":"ada","level":3}`+"\n")
		return clock.Now{}
	}
	if err := f.load(); err == nil || !strings.Contains(err.Error(), "has changed while it was read") || f.users != first {
		t.Errorf("a file that changes meanwhile: %v", err)
	}
}

// Whoever waits for somebody else's reading does not wait longer than asked to.
func TestUsersOfAFileEndInTime(t *testing.T) {
	f := &watchedFile{turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Lookup(ctx, []string{"ada"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOpenUsersSaysWhatIsWrong(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "users.csv")
	put(t, bad, "id,level\nada,x\nbob,1\nzoe,1\neve,y\n")
	if _, _, err := OpenUsers(filed(bad), rules.SchemaFor(filed(bad))); len(spec.Problems(err)) != 2 {
		t.Errorf("got %v", err)
	}
	if err := CheckUsers(t.Context(), filed(bad)); len(spec.Problems(err)) != 2 || spec.Problems(err)[1].Line != 5 {
		t.Errorf("checked: %v", err)
	}
	if err := CheckUsers(t.Context(), filed(bad+"x.csv")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("checked: %v", err)
	}
	if _, _, err := OpenUsers(filed(""), rules.SchemaFor(filed(""))); err == nil || !strings.Contains(err.Error(), "stands in the sale's file alone") {
		t.Errorf("got %v", err)
	}
	if err := CheckUsers(t.Context(), spec.Sale{}); err != nil {
		t.Errorf("no users: %v", err)
	}
	table := filed("")
	table.Users.Table = &spec.UsersTable{Zookeeper: []string{"127.0.0.1:1"}, Table: "users", Family: "u"}
	users, closeUsers, err := OpenUsers(table, rules.SchemaFor(table))
	if _, cached := users.(*rules.Cache); err != nil || !cached {
		t.Fatalf("a table: %T, %v", users, err)
	}
	if err := closeUsers(); err != nil {
		t.Error(err)
	}
	table.Users.Table.Family = ""
	if _, _, err := OpenUsers(table, rules.SchemaFor(table)); err == nil || !strings.HasPrefix(err.Error(), "sale tickets: users: ") {
		t.Errorf("a table without a family: %v", err)
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
