package hbase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/backends/ledger"
	"salectl/internal/wait"
	"salectl/rules"
	"salectl/spec"
)

// member is what the tests know of a user.
var member = rules.NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt}, spec.Attribute{Name: "since", Type: spec.TypeTimestamp},
	spec.Attribute{Name: "tags", Type: spec.TypeStrings})

// mustOpenUsers opens users whose rows are in the table that all tests share, and
// a function that writes a row of them.
func mustOpenUsers(t testing.TB, change ...func(*spec.UsersTable)) (*Users, func(id string, cells map[string]string)) {
	t.Helper()
	logs := mustOpen(t)
	o := spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{mustStandalone(t).Zookeeper()}, Table: "sales", Family: family},
		Columns: map[string]string{"since": "registered"}}
	for _, c := range change {
		c(&o)
	}
	users, err := OpenUsers(o, member)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { users.Close() })
	return users, func(id string, cells map[string]string) {
		t.Helper()
		row := make(map[string][]byte)
		for column, text := range cells {
			row[column] = []byte(text)
		}
		ctx := within(t, wait.Limit)
		put, err := hrpc.NewPut(ctx, logs.regions.table, []byte(id), map[string]map[string][]byte{family: row})
		if err == nil {
			_, err = logs.once(ctx, wholeDelete{put})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestUsers(t *testing.T) {
	users, put := mustOpenUsers(t)
	prefix := newPrefix()
	ada, eve, bob, zoe, odd := prefix+"ada", prefix+"eve", prefix+"bob", prefix+"zoe", prefix+"odd"
	put(ada, map[string]string{"level": "4", "registered": "2025-11-21T13:00:00+01:00", "tags": "early|gold", "since": "of no concern"})
	put(ada, map[string]string{"level": "5"}) // the newest counts
	put(eve, map[string]string{"level": "-1", "tags": ""})
	put(bob, map[string]string{"name": "of no concern"})
	put(odd, map[string]string{"level": "5.0"})
	got, err := users.Lookup(within(t, wait.Limit), []string{zoe, ada, odd, bob, eve, ada})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		id    string
		known bool
		text  string
	}{
		{zoe, false, "<nil> <nil> <nil>"},
		{ada, true, "5 2025-11-21 12:00:00 +0000 UTC [early, gold]"},
		{odd, false, "<nil> <nil> <nil>"},
		{bob, false, "<nil> <nil> <nil>"},
		{eve, true, "-1 <nil> <nil>"},
		{ada, true, "5 2025-11-21 12:00:00 +0000 UTC [early, gold]"},
	} {
		u := got[i]
		text := fmt.Sprint(u.Value("level"), " ", u.Value("since"), " ", u.Value("tags"))
		if u.ID() != want.id || u.Known() != want.known || text != want.text || (u.Err() != nil) != (want.id == odd) {
			t.Errorf("%s is %s, %v, %s, %v; want %+v", want.id, u.ID(), u.Known(), text, u.Err(), want)
		}
	}
	if err := got[2].Err(); !strings.Contains(err.Error(), `column s:level: "5.0" is no int`) {
		t.Error(err)
	}
}

// More users than go into one call, in all regions, come in their order.
func TestManyUsers(t *testing.T) {
	users, put := mustOpenUsers(t)
	ids := make([]string, 0, 3*rowsAtOnce)
	for i := range 3 * rowsAtOnce {
		id := fmt.Sprintf("%02x/user%s%d", i%256, newPrefix(), i)
		ids = append(ids, id)
		if i%2 == 0 {
			put(id, map[string]string{"level": fmt.Sprint(i)})
		}
	}
	got, err := users.Lookup(within(t, wait.Limit), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range got {
		if u.ID() != ids[i] || u.Known() != (i%2 == 0) || u.Known() && u.Value("level") != types.Int(int64(i)) {
			t.Fatalf("%d: %s is known: %v, level %s", i, u.ID(), u.Known(), u.Value("level"))
		}
	}
}

// A table, family or server that is not there is an error and never a user of whom
// nothing is known.
func TestUsersThatCannotBeRead(t *testing.T) {
	ctx := within(t, wait.Limit)
	table, _ := mustOpenUsers(t, func(o *spec.UsersTable) { o.Table = "no-such-table" })
	if got, err := table.Lookup(ctx, []string{"ada"}); got != nil || !errors.Is(err, ledger.ErrNoTable) {
		t.Errorf("no table: %v, %v", got, err)
	}
	wrong, _ := mustOpenUsers(t, func(o *spec.UsersTable) { o.Family = "nosuch" })
	if got, err := wrong.Lookup(ctx, []string{"ada"}); got != nil || err == nil || !strings.Contains(err.Error(), "NoSuchColumnFamily") {
		t.Errorf("no family: %v, %v", got, err)
	}
	h := mustStandalone(t)
	users, _ := mustOpenUsers(t)
	mustPause(t, h)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := users.Lookup(short, []string{"ada"}); got != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server: %v, %v", got, err)
	}
	mustContinue(t, h)
	users.Close()
	if _, err := users.Lookup(ctx, []string{"ada"}); !errors.Is(err, errClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestOpenUsersWithoutTable(t *testing.T) {
	_, err := OpenUsers(spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"127.0.0.1:1"}, Family: "f"}}, member)
	if err == nil || !strings.Contains(err.Error(), "no HBase table is given") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkUsers(b *testing.B) {
	users, put := mustOpenUsers(b)
	ids := make([]string, rowsAtOnce)
	for i := range ids {
		ids[i] = fmt.Sprintf("%02x/user%s", i*2, newPrefix())
		put(ids[i], map[string]string{"level": "5", "registered": "2025-11-21T13:00:00Z"})
	}
	for b.Loop() {
		if _, err := users.Lookup(b.Context(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(ids)*b.N)/b.Elapsed().Seconds(), "users/s")
}

// A missing table or family is distinguished from servers that do not answer.
func TestCheckRows(t *testing.T) {
	h := mustStandalone(t)
	mustOpen(t)
	for _, c := range []struct{ table, family, want string }{
		{"sales", family, ""},
		{"members", "u", "users table members does not exist (ZooKeeper " + h.Zookeeper() + ")"},
		{"sales", "u", "users table sales has no column family u"},
	} {
		err := CheckRows(within(t, wait.Limit), "users", spec.Rows{Zookeeper: []string{h.Zookeeper()}, Table: c.table, Family: c.family})
		var source *rules.SourceError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.table, c.family, err)
		case c.want != "" && (!errors.As(err, &source) || source.What != c.want || source.Remedy == ""):
			t.Errorf("%s %s: %v; want %s", c.table, c.family, err, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := CheckRows(ctx, "users", spec.Rows{Zookeeper: []string{"127.0.0.1:1"}, Table: "sales", Family: family})
	if err == nil || errors.As(err, new(*rules.SourceError)) {
		t.Errorf("no server: %v", err)
	}
}
