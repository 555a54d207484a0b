package backendtest

import (
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

func oneToken(t listsTest) {
	run := t.stop(shard, 3)
	for _, fill := range []uint64{3, 2, 1, 0} {
		t.want(fmt.Sprintf("stop of fill %d after that of 3", fill), t.b.Stop(t.Context(), shard, fill, run), lists.ErrToken)
	}
	t.want("stop of another run", t.b.Stop(t.Context(), shard, 4, "another"), lists.ErrOtherRun)
	t.want("stop of no run", t.b.Stop(t.Context(), shard, 4, ""), lists.ErrOtherRun)
	t.wantState(shard, lists.State{Exists: true, Token: 3})
	t.must("stop of a later fill", t.b.Stop(t.Context(), shard, 20, run))
	t.want("stop of fill 4 after that of 20", t.a.Stop(t.Context(), shard, 4, run), lists.ErrToken)
	t.wantState(shard, lists.State{Exists: true, Token: 20})
	t.must("stop of another list", t.a.Stop(t.Context(), lists.List{UID: "suite", Shard: 30}, 1, run))
	t.wantState(shard, lists.State{Exists: true, Token: 20})
}

func stopTurnsOff(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	t.wantGiven(t.a, shard, 1, []string{"one"}, 1)
	run := t.run()
	t.want("stop of its own fill", t.b.Stop(t.Context(), shard, 1, run), lists.ErrToken)
	t.want("stop of another run", t.b.Stop(t.Context(), shard, 2, "another"), lists.ErrOtherRun)
	t.wantGiven(t.a, shard, 1, []string{"two"}, 2)
	t.must("stop", t.b.Stop(t.Context(), shard, 2, run))
	t.wantState(shard, lists.State{Exists: true, Fill: 1, Token: 2, Units: 7, Users: 2, Entries: 2})
	t.wantWhy(shard, 1, lists.ErrFill)
	t.wantWhy(shard, 2, lists.ErrFill)
	if entries := t.read(shard, ""); len(entries) != 2 {
		t.Errorf("stopped, the stream has %+v; want both entries", entries)
	}
}

func putComparesLengths(t listsTest) {
	run := t.stop(shard, 1)
	put := func(p lists.Part) error { return t.b.Put(t.Context(), shard, 1, run, p) }
	taken := []ledger.Grab{{User: "one", Key: "key", Unit: 100, GrantedUs: 7}, {User: "two", Key: "key", Unit: 101, GrantedUs: 8}}
	t.must("first part", put(lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 3}}}))
	t.must("second part", put(lists.Part{Units: 3, Add: ledger.Units{{First: 8, Count: 1}}, Taken: taken[:1]}))
	whole := lists.State{Exists: true, Token: 1, Units: 4, Users: 1}
	t.wantState(shard, whole)
	for _, p := range []lists.Part{
		{Units: 3, Users: 1}, {Units: 5, Users: 1}, {Units: 4, Users: 0}, {Units: 4, Users: 2}, {},
		{First: true, Units: 4, Users: 1}, {First: true, Users: 1}, {First: true, Units: 1},
	} {
		p.Add, p.Taken = ledger.Units{{First: 20, Count: 2}}, taken[1:]
		t.want(fmt.Sprintf("%+v", p), put(p), lists.ErrLength)
		t.wantState(shard, whole)
	}
	t.must("third part", put(lists.Part{Units: 4, Users: 1, Taken: taken[1:]}))
	t.must("empty part", put(lists.Part{Units: 4, Users: 2}))
	t.must("start", t.a.Start(t.Context(), shard, 1, run, lists.Start{Units: 4, Users: 2}))
	t.wantGiven(t.a, shard, 1, []string{"a", "b", "c", "d", "e"}, 1, 2, 3, 8, 0)
	want := []lists.Unit{{Number: 101, Before: true, Key: "key", At: 8}, {Number: 100, Before: true, Key: "key", At: 7}}
	if got := t.grab(t.b, shard, 1, "two", "one").Units; !slices.Equal(got, want) {
		t.Errorf("who was given a unit before has %+v; want %+v", got, want)
	}
}

func firstPartDeletes(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	t.wantGiven(t.a, shard, 1, []string{"one", "two"}, 1, 2)
	run := t.stop(shard, 2)
	t.must("first part", t.a.Put(t.Context(), shard, 2, run, lists.Part{First: true, Add: ledger.Units{{First: 20, Count: 2}}}))
	t.wantState(shard, lists.State{Exists: true, Fill: 1, Token: 2, Units: 2, Entries: 1})
	t.must("first part again", t.b.Put(t.Context(), shard, 2, run, lists.Part{First: true, Add: ledger.Units{{First: 30, Count: 3}}}))
	t.must("start", t.b.Start(t.Context(), shard, 2, run, lists.Start{Units: 3}))
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 2, Token: 2, Units: 3, Entries: 1})
	t.wantGiven(t.a, shard, 2, []string{"two"}, 30)
}

// wantWhole checks whether the users of the list are those with which it was turned on,
// and those with a grant since.
func (t listsTest) wantWhole(when string, whole bool) {
	t.Helper()
	if s := t.state(shard); s.Whole != whole {
		t.Errorf("%s the list is %+v; want its users whole: %v", when, s, whole)
	}
}

// keepsUsers fills a list anew that keeps its users, or does not.
func keepsUsers(t listsTest) {
	t.wantWhole("before it is there", false)
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	t.wantWhole("filled", true)
	t.wantGiven(t.a, shard, 1, []string{"one", "two"}, 1, 2)
	run := t.stop(shard, 2)
	t.wantWhole("stopped", true)
	keep := lists.Part{First: true, Keep: true, Users: 2, Add: ledger.Units{{First: 20, Count: 2}}}
	for _, users := range []int64{0, 1, 3} {
		p := keep
		p.Users = users
		t.want(fmt.Sprintf("first part that keeps %d users of 2", users), t.a.Put(t.Context(), shard, 2, run, p), lists.ErrLength)
	}
	t.must("first part", t.a.Put(t.Context(), shard, 2, run, keep))
	t.wantState(shard, lists.State{Exists: true, Fill: 1, Token: 2, Units: 2, Users: 2, Entries: 1})
	t.wantWhole("with other units", true)
	t.must("start", t.b.Start(t.Context(), shard, 2, run, lists.Start{Units: 2, Users: 2}))
	t.wantGiven(t.a, shard, 2, []string{"three"}, 20)
	if u := t.grab(t.a, shard, 2, "two").Units[0]; u.Number != 2 || !u.Before {
		t.Errorf("who was kept has %+v; want unit 2", u)
	}
	t.stop(shard, 3)
	t.must("first part", t.a.Put(t.Context(), shard, 3, run, lists.Part{First: true, Taken: []ledger.Grab{{User: "one", Key: "key", Unit: 1, GrantedUs: 1}}}))
	t.wantWhole("with other users", false)
	t.must("second part", t.a.Put(t.Context(), shard, 3, run, lists.Part{Users: 1, Taken: []ledger.Grab{{User: "two", Key: "key", Unit: 2, GrantedUs: 1}}}))
	t.wantWhole("with more users", false)
	t.must("start", t.b.Start(t.Context(), shard, 3, run, lists.Start{Users: 2}))
	t.wantWhole("turned on", true)
	t.must("forget", t.a.Forget(t.Context(), shard))
	t.wantWhole("forgotten", false)
}

func needTheToken(t listsTest) {
	try := func(what string, fill uint64, run string, want error) {
		t.Helper()
		before := t.state(shard)
		part := lists.Part{First: true, Add: ledger.Units{{First: 40, Count: 1}}}
		t.want("put "+what, t.a.Put(t.Context(), shard, fill, run, part), want)
		t.want("start "+what, t.b.Start(t.Context(), shard, fill, run, lists.Start{Units: before.Units, Users: before.Users}), want)
		t.wantState(shard, before)
	}
	run := t.run()
	try("of a list that was never stopped", 1, run, lists.ErrToken)
	t.stop(shard, 2)
	try("under an earlier token", 1, run, lists.ErrToken)
	try("under a later token", 3, run, lists.ErrToken)
	try("under another run", 2, "another", lists.ErrOtherRun)
	try("under no run", 2, "", lists.ErrOtherRun)
	t.must("put", t.a.Put(t.Context(), shard, 2, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 9}}}))
	t.must("start", t.a.Start(t.Context(), shard, 2, run, lists.Start{Units: 9}))
	try("of a list that is on", 2, run, lists.ErrToken)
	t.wantGiven(t.a, shard, 2, []string{"one"}, 1)
	t.stop(shard, 3)
	try("under a token that was taken over", 2, run, lists.ErrToken)
}

func startComparesLengths(t listsTest) {
	run := t.stop(shard, 1)
	t.must("put", t.a.Put(t.Context(), shard, 1, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 3}},
		Taken: []ledger.Grab{{User: "one", Key: "key", Unit: 9, GrantedUs: 1}}}))
	for _, s := range []lists.Start{{Units: 2, Users: 1}, {Units: 4, Users: 1}, {Units: 3}, {Units: 3, Users: 2}, {}} {
		t.want(fmt.Sprintf("start with %+v", s), t.b.Start(t.Context(), shard, 1, run, s), lists.ErrLength)
		t.wantWhy(shard, 1, lists.ErrFill)
	}
	t.must("start", t.b.Start(t.Context(), shard, 1, run, lists.Start{Units: 3, Users: 1}))
	t.wantGiven(t.a, shard, 1, []string{"two"}, 1)
}

// largeParts puts more than a script's call takes, and units so large that a
// float of the usual form would round them.
func largeParts(t listsTest) {
	const many, first = 9001, 1<<53 - 20_000
	run := t.stop(shard, 1)
	p := lists.Part{First: true, Add: ledger.Units{{First: first, Count: many}}}
	for i := range int64(many) {
		p.Taken = append(p.Taken, ledger.Grab{User: fmt.Sprint("user ", i), Key: "key", Unit: first + many + i, GrantedUs: i})
	}
	t.must("put", t.a.Put(t.Context(), shard, 1, run, p))
	scattered := ledger.Units{}
	for i := range int64(many) {
		scattered = append(scattered, ledger.Range{First: 2*i + 1, Count: 1})
	}
	t.must("put", t.a.Put(t.Context(), shard, 1, run, lists.Part{Units: many, Users: many, Add: scattered}))
	t.must("start", t.a.Start(t.Context(), shard, 1, run, lists.Start{Units: 2 * many, Users: many}))
	users := names("new", 1000)
	given := t.grab(t.b, shard, 1, users...)
	for i, u := range given.Units {
		if u.Number != first+int64(i) {
			t.Fatalf("user %d is given %d; want %d", i, u.Number, first+i)
		}
	}
	if u := t.grab(t.b, shard, 1, "user 9000").Units[0]; u != (lists.Unit{Number: first + many + 9000, Before: true, Key: "key", At: 9000}) {
		t.Errorf("the last user has %+v", u)
	}
	if units, err := t.a.Take(t.Context(), shard, 1, 9001); err != nil || !slices.Equal(units, scattered) {
		t.Errorf("take of the last part returns %d units, %v; want all of them", units.Count(), err)
	}
	left := ledger.Units{{First: first + 1000, Count: many - 1000}}
	if units, err := t.a.Take(t.Context(), shard, 1, 20_000); err != nil || !slices.Equal(units, left) {
		t.Errorf("take of the rest returns %v, %v; want %v", units, err, left)
	}
}
