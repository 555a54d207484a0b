package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

func givesInOrder(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 3}, ledger.Range{First: 7, Count: 4})
	t.wantGiven(t.a, shard, 1, []string{"z", "a"}, 1, 2)
	t.wantGiven(t.b, shard, 1, []string{"m", "b", "c"}, 3, 7, 8)
	t.wantGiven(t.a, shard, 1, []string{"d"}, 9)
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 1, Token: 1, Units: 1, Users: 6, Entries: 3})
}

func sameUserSameAnswer(t listsTest) {
	t.fill(shard, 6, ledger.Range{First: 1, Count: 9})
	t.wantGiven(t.a, shard, 6, []string{"one", "two"}, 1, 2)
	for _, n := range []lists.Node{t.a, t.b} {
		given, err := n.Grab(t.Context(), []lists.Batch{{List: shard, Fill: 6, At: someTime, Users: []string{"two", "one"}, Keys: []string{"another", "key of one"}}})
		t.must("grab", err)
		want := []lists.Unit{
			{Number: 2, Before: true, Key: "key of two", At: someTime},
			{Number: 1, Before: true, Key: "key of one", At: someTime},
		}
		if !slices.Equal(given[0].Units, want) {
			t.Fatalf("at the second request, they have %+v; want %+v", given[0].Units, want)
		}
	}
	// Between those who have none yet.
	mixed := t.grab(t.b, shard, 6, "three", "one", "four", "two", "five")
	var got []int64
	for _, u := range mixed.Units {
		got = append(got, u.Number)
	}
	if !slices.Equal(got, []int64{3, 1, 4, 2, 5}) || mixed.Units[0].Before || !mixed.Units[3].Before {
		t.Fatalf("new and old users have %+v", mixed.Units)
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 6, Token: 6, Units: 4, Users: 5, Entries: 2})
	var grabs []ledger.Grab
	for i, user := range []string{"three", "four", "five"} {
		g := ledger.Grab{User: user, Key: "key of " + user, Unit: int64(3 + i), GrantedUs: someTime}
		grabs = append(grabs, g)
		if u := t.grab(t.a, shard, 6, user).Units[0]; u != (lists.Unit{Number: g.Unit, Before: true, Key: g.Key, At: g.GrantedUs}) {
			t.Errorf("%s has %+v; want %+v, from before", user, u, g)
		}
	}
	if entries := t.read(shard, ""); len(entries) != 2 || entries[1].Fill != 6 || !slices.Equal(entries[1].Grabs, grabs) {
		t.Errorf("the stream has %+v; want %+v in its last entry", entries, grabs)
	}
}

func emptyList(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 2})
	t.wantGiven(t.a, shard, 1, []string{"one", "two", "three", "four"}, 1, 2, 0, 0)
	t.wantGiven(t.b, shard, 1, []string{"three", "five"}, 0, 0)
	mixed := t.grab(t.a, shard, 1, "three", "two", "one")
	if u := mixed.Units; u[0] != (lists.Unit{}) || u[1].Number != 2 || !u[1].Before || u[2].Number != 1 || !u[2].Before {
		t.Fatalf("of an empty list they have %+v; want nothing for who has none, else what they have", mixed.Units)
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 1, Token: 1, Users: 2, Entries: 1})
	other := lists.List{UID: "suite", Shard: 4}
	t.fill(other, 1)
	t.wantGiven(t.a, other, 1, []string{"one"}, 0)
}

func severalLists(t listsTest) {
	var batches []lists.Batch
	for i := range 4 {
		l := lists.List{UID: "suite", Shard: i}
		t.fill(l, uint64(i+1), ledger.Range{First: int64(10 * (i + 1)), Count: 2})
		batches = append(batches, batch(l, uint64(i+1), "one", fmt.Sprint("user ", i), "late"))
	}
	batches[2].Fill = 2
	batches = append(batches, batch(lists.List{UID: "another", Shard: 1}, 1, "one"), batch(batches[0].List, 1, "one", "nobody"))
	given, err := t.a.Grab(t.Context(), batches)
	t.must("grab", err)
	if len(given) != len(batches) {
		t.Fatalf("%d batches have %d answers", len(batches), len(given))
	}
	for i, want := range [][]int64{{10, 11, 0}, {20, 21, 0}, nil, {40, 41, 0}, nil} {
		var got []int64
		for _, u := range given[i].Units {
			got = append(got, u.Number)
		}
		if !slices.Equal(got, want) || (given[i].Why == lists.ErrFill) != (want == nil) {
			t.Errorf("batch %d is given %+v; want %v", i, given[i], want)
		}
		entries := t.read(batches[i].List, "")
		if len(entries) != min(1, len(want)) || want != nil && (entries[0].Fill != batches[i].Fill || entries[0].Grabs[0].Unit != want[0]) {
			t.Errorf("the stream of batch %d has %+v; want %v", i, entries, want)
		}
	}
	again := []lists.Unit{{Number: 10, Before: true, Key: "key of one", At: someTime}, {}}
	if !slices.Equal(given[5].Units, again) {
		t.Errorf("a second batch of the same list in the call gets %+v; want %+v", given[5].Units, again)
	}
	if given, err := t.a.Grab(t.Context(), nil); err != nil || len(given) != 0 {
		t.Errorf("no batches are given %+v, %v", given, err)
	}
}

func underItsFill(t listsTest) {
	t.wantWhy(shard, 1, lists.ErrFill)
	t.wantWhy(shard, 0, lists.ErrFill)
	run := t.stop(shard, 2)
	t.must("put", t.a.Put(t.Context(), shard, 2, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 2}}}))
	t.wantWhy(shard, 2, lists.ErrFill)
	t.must("start", t.a.Start(t.Context(), shard, 2, run, lists.Start{Units: 2}))
	for _, fill := range []uint64{0, 1, 3, 20} {
		t.wantWhy(shard, fill, lists.ErrFill)
	}
	t.wantWhy(lists.List{UID: "another", Shard: shard.Shard}, 2, lists.ErrFill)
	t.wantGiven(t.b, shard, 2, []string{"one"}, 1)
}

// opensAndCloses checks that a list grants only within its hours, and reports earlier grants at any
// time.
func opensAndCloses(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	part := lists.Part{
		Add:   ledger.Units{{First: 1, Count: 9}},
		Taken: []ledger.Grab{{User: "had", Key: "k", Unit: 10, GrantedUs: 7}},
	}
	had := lists.Unit{Number: 10, Before: true, Key: "k", At: 7}
	const now, hour = int64(someTime), int64(time.Hour / time.Microsecond)
	past, future := now-hour, now+hour
	for i, test := range []struct {
		opens, closes int64
		want          error
	}{
		{past, future, nil}, {past, 0, nil}, {0, future, nil},
		{future, 0, lists.ErrNotOpen}, {future, future + hour, lists.ErrNotOpen},
		{past, past + hour/60, lists.ErrClosed}, {0, past, lists.ErrClosed},
		{now, now + 1, nil}, {now + 1, 0, lists.ErrNotOpen},
		{past, now, lists.ErrClosed},
	} {
		fill := uint64(i + 2)
		t.fillUntil(shard, fill, test.opens, test.closes, part)
		if test.want == nil {
			t.wantGiven(t.b, shard, fill, []string{"one"}, 1)
		} else {
			given := t.wantWhy(shard, fill, test.want)
			if test.want == lists.ErrNotOpen && given.OpensAt != test.opens {
				t.Errorf("a grab before the hours gets the opening time %d, want %d", given.OpensAt, test.opens)
			}
			t.wantWhy(shard, 1, lists.ErrFill)
		}
		given, err := t.b.Grab(t.Context(), []lists.Batch{batch(shard, fill, "late", "had")})
		t.must("grab", err)
		late := lists.Unit{}
		if test.want == nil {
			late.Number = 2
		}
		if !slices.Equal(given[0].Units, []lists.Unit{late, had}) {
			t.Errorf("opens %v, closes %v: %+v; want %+v and %+v", test.opens, test.closes, given[0].Units, late, had)
		}
	}
}

func badBatches(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	good := batch(shard, 1, "good")
	for name, bad := range map[string]lists.Batch{
		"a user twice": batch(shard, 1, "one", "two", "one"),
		"too few keys": {List: shard, Fill: 1, At: someTime, Users: []string{"one", "two"}, Keys: []string{"one"}},
		"too many":     {List: shard, Fill: 1, At: someTime, Users: []string{"one"}, Keys: []string{"one", "two"}},
		"nobody":       {List: shard, Fill: 1, At: someTime},
		"no time":      {List: shard, Fill: 1, Users: []string{"one"}, Keys: []string{"one"}},
		"too large":    batch(shard, 1, names("user", 1000)...),
	} {
		if given, err := t.a.Grab(t.Context(), []lists.Batch{good, bad}); err == nil {
			t.Errorf("a batch with %s is given %+v; want an error", name, given)
		}
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 1, Token: 1, Units: 9})
}

// anyName grants units to users whose names and keys mean something to scripts,
// streams or formats.
func anyName(t listsTest) {
	strange := []string{"f", "fill", "", " ", "two words", "0", "-1", "1 2 3", "a\x00b", "\xff\xfe", "käse", `"'\`, "*", "$",
		"%s%d", "{x}", "\r\n", strings.Repeat("long", 5000)}
	t.fill(shard, 1, ledger.Range{First: 1, Count: 100})
	b := lists.Batch{List: shard, Fill: 1, At: someTime, Users: strange, Keys: slices.Clone(strange)}
	slices.Reverse(b.Keys)
	_, err := t.a.Grab(t.Context(), []lists.Batch{b})
	t.must("grab", err)
	again, err := t.b.Grab(t.Context(), []lists.Batch{b})
	t.must("grab", err)
	var grabs []ledger.Grab
	for i, user := range strange {
		grabs = append(grabs, ledger.Grab{User: user, Key: b.Keys[i], Unit: int64(i + 1), GrantedUs: someTime})
		if got, want := again[0].Units[i], (lists.Unit{Number: int64(i + 1), Before: true, Key: b.Keys[i], At: someTime}); got != want {
			t.Errorf("user %q has %+v; want %+v", user, got, want)
		}
	}
	if entries := t.read(shard, ""); len(entries) != 1 || entries[0].Fill != 1 || !slices.Equal(entries[0].Grabs, grabs) {
		t.Errorf("the stream has %+v; want one entry of %+v", entries, grabs)
	}
	run := t.stop(shard, 2)
	t.must("put", t.a.Put(t.Context(), shard, 2, run, lists.Part{First: true, Taken: grabs}))
	t.must("start", t.a.Start(t.Context(), shard, 2, run, lists.Start{Users: int64(len(grabs))}))
	b.Fill = 2
	refilled, err := t.a.Grab(t.Context(), []lists.Batch{b})
	t.must("grab", err)
	if !slices.Equal(refilled[0].Units, again[0].Units) {
		t.Errorf("filled again, the users have %+v; want %+v", refilled[0].Units, again[0].Units)
	}
}

// grabbersTogether checks that each user gets one unit, and each unit one user, in a race of grabs.
func grabbersTogether(t listsTest) {
	const users, units, grabbers = 240, 200, 6
	t.fill(shard, 1, ledger.Range{First: 1, Count: units})
	var mu sync.Mutex
	has := make(map[string]int64)
	all := names("user", users)
	var racers []func()
	for g := range grabbers {
		n := []lists.Node{t.a, t.b}[g%2]
		racers = append(racers, func() {
			// Each grabs for all users, in an order of its own.
			for at := range 12 {
				from := (at*7 + g*5) % 12 * 20
				given, err := n.Grab(t.Context(), []lists.Batch{batch(shard, 1, all[from:from+20]...)})
				if err != nil {
					t.Errorf("grab: %v", err)
					return
				}
				mu.Lock()
				for i, u := range given[0].Units {
					if before, known := has[all[from+i]]; known && before != 0 && before != u.Number {
						t.Errorf("%s has unit %d and unit %d", all[from+i], before, u.Number)
					}
					has[all[from+i]] = u.Number
				}
				mu.Unlock()
			}
		})
	}
	race(racers...)
	whose := make(map[int64]string)
	for user, unit := range has {
		if other := whose[unit]; unit != 0 && other != "" {
			t.Errorf("unit %d is %s's and %s's", unit, other, user)
		}
		if unit != 0 {
			whose[unit] = user
		}
	}
	if len(whose) != units {
		t.Errorf("%d units are given, want all %d", len(whose), units)
	}
	var grabs int
	for _, e := range t.read(shard, "") {
		for _, g := range e.Grabs {
			grabs++
			if has[g.User] != g.Unit {
				t.Errorf("the stream has %+v, and the user got %d", g, has[g.User])
			}
		}
	}
	if grabs != units {
		t.Errorf("the stream has %d grabs, want %d", grabs, units)
	}
}
