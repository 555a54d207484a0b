package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// theList is the one that these tests are about.
var theList = lists.List{UID: "test", Shard: 1}

// mustServeLists starts a server with a list that gives 1 to 9 under fill 2, of
// which users one and two have the first.
func mustServeLists(t *testing.T, args ...string) (*Lists, *services.Redis) {
	t.Helper()
	n, server := mustServe(t, args...)
	mustFill(t, n.Lists(), theList, 2, 9)
	for _, user := range []string{"one", "two"} {
		mustGrab(t, n.Lists(), user)
	}
	return n.Lists(), server
}

func grab(t testing.TB, l *Lists, users ...string) ([]lists.Unit, error) {
	b := lists.Batch{List: theList, Fill: 2, At: 1, Users: users, Keys: users}
	given, err := l.Grab(t.Context(), []lists.Batch{b})
	if err != nil {
		return nil, err
	}
	return given[0].Units, given[0].Why
}

func mustGrab(t testing.TB, l *Lists, users ...string) []lists.Unit {
	t.Helper()
	units, err := grab(t, l, users...)
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// listCall is a call about theList as mustServeLists has made it.
type listCall struct {
	name string
	call func(t *testing.T, l *Lists) error
	// uses has the keys that the call reads or changes: list, taken, stream, marker.
	uses string
	off  bool // it is for a list that fill 3 has stopped
	full error
}

func listCalls(t *testing.T, l *Lists) []listCall {
	run, err := l.RunID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	part := lists.Part{Add: ledger.Units{{First: 20, Count: 2}}, Taken: []ledger.Grab{{User: "nine", Unit: 30, Key: "key"}}}
	state := func() lists.State { s, _ := l.Inspect(t.Context(), theList); return s }
	last := func() string {
		entries, err := l.Read(t.Context(), theList, 0, "", "", 100)
		if err != nil || len(entries) == 0 {
			return "1-1"
		}
		return entries[len(entries)-1].ID
	}
	return []listCall{
		{name: "grab", uses: "list taken stream marker", full: ErrFull, call: func(t *testing.T, l *Lists) error {
			_, err := grab(t, l, "one", "three", "four")
			return err
		}},
		{name: "grab for who has one", uses: "taken marker", call: func(t *testing.T, l *Lists) error {
			_, err := grab(t, l, "two", "one")
			return err
		}},
		{name: "read", uses: "stream marker", call: func(t *testing.T, l *Lists) error {
			_, err := l.Read(t.Context(), theList, 2, "", last(), 100)
			return err
		}},
		{name: "take", uses: "list marker", call: func(t *testing.T, l *Lists) error {
			_, err := l.Take(t.Context(), theList, 2, 3)
			return err
		}},
		{name: "add", uses: "list marker", full: ErrFull, call: func(t *testing.T, l *Lists) error {
			return l.Add(t.Context(), theList, 2, ledger.Units{{First: 40, Count: 2}})
		}},
		{name: "inspect", uses: "list taken stream marker", call: func(t *testing.T, l *Lists) error {
			_, err := l.Inspect(t.Context(), theList)
			return err
		}},
		{name: "stop", uses: "marker", call: func(t *testing.T, l *Lists) error {
			return l.Stop(t.Context(), theList, 3, run)
		}},
		{name: "first part", off: true, uses: "list taken marker", call: func(t *testing.T, l *Lists) error {
			p := part
			p.First = true
			return l.Put(t.Context(), theList, 3, run, p)
		}},
		{name: "part", off: true, uses: "list taken marker", full: ErrFull, call: func(t *testing.T, l *Lists) error {
			p, s := part, state()
			p.Units, p.Users = s.Units, s.Users
			return l.Put(t.Context(), theList, 3, run, p)
		}},
		{name: "start", off: true, uses: "list taken stream marker", call: func(t *testing.T, l *Lists) error {
			s := state()
			return l.Start(t.Context(), theList, 3, run, lists.Start{Units: s.Units, Users: s.Users, Drained: last()})
		}},
		{name: "forget", call: func(t *testing.T, l *Lists) error { return l.Forget(t.Context(), theList) }},
		{name: "settings", call: func(t *testing.T, l *Lists) error {
			_, err := l.Settings(t.Context())
			return err
		}},
	}
}

// dump is what the server has under each key of theList.
func dump(t *testing.T, server *services.Redis) (all []string) {
	t.Helper()
	c := client(t, server)
	for _, key := range keysOf(theList) {
		all = append(all, c.Dump(t.Context(), key).Val())
	}
	return all
}

// Something else under one of the keys must not make a call do half of what it
// does.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	kinds := []string{"list", "taken", "stream", "marker"}
	for _, call := range listCalls(t, l) {
		for i, kind := range kinds {
			if call.name == "forget" {
				continue // it deletes what is there
			}
			t.Run(call.name+", "+kind, func(t *testing.T) {
				do(t, server, "FLUSHALL")
				mustFill(t, l, theList, 2, 9)
				mustGrab(t, l, "one")
				mustGrab(t, l, "two")
				if call.off {
					run, _ := l.RunID(t.Context())
					if err := l.Stop(t.Context(), theList, 3, run); err != nil {
						t.Fatal(err)
					}
				}
				do(t, server, "SET", keysOf(theList)[i], "another program's")
				before := dump(t, server)
				err := call.call(t, l)
				if !strings.Contains(call.uses, kind) {
					if errors.Is(err, ErrForeign) {
						t.Errorf("%v; the call has no need of that key", err)
					}
					return
				}
				if !errors.Is(err, ErrForeign) {
					t.Errorf("%v; want ErrForeign", err)
				}
				if after := dump(t, server); !slices.Equal(after, before) {
					t.Errorf("the keys are changed from %q to %q", before, after)
				}
			})
		}
	}
}

// A server without free memory gives nothing, and loses nothing. Calls that free memory
// succeed.
func TestFullServer(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	for _, call := range listCalls(t, l) {
		t.Run(call.name, func(t *testing.T) {
			do(t, server, "CONFIG", "SET", "maxmemory", "1")
			before := dump(t, server)
			err := call.call(t, l)
			if !errors.Is(err, call.full) {
				t.Errorf("%v; want %v", err, call.full)
			}
			if after := dump(t, server); call.full != nil && !slices.Equal(after, before) {
				t.Errorf("the keys are changed from %q to %q", before, after)
			}
			do(t, server, "CONFIG", "SET", "maxmemory", "0")
		})
	}
}

// A server whose memory runs out while it gives has given each unit once, or has
// it still.
func TestServerFillsUp(t *testing.T) {
	t.Parallel()
	const units, atOnce = 50_000, 50
	n, server := mustServe(t, "--maxmemory-policy", "noeviction")
	l := n.Lists()
	mustFill(t, l, theList, 2, units)
	used := infoFloat(t, server, "memory", regexp.MustCompile(`used_memory:(\d+)`))
	do(t, server, "CONFIG", "SET", "maxmemory", fmt.Sprint(int(used)+500_000))
	has := make(map[string]int64)
	users := func(from int) (users []string) {
		for i := range atOnce {
			users = append(users, fmt.Sprint("user ", from+i))
		}
		return users
	}
	var err error
	at := 0
	for ; at < units && err == nil; at += atOnce {
		var got []lists.Unit
		if got, err = grab(t, l, users(at)...); err == nil {
			for i, user := range users(at) {
				has[user] = got[i].Number
			}
		}
	}
	if !errors.Is(err, ErrFull) || len(has) == 0 {
		t.Fatalf("after %d grabs: %v; want ErrFull", len(has), err)
	}
	s, err := l.Inspect(t.Context(), theList)
	if err != nil || s.Users != int64(len(has)) || s.Units != units-s.Users {
		t.Errorf("the list is %+v, %v; want %d users and the others' units", s, err, len(has))
	}
	if got := mustGrab(t, l, "user 0"); got[0].Number != 1 || !got[0].Before {
		t.Errorf("a user with a unit gets %+v on a full server", got)
	}
	do(t, server, "CONFIG", "SET", "maxmemory", "0")
	for i, u := range mustGrab(t, l, users(at-atOnce)...) {
		if want := int64(len(has) + i + 1); u != (lists.Unit{Number: want}) {
			t.Fatalf("with memory again, the next has %+v; want unit %d", u, want)
		}
	}
}

// A server that could not save takes no writes.
func TestUnsavedServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, server := mustServeLists(t, "--save", "3600 1", "--dir", dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	do(t, server, "BGSAVE")
	wait.Until(t, "a failed save", func() bool {
		return strings.Contains(do(t, server, "INFO", "persistence").(string), "rdb_last_bgsave_status:err")
	})
	for _, call := range listCalls(t, l) {
		before := dump(t, server)
		err := call.call(t, l)
		reads := slices.Contains([]string{"grab for who has one", "inspect", "settings"}, call.name)
		off := call.off // its token was not taken
		if want := ErrUnsaved; !reads && !off && !errors.Is(err, want) || reads && err != nil {
			t.Errorf("%s: %v; want %v of what writes", call.name, err, want)
		}
		if after := dump(t, server); !slices.Equal(after, before) {
			t.Errorf("%s: the keys are changed from %q to %q", call.name, before, after)
		}
	}
}

// A replica cannot be written, and reports it.
func TestReplicaOfLists(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	// Its master is away, so that it keeps what it has.
	do(t, server, "REPLICAOF", "127.0.0.1", "1")
	before := dump(t, server)
	for _, call := range listCalls(t, l) {
		reads := slices.Contains([]string{"grab for who has one", "inspect", "settings"}, call.name)
		if err := call.call(t, l); !reads && !call.off && !errors.Is(err, ErrReplica) || reads && err != nil {
			t.Errorf("%s: %v; want ErrReplica of what writes", call.name, err)
		}
	}
	if after := dump(t, server); !slices.Equal(after, before) {
		t.Errorf("the keys are changed from %q to %q", before, after)
	}
}

// TestListsDemoted makes a server a replica of one that lags behind, and then a
// master again, all in one run of its process: what it has then may be given
// already, so it gives nothing.
func TestListsDemoted(t *testing.T) {
	t.Parallel()
	node, server := mustServe(t)
	_, other := mustServe(t)
	follow := func(who, whom *services.Redis) {
		host, port := hostPort(t, whom)
		do(t, who, "REPLICAOF", host, port)
		wait.Until(t, "the replica to follow", func() bool {
			return strings.Contains(do(t, who, "INFO", "replication").(string), "master_sync_in_progress:0") &&
				strings.Contains(do(t, who, "INFO", "replication").(string), "master_link_status:up")
		})
	}
	// A server with its first replica replicates under another id, and counts as
	// another run as well.
	follow(other, server)
	l := node.Lists()
	mustFill(t, l, theList, 2, 9)
	mustGrab(t, l, "one", "two")
	wait.Until(t, "the replica to have the list", func() bool { return do(t, other, "LLEN", spec.ListKey(theList.UID, theList.Shard)) == int64(7) })
	do(t, other, "REPLICAOF", "NO", "ONE")
	if units := mustGrab(t, l, "three"); units[0].Number != 3 {
		t.Fatalf("three was given %+v", units)
	}
	follow(server, other)
	do(t, server, "REPLICAOF", "NO", "ONE")
	if units, err := grab(t, l, "four"); !errors.Is(err, lists.ErrFill) {
		t.Errorf("a master that was a replica meanwhile gave four %+v, %v", units, err)
	}
}
