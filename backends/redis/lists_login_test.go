package redis

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/internal/services"
)

// everyListCall makes each call of a node of lists once, for a list of its own,
// and returns their errors.
func everyListCall(t *testing.T, l *Lists, uid string) error {
	ctx, list := t.Context(), lists.List{UID: uid}
	run, err1 := l.RunID(ctx)
	err2 := l.Stop(ctx, list, 1, run)
	err3 := l.Put(ctx, list, 1, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 9}},
		Taken: []ledger.Grab{{User: "one", Key: "key", Unit: 20}}})
	err4 := l.Start(ctx, list, 1, run, lists.Start{Units: 9, Users: 1, Drained: "1-1"})
	given, err5 := l.Grab(ctx, []lists.Batch{{List: list, Fill: 1, At: 1, Users: []string{"two"}, Keys: []string{"key"}}})
	if err5 == nil && given[0].Why != nil {
		err5 = given[0].Why
	}
	_, err6 := l.Read(ctx, list, 1, "", "1-1", 10)
	_, err7 := l.Take(ctx, list, 1, 1)
	err8 := l.Add(ctx, list, 1, ledger.Units{{First: 30, Count: 1}})
	_, err9 := l.Inspect(ctx, list)
	err10 := l.Forget(ctx, list)
	_, err11 := l.Settings(ctx)
	return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11)
}

// Rights and ListRights must be enough, and each of the latter needed.
func TestListRights(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{Args: []string{"--appendfsync", "always", "--save", "3600 1"}})
	user := func(name string, rights ...string) *Lists {
		args := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, r := range rights {
			args = append(args, r)
		}
		do(t, server, args...)
		return mustOpen(t, Options{Address: server.Addr(), Username: name, Password: "secret"}).Lists()
	}
	both, more := strings.Fields(Rights), strings.Fields(ListRights)
	all := user("salectl", append(both, more...)...)
	if err := everyListCall(t, all, "uid"); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	if s, err := all.Settings(t.Context()); err != nil || s.Fsync != "always" || !s.Snapshots {
		t.Errorf("with all rights the settings are %+v, %v; want appendfsync and save", s, err)
	}
	if err := everyCall(t.Context(), all.node); err != nil {
		t.Errorf("with all rights, as a lock node: %v", err)
	}
	for i, missing := range more {
		t.Run("without "+missing, func(t *testing.T) {
			rights := append(append([]string(nil), both...), more[:i]...)
			l := user("without"+strconv.Itoa(i), append(rights, more[i+1:]...)...)
			err := everyListCall(t, l, "uid"+strconv.Itoa(i))
			if missing != "+config|get" {
				if !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), missing) {
					t.Errorf("%v; want ErrForbidden, with the rights that are needed", err)
				}
				return
			}
			s, err2 := l.Settings(t.Context())
			if want := (lists.Settings{}); err != nil || err2 != nil || s != want {
				t.Errorf("%v; the settings are %+v, %v; want %+v", err, s, err2, want)
			}
		})
	}
}

// A user whose rights do not do for a grab must not be able to turn a list on: it
// would fail in the middle of each.
func TestStartTriesWhatGrabNeeds(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	l := mustOpen(t, Options{Address: server.Addr()}).Lists()
	mustFill(t, l, theList, 2, 9)
	for i, missing := range []string{"-xadd", "-hset", "-ltrim"} {
		name := "user" + strconv.Itoa(i)
		do(t, server, "ACL", "SETUSER", name, "on", ">secret", "~*", "+@all")
		few := mustOpen(t, Options{Address: server.Addr(), Username: name, Password: "secret"}).Lists()
		fill := uint64(3 + i)
		run, err := few.RunID(t.Context())
		if err == nil {
			err = few.Stop(t.Context(), theList, fill, run)
		}
		if err == nil {
			err = few.Put(t.Context(), theList, fill, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 9}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		do(t, server, "ACL", "SETUSER", name, missing)
		err = few.Start(t.Context(), theList, fill, run, lists.Start{Units: 9})
		if missing != "-xadd" {
			if !errors.Is(err, ErrForbidden) {
				t.Errorf("%s: start: %v, want ErrForbidden", missing, err)
			}
			continue
		}
		before := dump(t, server)
		_, err = few.Grab(t.Context(), []lists.Batch{{List: theList, Fill: fill, At: 1, Users: []string{"one"}, Keys: []string{"key"}}})
		if !errors.Is(err, ErrForbidden) || len(before[2])+len(dump(t, server)[2]) != 0 {
			t.Errorf("%s: grab: %v, want ErrForbidden and nothing done", missing, err)
		}
	}
}

func TestListSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want lists.Settings
	}{
		"keeps nothing":  {nil, lists.Settings{Fsync: "everysec"}},
		"snapshots":      {[]string{"--save", "3600 1 60 10"}, lists.Settings{Fsync: "everysec", Snapshots: true}},
		"file":           {[]string{"--appendonly", "yes", "--appendfsync", "always"}, lists.Settings{AOF: true, Fsync: "always"}},
		"every second":   {[]string{"--appendonly", "yes"}, lists.Settings{AOF: true, Fsync: "everysec"}},
		"without CONFIG": {[]string{"--appendonly", "yes", "--rename-command", "CONFIG", ""}, lists.Settings{AOF: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := mustServe(t, test.args...)
			if got, err := n.Lists().Settings(t.Context()); err != nil || got != test.want {
				t.Errorf("the settings are %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}
