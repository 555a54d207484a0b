package embedded

import (
	"errors"
	"testing"
	"time"

	"salectl/backends/quorum"
)

func TestVoteNeedsATTL(t *testing.T) {
	node := mustOpenNode(t, t.TempDir(), time.Now)
	for _, ttl := range []time.Duration{0, -time.Second, quorum.MaxTTL + 1} {
		_, err := node.Vote(t.Context(), quorum.Ballot{Marker: "marker", TTL: ttl, Requests: []quorum.LeaseRequest{{Key: "key", Token: "one"}}})
		if err == nil {
			t.Errorf("a ballot with a ttl of %v was taken", ttl)
		}
	}
}

// A wall clock that is set back must not keep a key, or the node's vote, for
// as long as the jump.
func TestWallClockSetBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	node := mustOpenNode(t, t.TempDir(), func() time.Time { return now })
	info, err := node.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vote := func(marker, token string) quorum.BallotReply {
		t.Helper()
		count, err := node.Vote(t.Context(), quorum.Ballot{Marker: marker, TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "key", Token: token}}})
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	if err := errors.Join(node.Mark(t.Context(), "good", info.RunID), node.Mark(t.Context(), "mended", "")); err != nil {
		t.Fatal(err)
	}
	if !vote("good", "one").Yes[0] {
		t.Fatal("a free key was not granted")
	}

	now = now.Add(-time.Hour)
	for _, marker := range []string{"good", "mended"} {
		if count := vote(marker, "two"); count.Yes[0] || count.Holders[0].Left > quorum.MaxTTL || count.VotesFrom.After(now.Add(quorum.MaxTTL)) {
			t.Errorf("just after the jump the count under the marker %q is %+v", marker, count)
		}
	}
	now = now.Add(quorum.MaxTTL)
	for _, marker := range []string{"mended", "good"} {
		if count := vote(marker, "two"); !count.Yes[0] {
			t.Errorf("the longest ttl after the jump the count under the marker %q is %+v; want a yes", marker, count)
		}
	}
}

// Two processes that read a node before it exists predict two run ids; the second writer gets
// an error.
func TestTwoFirstWriters(t *testing.T) {
	dir := t.TempDir()
	a, b := mustOpenNode(t, dir, time.Now), mustOpenNode(t, dir, time.Now)
	infoA, errA := a.Info(t.Context())
	infoB, errB := b.Info(t.Context())
	if err := errors.Join(errA, errB, a.Mark(t.Context(), "marker", infoA.RunID)); err != nil {
		t.Fatal(err)
	}
	if err := b.Mark(t.Context(), "marker", infoB.RunID); !errors.Is(err, quorum.ErrOtherRun) {
		t.Errorf("mark with a run id that did not come true: %v, want ErrOtherRun", err)
	}
	now, err := b.Info(t.Context())
	if err != nil || now.RunID != infoA.RunID {
		t.Errorf("the second handle sees the run %q, %v; want %q", now.RunID, err, infoA.RunID)
	}
	if err := b.Mark(t.Context(), "marker", now.RunID); err != nil {
		t.Error(err)
	}
}
