package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// A script that the server has forgotten is sent again, and has not been run
// before.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	for _, call := range listCalls(t, l) {
		do(t, server, "SCRIPT", "FLUSH")
		if err := call.call(t, l); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
	}
	l, server = mustServeLists(t)
	do(t, server, "SCRIPT", "FLUSH")
	if got := mustGrab(t, l, "three")[0]; got != (lists.Unit{Number: 3}) {
		t.Errorf("the third user is given %+v; want unit 3", got)
	}
}

// A grab whose answer is lost is sent once, and its repetition gets the earlier grant.
func TestLostGrab(t *testing.T) {
	t.Parallel()
	n, proxy, server := mustProxy(t)
	l := n.Lists()
	mustFill(t, l, theList, 2, 9)
	mustGrab(t, l, "one")
	do(t, server, "CONFIG", "RESETSTAT")
	poison(t, proxy, "reset_peer", "downstream", `"timeout":0`)
	if got, err := grab(t, l, "two"); !errors.Is(err, ErrHungUp) {
		t.Errorf("a grab whose answer is lost: %+v, %v; want ErrHungUp", got, err)
	}
	if got, want := scriptsRun(t, server), "cmdstat_evalsha:calls=1"; got != want {
		t.Errorf("the server has run %s, want %s", got, want)
	}
	proxy.Toxics.ResetToxics(t.Context())
	if got := mustGrab(t, l, "three", "two"); got[0].Number != 3 || got[1].Number != 2 || !got[1].Before {
		t.Errorf("at the second request, they have %+v; want units 3 and 2, the latter from before", got)
	}
}

// A grab that its caller does not wait for is done or is not, and its batches are
// the caller's again.
func TestGrabLeftBehind(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	batches := []lists.Batch{{List: theList, Fill: 2, At: 1, Users: []string{"three"}, Keys: []string{"key"}}}
	ended := make(chan error)
	go func() {
		_, err := l.Grab(ctx, batches)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("grab: %v; want that of its context", err)
	}
	batches[0].Users, batches[0].Keys = nil, nil
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	awaitCalls(l.node)
	if got := mustGrab(t, l, "three", "four"); got[0].Number != 3 || got[1].Number != 4 {
		t.Errorf("the next have %+v; want units 3 and 4", got)
	}
}

// An entry of another program among ours is an error that reports it.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	l, server := mustServeLists(t)
	keys := keysOf(theList)
	do(t, server, "HSET", keys[1], "three", "another program's")
	if got, err := grab(t, l, "three"); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "another program's") {
		t.Errorf("a user with no grant has %+v, %v; want ErrForeign with what is there", got, err)
	}
	good := []any{"count", "2", "at", "5", "units", "8 9", "batch", string(packed(lists.Batch{Fill: 2, Users: []string{"a", "b"}, Keys: []string{"c", "d"}}))}
	id := do(t, server, append([]any{"XADD", keys[2], "*"}, good...)...).(string)
	got, err := l.Read(t.Context(), theList, 2, "", "", 100)
	if err != nil || len(got) != 3 || !slices.Equal(got[2].Grabs, []ledger.Grab{{User: "a", Key: "c", Unit: 8, GrantedUs: 5}, {User: "b", Key: "d", Unit: 9, GrantedUs: 5}}) {
		t.Fatalf("with an entry like ours in the stream: %+v, %v", got, err)
	}
	do(t, server, "XDEL", keys[2], id)
	bad := [][]any{{"another", "program's"}, append(slices.Clone(good), "one", "more")}
	for field, value := range []any{"f", "3", "f", "x", "f", "8", "f", good[7].(string)[:20]} {
		fields := slices.Clone(good)
		fields[field] = value
		bad = append(bad, fields)
	}
	for _, fields := range bad {
		id := do(t, server, append([]any{"XADD", keys[2], "*"}, fields...)...).(string)
		if got, err := l.Read(t.Context(), theList, 2, "", "", 100); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), id) {
			t.Errorf("with %q in the stream: %+v, %v; want ErrForeign and its place", fields, got, err)
		}
		do(t, server, "XDEL", keys[2], id)
	}
	do(t, server, "RPUSH", keys[0], "9")
	if got, err := l.Take(t.Context(), theList, 2, 2); !errors.Is(err, ErrForeign) {
		t.Errorf("with a unit twice in the list, take returns %v, %v; want ErrForeign", got, err)
	}
}

// An answer that our scripts never give is an error, not a panic or a unit.
func TestStrangeGrabs(t *testing.T) {
	for name, items := range map[string][]any{
		"empty":                 {},
		"short":                 {int64(0), int64(1)},
		"no such reason":        {int64(7), int64(1)},
		"below all reasons":     {int64(-1), int64(1)},
		"a reason and more":     {int64(1), int64(1), "1"},
		"a text for a reason":   {"0", int64(1), "1 2"},
		"too many units":        {int64(0), int64(1), "1 2 3"},
		"too many with the old": {int64(0), int64(1), "1 2", int64(2), "1 2 key"},
		"no units":              {int64(0), int64(1), "one two"},
		"units as a number":     {int64(0), int64(1), int64(1)},
		"user 0":                {int64(0), int64(1), "", int64(0), "1 2 key"},
		"user 3 of 2":           {int64(0), int64(1), "", int64(3), "1 2 key"},
		"a user and no grant":   {int64(0), int64(1), "", int64(1)},
		"nothing":               {nil},
	} {
		if given, err := readGrants(answer{items: items}, 2); !errors.Is(err, errAnswer) {
			t.Errorf("%s: %+v, %v; want an error", name, given, err)
		}
	}
}

// A batch that is cut off anywhere is none.
func TestPacked(t *testing.T) {
	b := lists.Batch{Fill: 1 << 60, Users: []string{"one", "", strings.Repeat("two", 100)}, Keys: []string{"a", "b", strings.Repeat("c", 70_000)}}
	whole := string(packed(b))
	fill, users, keys, ok := unpacked(whole)
	if !ok || fill != b.Fill || !slices.Equal(users, b.Users) || !slices.Equal(keys, b.Keys) {
		t.Fatalf("the batch becomes %d, %.40q, %.40q, %t", fill, users, keys, ok)
	}
	for _, bad := range []string{whole[:len(whole)-1], whole[:300], whole[:20], whole[:1], "", whole + "x", "\xa1x\x90\x90", "\xa11\x91\xa1a\x90", "\xa11\xdd\xff\xff\xff\xff", "\xa11\xc0\x90"} {
		if fill, users, keys, ok := unpacked(bad); ok {
			t.Errorf("%.40q becomes a batch: %d, %q, %q", bad, fill, users, keys)
		}
	}
	for _, short := range []string{"\xa12\x91\xa1a\x91\xa1b", "\xd9\x012\xdc\x00\x01\xda\x00\x01a\x91\xd9\x01b"} {
		if fill, users, keys, ok := unpacked(short); !ok || fill != 2 || !slices.Equal(users, []string{"a"}) || !slices.Equal(keys, []string{"b"}) {
			t.Errorf("%q becomes %d, %q, %q, %t", short, fill, users, keys, ok)
		}
	}
}
