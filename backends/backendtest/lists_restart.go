package backendtest

import (
	"errors"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// wantDead checks that a list of a run before does nothing: not under its fill,
// not for whoever has its token, and not for whoever has only read the new run id.
func (t listsTest) wantDead(fill uint64, oldRun string) {
	t.Helper()
	run := t.run()
	if run == oldRun {
		t.Fatalf("after a restart the node still has run id %s", run)
	}
	before := t.state(shard)
	if before.On || before.Whole {
		t.Fatalf("after a restart the list is %+v; want it off, and its users not known to be whole", before)
	}
	t.wantWhy(shard, fill, lists.ErrFill)
	_, err := t.a.Take(t.Context(), shard, fill, 1)
	t.want("take", err, lists.ErrFill)
	t.want("add", t.a.Add(t.Context(), shard, fill, ledger.Units{{First: 90, Count: 1}}), lists.ErrFill)
	t.want("stop under the old run", t.a.Stop(t.Context(), shard, fill+1, oldRun), lists.ErrOtherRun)
	part, start := lists.Part{Units: before.Units, Users: before.Users}, lists.Start{Units: before.Units, Users: before.Users}
	t.want("put under the old run", t.a.Put(t.Context(), shard, fill, oldRun, part), lists.ErrOtherRun)
	t.want("start under the old run", t.a.Start(t.Context(), shard, fill, oldRun, start), lists.ErrOtherRun)
	if t.a.Put(t.Context(), shard, fill, run, part) == nil || t.a.Start(t.Context(), shard, fill, run, start) == nil {
		t.Fatal("the token of an earlier run fills the list in this one")
	}
	t.wantState(shard, before)
}

// wantRebuilt rebuilds the list as if the log had given a unit to user one.
func (t listsTest) wantRebuilt(fill uint64) {
	t.Helper()
	entries := t.read(shard, "")
	drained := ""
	if len(entries) > 0 {
		drained = entries[len(entries)-1].ID
	}
	run := t.stop(shard, fill)
	t.must("put", t.a.Put(t.Context(), shard, fill, run, lists.Part{First: true,
		Add: ledger.Units{{First: 2, Count: 8}}, Taken: []ledger.Grab{{User: "one", Key: "key of one", Unit: 1, GrantedUs: 5}}}))
	t.must("start", t.a.Start(t.Context(), shard, fill, run, lists.Start{Units: 8, Users: 1, Drained: drained}))
	if got, want := t.grab(t.b, shard, fill, "one", "two").Units, []lists.Unit{{Number: 1, Before: true, Key: "key of one", At: 5}, {Number: 2}}; !slices.Equal(got, want) {
		t.Fatalf("rebuilt, the list grants %+v; want %+v", got, want)
	}
	t.wantState(shard, lists.State{Exists: true, On: true, Fill: fill, Token: fill, Units: 7, Users: 2, Entries: 1})
}

func restarted(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	run := t.run()
	t.wantGiven(t.a, shard, 1, []string{"one"}, 1)
	t.hands.Restart()
	t.wantDead(1, run)
	t.wantState(shard, lists.State{Exists: true, Fill: 1, Token: 1, Units: 8, Users: 1, Entries: 1})
	grabs := []ledger.Grab{{User: "one", Key: "key of one", Unit: 1, GrantedUs: someTime}}
	if entries := t.read(shard, ""); len(entries) != 1 || entries[0].Fill != 1 || !slices.Equal(entries[0].Grabs, grabs) {
		t.Fatalf("the stream that survived has %+v; want %+v", entries, grabs)
	}
	// An entry that survived stays until it is drained by a start.
	entries, err := t.a.Read(t.Context(), shard, 1, "", t.read(shard, "")[0].ID, 100)
	if !errors.Is(err, lists.ErrFill) || len(t.read(shard, "")) != 1 {
		t.Fatalf("a read under the fill of the run before: %+v, %v; want a refusal, and that the entry stays", entries, err)
	}
	t.wantRebuilt(2)
}

func restartedOld(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	run := t.run()
	t.wantGiven(t.a, shard, 1, []string{"one"}, 1)
	t.hands.Save()
	t.wantGiven(t.a, shard, 1, []string{"two"}, 2)
	t.hands.RestartSaved()
	t.wantDead(1, run)
	t.wantState(shard, lists.State{Exists: true, Fill: 1, Token: 1, Units: 8, Users: 1, Entries: 1})
	t.wantRebuilt(2)
}

func restartedEmpty(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	run := t.run()
	t.wantGiven(t.a, shard, 1, []string{"one"}, 1)
	t.hands.RestartEmpty()
	t.wantDead(1, run)
	t.wantState(shard, lists.State{})
	t.wantRebuilt(2)
}

// restartedWhileFilled restarts between the parts of a fill, which must begin
// again.
func restartedWhileFilled(t listsTest) {
	run := t.stop(shard, 1)
	t.must("put", t.a.Put(t.Context(), shard, 1, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 9}}}))
	t.hands.Restart()
	t.wantDead(1, run)
	t.wantRebuilt(2)
}

func flushed(t listsTest) {
	t.fill(shard, 1, ledger.Range{First: 1, Count: 9})
	t.wantGiven(t.a, shard, 1, []string{"one"}, 1)
	run := t.run()
	t.hands.Flush()
	t.wantState(shard, lists.State{})
	t.wantWhy(shard, 1, lists.ErrFill)
	t.want("put", t.a.Put(t.Context(), shard, 1, run, lists.Part{First: true}), lists.ErrToken)
	t.want("start", t.a.Start(t.Context(), shard, 1, run, lists.Start{}), lists.ErrToken)
	t.wantRebuilt(2)
}
