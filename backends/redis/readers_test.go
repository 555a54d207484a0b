package redis

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/internal/services"
)

// pageRights returns what docs/security.md has ACL SETUSER give to users, in the order in
// which they stand there.
func pageRights(t *testing.T) (rights [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" && words[1] == "SETUSER" {
			rights = append(rights, slices.DeleteFunc(words[3:], func(w string) bool { return w == "on" || w == ">SECRET" }))
		}
	}
	return rights
}

// everyReading makes each call of a node that only reads once, and returns their errors.
func everyReading(t *testing.T, n *Node, list lists.List) error {
	ctx, l := t.Context(), n.Lists()
	_, err1 := n.Info(ctx)
	_, err2 := n.ReadMarker(ctx, marker)
	held, err3 := n.List(ctx, "salectl:")
	if err3 == nil && len(held) != 1 {
		err3 = errors.New("a lease that is held was not found")
	}
	state, err4 := l.Inspect(ctx, list)
	if err4 == nil && !state.On {
		err4 = errors.New("a list that is on was not found")
	}
	_, err5 := l.Settings(ctx)
	return errors.Join(err1, err2, err3, err4, err5)
}

// TestRightsOfThePage checks the lines of docs/security.md with a server: a writer has the rights
// of TestRights and TestListRights, and a reader has enough to read, no other right, and changes
// nothing.
func TestRightsOfThePage(t *testing.T) {
	t.Parallel()
	page := pageRights(t)
	if len(page) != 3 || !slices.Equal(page[0], strings.Fields(Rights)) || !slices.Equal(page[1], strings.Fields(ListRights)) {
		t.Fatalf("docs/security.md has %q", page)
	}
	server := mustStart(t, services.RedisOptions{})
	owner := mustOpen(t, Options{Address: server.Addr()})
	mustMark(t, owner)
	mustVote(t, owner, "one", "salectl:key")
	do(t, server, "PERSIST", "salectl:key") // however long the test takes
	list := lists.List{UID: "uid"}
	mustFill(t, owner.Lists(), list, 1, 9)
	user := func(name string, rights ...string) *Node {
		args := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, r := range rights {
			args = append(args, r)
		}
		do(t, server, args...)
		return mustOpen(t, Options{Address: server.Addr(), Username: name, Password: "secret"})
	}
	do(t, server, "SCRIPT", "FLUSH") // so that +eval is needed
	reader := user("reader", page[2]...)
	if err := everyReading(t, reader, list); err != nil {
		t.Errorf("with all rights of a reader: %v", err)
	}
	ctx, l := t.Context(), reader.Lists()
	for what, write := range map[string]func() error{
		"vote":    func() error { _, err := vote(ctx, reader, "two", "salectl:other"); return err },
		"renewal": func() error { _, err := vote(ctx, reader, "one", "salectl:key"); return err },
		"mark":    func() error { return reader.Mark(ctx, "salectl:new", "") },
		"forget":  func() error { return reader.Forget(ctx, marker) },
		"release": func() error {
			_, err := reader.Release(ctx, []quorum.LeaseRequest{{Key: "salectl:key", Token: "one"}})
			return err
		},
		"announce": func() error {
			_, err := reader.Announce(ctx, "salectl:registry", quorum.Member{ID: "two"}, time.Second)
			return err
		},
		"leave": func() error {
			_, err := reader.Announce(ctx, "salectl:registry", quorum.Member{ID: "two"}, 0)
			return err
		},
		"stop":   func() error { run, _ := l.RunID(ctx); return l.Stop(ctx, list, 2, run) },
		"take":   func() error { _, err := l.Take(ctx, list, 1, 1); return err },
		"add":    func() error { return l.Add(ctx, list, 1, ledger.Units{{First: 30, Count: 1}}) },
		"delete": func() error { return l.Forget(ctx, list) },
		"any grab": func() error {
			_, err := l.Grab(ctx, []lists.Batch{{List: list, Fill: 1, At: 1, Users: []string{"two"}, Keys: []string{"key"}}})
			return err
		},
	} {
		before := do(t, server, "DBSIZE")
		if err := write(); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s of a reader: %v, want ErrForbidden", what, err)
		}
		if after := do(t, server, "DBSIZE"); after != before {
			t.Errorf("%s of a reader: there were %v keys, and now %v", what, before, after)
		}
	}
	if err := everyReading(t, reader, list); err != nil {
		t.Errorf("after all that: %v", err)
	}
	// +exists and what follows it are for lists: without them a reader reads leases and markers.
	do(t, server, "SCRIPT", "FLUSH")
	locks := user("locks", page[2][:slices.Index(page[2], "+exists")]...)
	_, err1 := locks.Info(ctx)
	_, err2 := locks.ReadMarker(ctx, marker)
	held, err3 := locks.List(ctx, "salectl:")
	if err := errors.Join(err1, err2, err3); err != nil || len(held) != 1 {
		t.Errorf("without the rights for lists: %v, %v", held, err)
	}
	for i, missing := range page[2] {
		do(t, server, "SCRIPT", "FLUSH")
		n := user("without"+strconv.Itoa(i), slices.Delete(slices.Clone(page[2]), i, i+1)...)
		err := everyReading(t, n, list)
		if missing == "+config|get" { // without it not all settings are known
			if s, err2 := n.Lists().Settings(t.Context()); err != nil || err2 != nil || s.Fsync != "" {
				t.Errorf("without %s: %v, %+v, %v", missing, err, s, err2)
			}
			continue
		}
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("without %s: %v, want ErrForbidden", missing, err)
		}
	}
	// A pattern of keys for reading alone does not do.
	only := slices.Clone(page[2])
	only[slices.Index(only, "~salectl:*")] = "%R~salectl:*"
	if err := everyReading(t, user("only", only...), list); !errors.Is(err, ErrForbidden) {
		t.Errorf("with keys for reading alone: %v", err)
	}
}
