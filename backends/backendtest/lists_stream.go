package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

func startDeletes(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	for i := range 4 {
		t.grab(t.a, shard, 1, fmt.Sprint("user ", i))
	}
	old := t.read(shard, "")
	run := t.stop(shard, 2)
	t.must("put", t.a.Put(t.Context(), shard, 2, run, lists.Part{First: true, Add: ledger.Units{{First: 20, Count: 9}}}))
	drained := lists.Start{Units: 9, Drained: old[2].ID}
	for what, err := range map[string]error{
		"another length": t.a.Start(t.Context(), shard, 2, run, lists.Start{Units: 8, Drained: old[3].ID}),
		"another token":  t.a.Start(t.Context(), shard, 3, run, lists.Start{Units: 9, Drained: old[3].ID}),
	} {
		if err == nil || len(t.read(shard, "")) != 4 {
			t.Fatalf("a start with %s: %v, and the stream has %d entries; want an error and all 4", what, err, len(t.read(shard, "")))
		}
	}
	t.must("start", t.a.Start(t.Context(), shard, 2, run, drained))
	if left := t.read(shard, ""); len(left) != 1 || left[0].ID != old[3].ID || left[0].Fill != 1 {
		t.Fatalf("the stream has %+v; want the last of %+v", left, old)
	}
	t.wantGiven(t.a, shard, 2, []string{"user 0"}, 20)
	if all := t.read(shard, ""); len(all) != 2 || all[1].Fill != 2 || all[1].ID != lists.EntryID(2, 1) || all[1].Grabs[0].Unit != 20 {
		t.Fatalf("the stream has %+v; want the grab of fill 2 after that of fill 1", all)
	}
	t.stop(shard, 3)
	t.must("put", t.a.Put(t.Context(), shard, 3, run, lists.Part{First: true}))
	t.must("start", t.a.Start(t.Context(), shard, 3, run, lists.Start{}))
	if left := t.read(shard, ""); len(left) != 2 {
		t.Fatalf("nothing was drained, and the stream has %+v; want both entries", left)
	}
}

func readsInOrder(t listsTest) {
	if entries := t.read(shard, ""); len(entries) != 0 {
		t.Fatalf("a stream that is not there has %+v", entries)
	}
	t.fill(shard, 5, ledger.Range{First: 1, Count: 10_000})
	var want []ledger.Grab
	for i := range 60 {
		// Entries of many sizes.
		users := names(fmt.Sprint("user ", i), 1+i*i%37)
		given := t.grab([]lists.Node{t.a, t.b}[i%2], shard, 5, users...)
		if given.Entry != uint64(i+1) {
			t.Fatalf("the reply has entry %d, want %d", given.Entry, i+1)
		}
		for j, u := range given.Units {
			want = append(want, ledger.Grab{User: users[j], Key: "key of " + users[j], Unit: u.Number, GrantedUs: someTime})
		}
	}
	for _, max := range []int{1, 7, 100, len(want), 1 << 20} {
		var got []ledger.Grab
		after, last, pages := "", uint64(0), 0
		for {
			entries, err := t.b.Read(t.Context(), shard, 5, after, "", max)
			t.must("read", err)
			if len(entries) == 0 {
				break
			}
			pages++
			grabs := 0
			for _, e := range entries {
				fill, number, err := lists.ParseEntryID(e.ID)
				if err != nil || fill != 5 || number != last+1 || e.Fill != 5 || len(e.Grabs) == 0 {
					t.Fatalf("after %v comes %+v, %v", last, e, err)
				}
				got, after, last, grabs = append(got, e.Grabs...), e.ID, number, grabs+len(e.Grabs)
			}
			if grabs >= max+37 {
				t.Errorf("a page of %d grabs; want about %d", grabs, max)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages of %d make %d grabs; want the %d that were given, in order", max, len(got), len(want))
		}
		if max >= len(want) && pages != 1 {
			t.Errorf("%d pages of %d; want 1", pages, max)
		}
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 5, Token: 5, Units: 10_000 - int64(len(want)), Users: int64(len(want)), Entries: 60})
}

func readDeletes(t listsTest) {
	t.fill(shard, 2, ledger.Range{First: 1, Count: 90})
	for i := range 6 {
		t.grab(t.a, shard, 2, fmt.Sprint("user ", i))
	}
	all := t.read(shard, "")
	read := func(fill uint64, after, drained string, want ...lists.Entry) {
		t.Helper()
		got, err := t.b.Read(t.Context(), shard, fill, after, drained, 100)
		if err != nil || !slices.EqualFunc(got, want, func(a, b lists.Entry) bool { return a.ID == b.ID }) {
			t.Fatalf("read after %q, drained up to %q: %+v, %v; want %+v", after, drained, got, err, want)
		}
	}
	refused := func(fill uint64, drained string) {
		t.Helper()
		left := len(t.read(shard, ""))
		if got, err := t.b.Read(t.Context(), shard, fill, "", drained, 100); !errors.Is(err, lists.ErrFill) || len(t.read(shard, "")) != left {
			t.Fatalf("a read under fill %d: %+v, %v; want a refusal, and %d entries that stay", fill, got, err, left)
		}
	}
	refused(1, all[1].ID)
	refused(3, all[1].ID)
	read(0, "", all[1].ID, all...)
	read(2, all[3].ID, all[1].ID, all[4:]...)
	read(2, "", "", all[2:]...)
	read(2, all[5].ID, all[1].ID) // again: there is nothing any more
	t.stop(shard, 3)
	refused(2, all[4].ID)
	refused(3, all[4].ID)
	read(0, "", all[4].ID, all[2:]...)
	t.fill(shard, 4, ledger.Range{First: 50, Count: 9})
	refused(2, all[4].ID)
	read(4, all[4].ID, all[5].ID)
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 4, Token: 4, Units: 9})
	t.grab(t.a, shard, 4, "user 0")
	if left := t.read(shard, all[5].ID); len(left) != 1 || left[0].Grabs[0].Unit != 50 {
		t.Errorf("after what was deleted, the stream has %+v; want unit 50", left)
	}
}

func takesFromTheEnd(t listsTest) {
	_, err := t.a.Take(t.Context(), shard, 1, 1)
	t.want("take from a list that is not there", err, lists.ErrFill)
	t.fill(shard, 2, ledger.Range{First: 1, Count: 5}, ledger.Range{First: 10, Count: 3})
	for _, fill := range []uint64{0, 1, 3} {
		_, err := t.a.Take(t.Context(), shard, fill, 1)
		t.want("take under another fill", err, lists.ErrFill)
	}
	take := func(n int, want ...ledger.Range) {
		t.Helper()
		units, err := t.b.Take(t.Context(), shard, 2, n)
		if err != nil || !slices.Equal(units, want) {
			t.Fatalf("take %d: %v, %v; want %v", n, units, err, want)
		}
	}
	for _, n := range []int{0, -1} {
		if units, err := t.a.Take(t.Context(), shard, 2, n); err == nil {
			t.Errorf("take %d returns %v; want an error", n, units)
		}
	}
	take(2, ledger.Range{First: 11, Count: 2})
	take(3, ledger.Range{First: 4, Count: 2}, ledger.Range{First: 10, Count: 1})
	t.wantGiven(t.a, shard, 2, []string{"one"}, 1)
	take(9, ledger.Range{First: 2, Count: 2})
	take(1)
	t.wantGiven(t.a, shard, 2, []string{"two"}, 0)
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 2, Token: 2, Users: 1, Entries: 1})
	t.stop(shard, 3)
	_, err = t.a.Take(t.Context(), shard, 2, 1)
	t.want("take from a list that is off", err, lists.ErrFill)
}

func addsAtTheEnd(t listsTest) {
	units := ledger.Units{{First: 20, Count: 2}, {First: 30, Count: 1}}
	t.want("add to a list that is not there", t.a.Add(t.Context(), shard, 1, units), lists.ErrFill)
	t.wantState(shard, lists.State{})
	t.fill(shard, 2, ledger.Range{First: 50, Count: 1})
	for _, fill := range []uint64{0, 1, 3} {
		t.want("add under another fill", t.a.Add(t.Context(), shard, fill, units), lists.ErrFill)
	}
	t.must("add", t.a.Add(t.Context(), shard, 2, units))
	t.must("add nothing", t.a.Add(t.Context(), shard, 2, nil))
	t.wantGiven(t.b, shard, 2, []string{"a", "b", "c", "d", "e"}, 50, 20, 21, 30, 0)
	t.must("add", t.a.Add(t.Context(), shard, 2, ledger.Units{{First: 1, Count: 1}}))
	t.wantGiven(t.b, shard, 2, []string{"e"}, 1)
	t.stop(shard, 3)
	t.want("add to a list that is off", t.a.Add(t.Context(), shard, 2, units), lists.ErrFill)
	t.wantState(shard, lists.State{Exists: true, Fill: 2, Token: 3, Users: 5, Entries: 2})
}

func inspects(t listsTest) {
	t.wantState(shard, lists.State{})
	run := t.stop(shard, 3)
	t.wantState(shard, lists.State{Exists: true, Token: 3})
	t.must("put", t.a.Put(t.Context(), shard, 3, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 5}},
		Taken: []ledger.Grab{{User: "one", Unit: 9}}}))
	t.wantState(shard, lists.State{Exists: true, Token: 3, Units: 5, Users: 1})
	t.must("start", t.a.Start(t.Context(), shard, 3, run, lists.Start{Units: 5, Users: 1}))
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 3, Token: 3, Units: 5, Users: 1})
	t.grab(t.a, shard, 3, "two", "three")
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 3, Token: 3, Units: 3, Users: 3, Entries: 1})
	t.stop(shard, 4)
	t.wantState(shard, lists.State{Exists: true, Fill: 3, Token: 4, Units: 3, Users: 3, Entries: 1})
}

func forgets(t listsTest) {
	other := lists.List{UID: "suite", Shard: 33}
	t.must("forget what is not there", t.a.Forget(t.Context(), shard))
	t.fill(shard, 1, ledger.Range{First: 1, Count: 5})
	t.fill(other, 1, ledger.Range{First: 10, Count: 5})
	t.grab(t.a, shard, 1, "one")
	t.must("forget", t.b.Forget(t.Context(), shard))
	t.wantState(shard, lists.State{})
	t.wantWhy(shard, 1, lists.ErrFill)
	if entries := t.read(shard, ""); len(entries) != 0 {
		t.Errorf("of a list that was forgotten, the stream has %+v", entries)
	}
	t.wantGiven(t.a, other, 1, []string{"one"}, 10)
}

func hasSettings(t listsTest) {
	if a, err := t.a.Settings(t.Context()); err != nil {
		t.Errorf("settings: %v", err)
	} else if b, err := t.b.Settings(t.Context()); a != b || err != nil {
		t.Errorf("the settings are %+v, and by another handle %+v, %v", a, b, err)
	}
	if t.a.Name() == "" || t.a.Name() != t.b.Name() {
		t.Errorf("one node's names are %q and %q", t.a.Name(), t.b.Name())
	}
}

func listsEndedContext(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 5})
	run := t.run()
	for what, call := range map[string]func(context.Context) error{
		"RunID": func(ctx context.Context) error { _, err := t.a.RunID(ctx); return err },
		"Grab": func(ctx context.Context) error {
			_, err := t.a.Grab(ctx, []lists.Batch{batch(shard, 1, "one")})
			return err
		},
		"Stop":     func(ctx context.Context) error { return t.a.Stop(ctx, shard, 2, run) },
		"Read":     func(ctx context.Context) error { _, err := t.a.Read(ctx, shard, 1, "", "", 1); return err },
		"Put":      func(ctx context.Context) error { return t.a.Put(ctx, shard, 1, run, lists.Part{}) },
		"Start":    func(ctx context.Context) error { return t.a.Start(ctx, shard, 1, run, lists.Start{}) },
		"Take":     func(ctx context.Context) error { _, err := t.a.Take(ctx, shard, 1, 1); return err },
		"Add":      func(ctx context.Context) error { return t.a.Add(ctx, shard, 1, ledger.Units{{First: 9, Count: 1}}) },
		"Inspect":  func(ctx context.Context) error { _, err := t.a.Inspect(ctx, shard); return err },
		"Forget":   func(ctx context.Context) error { return t.a.Forget(ctx, shard) },
		"Settings": func(ctx context.Context) error { _, err := t.a.Settings(ctx); return err },
	} {
		within(t.T, what, func(ctx context.Context) { t.want(what, call(ctx), context.Canceled) })
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: 1, Token: 1, Units: 5})
}
