package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// ListsHands are what a suite can do to a node of lists apart from calling it. A
// promise that needs a hand that is nil is not tested.
type ListsHands struct {
	// Restart brings the node back with another run id and all that it had.
	Restart func()
	// RestartEmpty brings it back with another run id and nothing.
	RestartEmpty func()
	// Save keeps what the node has, and RestartSaved brings it back with another
	// run id and that.
	Save, RestartSaved func()
	// Flush takes all that the node has, while it runs.
	Flush func()
}

// listsTest is one subtest's node, through two handles.
type listsTest struct {
	*testing.T
	a, b  lists.Node
	hands ListsHands
}

// TestLists holds a backend to every promise of lists.Node. open returns two
// independent handles on one new node without lists; it closes them with
// t.Cleanup.
func TestLists(t *testing.T, open func(*testing.T) (a, b lists.Node, hands ListsHands)) {
	for _, test := range []struct {
		promise string
		check   func(listsTest)
		needs   func(ListsHands) bool
	}{
		{promise: "GivesInOrder", check: givesInOrder},
		{promise: "SameUserSameAnswer", check: sameUserSameAnswer},
		{promise: "EmptyListGivesNothing", check: emptyList},
		{promise: "SeveralListsInOneCall", check: severalLists},
		{promise: "GivesUnderItsFillOnly", check: underItsFill},
		{promise: "OpensAndCloses", check: opensAndCloses},
		{promise: "RefusesBadBatches", check: badBatches},
		{promise: "KeepsAnyName", check: anyName},
		{promise: "GrabbersTogether", check: grabbersTogether},
		{promise: "OneTokenAtATime", check: oneToken},
		{promise: "StopTurnsOff", check: stopTurnsOff},
		{promise: "PutComparesLengths", check: putComparesLengths},
		{promise: "FirstPartDeletes", check: firstPartDeletes},
		{promise: "KeepsUsers", check: keepsUsers},
		{promise: "PutAndStartNeedTheToken", check: needTheToken},
		{promise: "StartComparesLengths", check: startComparesLengths},
		{promise: "LargeParts", check: largeParts},
		{promise: "StartDeletesWhatIsDrained", check: startDeletes},
		{promise: "ReadsInOrder", check: readsInOrder},
		{promise: "ReadDeletesUnderItsFill", check: readDeletes},
		{promise: "TakesFromTheEnd", check: takesFromTheEnd},
		{promise: "AddsAtTheEnd", check: addsAtTheEnd},
		{promise: "Inspect", check: inspects},
		{promise: "Forget", check: forgets},
		{promise: "Settings", check: hasSettings},
		{promise: "EndedContext", check: listsEndedContext},
		{promise: "Restarted", check: restarted, needs: func(h ListsHands) bool { return h.Restart != nil }},
		{promise: "RestartedWithOldLists", check: restartedOld, needs: func(h ListsHands) bool { return h.RestartSaved != nil }},
		{promise: "RestartedEmpty", check: restartedEmpty, needs: func(h ListsHands) bool { return h.RestartEmpty != nil }},
		{promise: "RestartedWhileFilled", check: restartedWhileFilled, needs: func(h ListsHands) bool { return h.Restart != nil }},
		{promise: "Flushed", check: flushed, needs: func(h ListsHands) bool { return h.Flush != nil }},
	} {
		t.Run(test.promise, func(t *testing.T) {
			a, b, hands := open(t)
			if test.needs == nil || test.needs(hands) {
				test.check(listsTest{T: t, a: a, b: b, hands: hands})
			}
		})
	}
}

// shard is the list that most tests are about.
var shard = lists.List{UID: "suite", Shard: 3}

func (t listsTest) must(what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (t listsTest) want(what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v; want %v", what, err, want)
	}
}

func (t listsTest) run() string {
	t.Helper()
	run, err := t.a.RunID(t.Context())
	t.must("run id", err)
	if run == "" {
		t.Fatal("the node has no run id")
	}
	return run
}

// stop takes the token of a fill, and returns the server's run.
func (t listsTest) stop(l lists.List, fill uint64) (run string) {
	t.Helper()
	run = t.run()
	t.must("stop", t.a.Stop(t.Context(), l, fill, run))
	return run
}

// fill makes a list of units that grants under a fill, from now on and for ever.
func (t listsTest) fill(l lists.List, fill uint64, units ...ledger.Range) {
	t.Helper()
	t.fillUntil(l, fill, 0, 0, lists.Part{Add: units})
}

// fillUntil makes a list of one part that grants from one time until another, in microseconds since 1970.
func (t listsTest) fillUntil(l lists.List, fill uint64, opens, closes int64, p lists.Part) {
	t.Helper()
	p.First = true
	run := t.stop(l, fill)
	t.must("put", t.a.Put(t.Context(), l, fill, run, p))
	t.must("start", t.a.Start(t.Context(), l, fill, run, lists.Start{
		Units: p.Add.Count(), Users: int64(len(p.Taken)), OpensAt: opens, ClosesAt: closes}))
}

// someTime is when units are given, in microseconds since 1970: what the clocks of
// nodes show does not matter.
const someTime = 1_500_000_000_000_000

// batch requests a unit for each user, under a key of the user.
func batch(l lists.List, fill uint64, users ...string) lists.Batch {
	b := lists.Batch{List: l, Fill: fill, At: someTime, Users: users}
	for _, user := range users {
		b.Keys = append(b.Keys, "key of "+user)
	}
	return b
}

// grab requests units for users of one list, which must be on.
func (t listsTest) grab(n lists.Node, l lists.List, fill uint64, users ...string) lists.Given {
	t.Helper()
	given, err := n.Grab(t.Context(), []lists.Batch{batch(l, fill, users...)})
	if err != nil || len(given) != 1 || given[0].Why != nil || len(given[0].Units) != len(users) {
		t.Fatalf("grab for %q under fill %d: %+v, %v; want an answer for each", users, fill, given, err)
	}
	return given[0]
}

// wantGiven grabs and checks the units.
func (t listsTest) wantGiven(n lists.Node, l lists.List, fill uint64, users []string, want ...int64) lists.Given {
	t.Helper()
	given := t.grab(n, l, fill, users...)
	for i, u := range given.Units {
		if u != (lists.Unit{Number: want[i]}) {
			t.Fatalf("%s of %q is given %+v; want unit %d, now", users[i], users, u, want[i])
		}
	}
	return given
}

// wantWhy grabs and checks why nothing is given.
func (t listsTest) wantWhy(l lists.List, fill uint64, want error) lists.Given {
	t.Helper()
	before := t.state(l)
	given, err := t.a.Grab(t.Context(), []lists.Batch{batch(l, fill, "refused")})
	units := []lists.Unit{{}}
	if want == lists.ErrFill {
		units = nil
	}
	if err != nil || len(given) != 1 || given[0].Why != want || !slices.Equal(given[0].Units, units) {
		t.Fatalf("grab under fill %d: %+v, %v; want nothing but the time and %v", fill, given, err, want)
	}
	if after := t.state(l); after != before {
		t.Fatalf("what was given nothing has made %+v of %+v", after, before)
	}
	return given[0]
}

func (t listsTest) state(l lists.List) lists.State {
	t.Helper()
	s, err := t.b.Inspect(t.Context(), l)
	t.must("inspect", err)
	return s
}

func (t listsTest) wantState(l lists.List, want lists.State) {
	t.Helper()
	got := t.state(l)
	got.Whole = want.Whole // wantWhole checks it
	if got != want {
		t.Fatalf("the list is %+v; want %+v", got, want)
	}
}

// read returns what a stream has after a place, in one page.
func (t listsTest) read(l lists.List, after string) []lists.Entry {
	t.Helper()
	entries, err := t.b.Read(t.Context(), l, 0, after, "", 1<<20)
	t.must("read", err)
	return entries
}

func names(who string, n int) (users []string) {
	for i := range n {
		users = append(users, fmt.Sprint(who, " ", i))
	}
	return users
}
