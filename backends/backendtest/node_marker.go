package backendtest

import (
	"time"

	"salectl/backends/quorum"
)

func abstains(t nodeTest) {
	t.mustMark("another sale's marker")
	before := t.info().Time
	first := t.wantAbstains(t.a, sale)
	// A node may count in whole milliseconds.
	if earliest := before.Add(quorum.MaxTTL).Truncate(time.Millisecond); first.VotesFrom.Before(earliest) {
		t.Errorf("after %v it votes from %v, want not before %v", before, first.VotesFrom, earliest)
	}
	if again := t.wantAbstains(t.b, sale); !again.VotesFrom.Equal(first.VotesFrom) {
		t.Errorf("at the second vote it votes from %v, want %v as before", again.VotesFrom, first.VotesFrom)
	}
	if found, err := t.a.List(t.Context(), "key of "); err != nil || len(found) != 0 {
		t.Errorf("abstaining it promised %+v, %v", found, err)
	}
	t.pass(quorum.MaxTTL)
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
}

func markVotes(t nodeTest) {
	t.wantAbstains(t.b, sale)
	t.mustMark(sale)
	t.wantVote(t.b, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	// The marker of one sale is independent of another's.
	t.wantAbstains(t.a, "another sale's marker")

	a, errA := t.a.Info(t.Context())
	b, errB := t.b.Info(t.Context())
	if errA != nil || errB != nil || a.RunID == "" || a.RunID != b.RunID {
		t.Errorf("the handles see the runs %q and %q (%v, %v), want one", a.RunID, b.RunID, errA, errB)
	}
	if t.a.Name() == "" || t.a.Name() != t.b.Name() {
		t.Errorf("the handles are named %q and %q, want one name", t.a.Name(), t.b.Name())
	}
}

func markOtherRun(t nodeTest) {
	t.mustMark("another sale's marker")
	wrong := t.info().RunID + "x"
	if err := t.b.Mark(t.Context(), sale, wrong); !isOtherRun(err) {
		t.Fatalf("mark with another run id: %v, want ErrOtherRun", err)
	}
	t.wantAbstains(t.a, sale)
	t.mustMark(sale)
	if err := t.b.Mark(t.Context(), sale, wrong); !isOtherRun(err) {
		t.Fatalf("mark with another run id: %v, want ErrOtherRun", err)
	}
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
}

func markMends(t nodeTest) {
	t.mustMark(sale)
	for range 2 {
		for _, marker := range []string{sale, "absent"} {
			if err := t.b.Mark(t.Context(), marker, ""); err != nil {
				t.Fatalf("mark %q without a run id: %v", marker, err)
			}
		}
	}
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	t.wantAbstains(t.a, "absent")
	t.pass(quorum.MaxTTL)
	if err := t.b.Mark(t.Context(), "absent", ""); err != nil {
		t.Fatal(err)
	}
	count, err := t.a.Vote(t.Context(), quorum.Ballot{Marker: "absent", TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "other key", Token: "one"}}})
	if err != nil || count.Abstained || !count.Yes[0] {
		t.Errorf("once the mended marker votes the count is %+v, %v; want a yes", count, err)
	}
}

func readMarkerWritesNothing(t nodeTest) {
	for range 2 { // the first reading left no marker behind
		t.wantMarker(sale, false, time.Time{})
	}
	t.mustMark(sale)
	marked := t.info().Time
	got, err := t.b.ReadMarker(t.Context(), sale)
	if err != nil || !got.Good || got.VotesFrom.After(marked) {
		t.Errorf("a marker of %v that votes at once reads as %+v, %v", marked, got, err)
	}
	count := t.wantAbstains(t.a, "mended")
	t.wantMarker("mended", true, count.VotesFrom)
	if err := t.a.Forget(t.Context(), "mended"); err != nil {
		t.Fatal(err)
	}
	t.wantMarker("mended", false, time.Time{})
}

// wantMarker checks how a marker reads on both handles.
func (t nodeTest) wantMarker(marker string, good bool, votesFrom time.Time) {
	t.Helper()
	for _, n := range []quorum.Node{t.a, t.b} {
		got, err := n.ReadMarker(t.Context(), marker)
		if err != nil || got.Good != good || !got.VotesFrom.Equal(votesFrom) {
			t.Errorf("marker %q reads as %+v, %v; want good: %t, voting from %v", marker, got, err, good, votesFrom)
		}
	}
}

func forget(t nodeTest) {
	t.mustMark(sale)
	t.mustMark("kept")
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	for range 2 {
		if err := t.b.Forget(t.Context(), sale); err != nil {
			t.Fatalf("forget: %v", err)
		}
	}
	if err := t.b.Forget(t.Context(), "never was"); err != nil {
		t.Fatalf("forget what never was: %v", err)
	}
	t.wantHeld("key", "one", "", quorum.MaxTTL) // leases are not the marker's
	t.wantAbstains(t.a, sale)
	count := t.vote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, quorum.LeaseRequest{Key: "free", Token: "one"})
	if count.Yes[0] || count.Yes[1] || count.Holders[0].Token != "one" || count.Holders[1] != (quorum.Holding{}) {
		t.Errorf("the abstaining node's answers for a held and a free key are %+v; want two no, and the holder of the first", count)
	}
	count, err := t.a.Vote(t.Context(), quorum.Ballot{Marker: "kept", TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "other key", Token: "one"}}})
	if err != nil || count.Abstained || !count.Yes[0] {
		t.Errorf("under a marker that was not forgotten the count is %+v, %v; want a yes", count, err)
	}
}

func lostMemory(t nodeTest) {
	t.mustMark(sale)
	run := t.info().RunID
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	t.hands.Lose()
	t.wantAbstains(t.b, sale)
	if now := t.info().RunID; now == run || now == "" {
		t.Errorf("the run id was %q and is %q, want another", run, now)
	}
	if err := t.b.Mark(t.Context(), sale, run); !isOtherRun(err) {
		t.Errorf("mark with the run id of before: %v, want ErrOtherRun", err)
	}
	if err := t.b.Mark(t.Context(), sale, ""); err != nil {
		t.Fatal(err)
	}
	t.wantAbstains(t.a, sale)
	t.pass(quorum.MaxTTL)
	t.wantVote(t.b, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
}

func foreignMarker(t nodeTest) {
	t.mustMark(sale)
	t.mustMark("mended by hand")
	run := t.info().RunID
	t.hands.Restart()
	t.wantMarker(sale, false, time.Time{})
	t.wantAbstains(t.a, sale)
	if err := t.b.Mark(t.Context(), "mended by hand", run); !isOtherRun(err) {
		t.Errorf("mark with the run id of before: %v, want ErrOtherRun", err)
	}
	if err := t.b.Mark(t.Context(), "mended by hand", ""); err != nil {
		t.Fatal(err)
	}
	t.wantAbstains(t.b, "mended by hand")
	t.mustMark(sale)
	t.wantVote(t.b, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
}
