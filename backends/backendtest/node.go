package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/wait"
)

// Hands are what a suite can do to a node under test apart from calling it. A
// promise that needs a hand that is nil is not tested.
type Hands struct {
	// Advance moves the node's clock on. Nil: the suite waits until the node's
	// own time has passed.
	Advance func(time.Duration)
	// Lose makes the node lose its memory and come back with another run id.
	Lose func()
	// Restart brings the node back with another run id and all its memory.
	Restart func()
	// Fill adds member-0 and so on to a registry, as many as it takes. Nil: the suite
	// calls Announce for each, before the first expires.
	Fill func(registry string)
}

// nodeTest is one subtest's node, through two handles.
type nodeTest struct {
	*testing.T
	a, b  quorum.Node
	hands Hands
}

// TestNode holds a backend to every promise of quorum.Node. open returns two
// independent handles on one new node with no memory; it closes them with
// t.Cleanup. Where Advance is nil the suite takes about a minute, and less if
// open calls t.Parallel.
func TestNode(t *testing.T, open func(*testing.T) (a, b quorum.Node, hands Hands)) {
	for _, test := range []struct {
		promise string
		check   func(nodeTest)
		needs   func(Hands) bool
	}{
		{promise: "OneHolder", check: oneHolder},
		{promise: "OneWinnerOfARace", check: oneWinnerOfARace},
		{promise: "GrantedAgainToItsToken", check: grantedAgain},
		{promise: "RunsOut", check: runsOut},
		{promise: "RenewExtends", check: renewExtends},
		{promise: "RenewNeverTakes", check: renewNeverTakes},
		{promise: "TTLHasBounds", check: ttlHasBounds},
		{promise: "ReleaseComparesTokens", check: releaseComparesTokens},
		{promise: "ReleaseComparesNotes", check: releaseComparesNotes},
		{promise: "WatchNamesWhoIsNext", check: watchNames},
		{promise: "WaitersLeaveTheList", check: waitersLeave},
		{promise: "HandsOverByName", check: handsOver},
		{promise: "HandsOverForAWhile", check: handsOverForAWhile},
		{promise: "WaitsUnlisted", check: waitsUnlisted},
		{promise: "ReportsNoWaiters", check: reportsNoWaiters},
		{promise: "AnnouncesPresence", check: announcesPresence},
		{promise: "MembersRunOut", check: membersRunOut},
		{promise: "RegistryHasBounds", check: registryHasBounds},
		{promise: "RegistryIsFull", check: registryIsFull},
		{promise: "AnnouncesInARace", check: announcesInARace},
		{promise: "RegistryIsLost", check: registryIsLost, needs: func(h Hands) bool { return h.Lose != nil }},
		{promise: "ManyRequestsInOneBallot", check: manyRequests},
		{promise: "ListInOrder", check: listInOrder},
		{promise: "AbstainsWithoutMarker", check: abstains},
		{promise: "MarkWithRunIDVotesAtOnce", check: markVotes},
		{promise: "MarkWithOtherRunIDIsRefused", check: markOtherRun},
		{promise: "MarkWithoutRunIDMends", check: markMends},
		{promise: "ReadMarkerWritesNothing", check: readMarkerWritesNothing},
		{promise: "Forget", check: forget},
		{promise: "EndedContext", check: nodeEndedContext},
		{promise: "LostMemory", check: lostMemory, needs: func(h Hands) bool { return h.Lose != nil }},
		{promise: "ForeignMarker", check: foreignMarker, needs: func(h Hands) bool { return h.Restart != nil }},
	} {
		t.Run(test.promise, func(t *testing.T) {
			a, b, hands := open(t)
			if test.needs == nil || test.needs(hands) {
				test.check(nodeTest{T: t, a: a, b: b, hands: hands})
			}
		})
	}
}

const sale = "salectl:suite:marker"

// mustMark makes the node vote for the marker at once.
func (t nodeTest) mustMark(marker string) {
	t.Helper()
	if err := t.a.Mark(t.Context(), marker, t.info().RunID); err != nil {
		t.Fatalf("mark with the node's own run id: %v", err)
	}
}

func (t nodeTest) info() quorum.Info {
	t.Helper()
	info, err := t.a.Info(t.Context())
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	return info
}

// pass lets time go by on the node's clock. Where it cannot be moved it waits a
// little longer: a node that counts in whole milliseconds may forget that late.
func (t nodeTest) pass(d time.Duration) {
	t.Helper()
	if t.hands.Advance != nil {
		t.hands.Advance(d)
		return
	}
	begin := t.info().Time
	wait.UntilNil(t.T, "the node's clock", func() error {
		if passed := t.info().Time.Sub(begin); passed <= d+time.Millisecond {
			return fmt.Errorf("the node's clock has gone on by %v, want more than %v", passed, d+time.Millisecond)
		}
		return nil
	})
}

func (t nodeTest) vote(n quorum.Node, ttl time.Duration, requests ...quorum.LeaseRequest) quorum.BallotReply {
	t.Helper()
	count, err := n.Vote(t.Context(), quorum.Ballot{Marker: sale, TTL: ttl, Requests: requests})
	if err != nil {
		t.Fatalf("vote: %v", err)
	}
	if len(count.Yes) != len(requests) || len(count.Holders) != len(requests) {
		t.Fatalf("%d requests got %d answers and %d holders", len(requests), len(count.Yes), len(count.Holders))
	}
	if count.Time.IsZero() {
		t.Fatal("the reply has no time of the vote")
	}
	return count
}

// wantVote sends a ballot with one request and checks the answer.
func (t nodeTest) wantVote(n quorum.Node, ttl time.Duration, request quorum.LeaseRequest, want bool) quorum.Holding {
	t.Helper()
	count := t.vote(n, ttl, request)
	if count.Abstained {
		t.Fatalf("the node abstained until %v, at %v", count.VotesFrom, count.Time)
	}
	if count.Yes[0] != want {
		t.Fatalf("the vote for %+v is %t, want %t; the holder is %+v", request, count.Yes[0], want, count.Holders[0])
	}
	return count.Holders[0]
}

func (t nodeTest) wantHeld(key, token, note string, most time.Duration) {
	t.Helper()
	found, err := t.b.List(t.Context(), key)
	if err != nil || len(found) != 1 {
		t.Fatalf("list %q: %+v, %v; want one lease", key, found, err)
	}
	h := found[0]
	if h.Key != key || h.Token != token || h.Note != note || h.Left <= 0 || h.Left > most {
		t.Errorf("list %q: %+v; want token %q, note %q, at most %v left", key, h, token, note, most)
	}
}

func oneHolder(t nodeTest) {
	t.mustMark(sale)
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one", Note: "address one"}, true)
	t.wantHeld("key", "one", "address one", quorum.MaxTTL)
	for _, n := range []quorum.Node{t.a, t.b} {
		holder := t.wantVote(n, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, false)
		if holder.Key != "key" || holder.Token != "one" || holder.Note != "address one" || holder.Left <= 0 || holder.Left > quorum.MaxTTL {
			t.Errorf("the holder is %+v, want token one with its note and time left", holder)
		}
	}
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key2", Token: "two"}, true)
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "ke", Token: "two"}, true)
	t.wantHeld("key2", "two", "", quorum.MaxTTL)
}

func oneWinnerOfARace(t nodeTest) {
	t.mustMark(sale)
	for round := range 10 {
		var won atomic.Int32
		var racers []func()
		for i := range 8 {
			n := []quorum.Node{t.a, t.b}[i%2]
			request := quorum.LeaseRequest{Key: fmt.Sprint("key ", round), Token: fmt.Sprint("token-", i)}
			racers = append(racers, func() {
				count, err := n.Vote(t.Context(), quorum.Ballot{Marker: sale, TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{request}})
				if err != nil {
					t.Errorf("vote: %v", err)
				} else if count.Yes[0] {
					won.Add(1)
				}
			})
		}
		race(racers...)
		if won.Load() != 1 {
			t.Fatalf("%d of 8 won the key of round %d, want 1", won.Load(), round)
		}
	}
}

func grantedAgain(t nodeTest) {
	t.mustMark(sale)
	request := quorum.LeaseRequest{Key: "key", Token: "one"}
	t.wantVote(t.a, quorum.MinTTL, request, true)
	request.Note = "repeated"
	t.wantVote(t.b, quorum.MaxTTL, request, true)
	t.wantHeld("key", "one", "repeated", quorum.MaxTTL)
	t.pass(quorum.MinTTL)
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, false)
}

func runsOut(t nodeTest) {
	t.mustMark(sale)
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	t.pass(quorum.MinTTL)
	if found, err := t.b.List(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("list finds %+v, %v; want nothing, it has run out", found, err)
	}
	if n, err := t.a.Release(t.Context(), []quorum.LeaseRequest{{Key: "key", Token: "one"}}); err != nil || n != 0 {
		t.Errorf("%d released, %v; want 0, it has run out", n, err)
	}
	t.wantVote(t.b, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
	t.wantHeld("key", "two", "", quorum.MinTTL)
}

func renewExtends(t nodeTest) {
	t.mustMark(sale)
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one", Note: "beat 1"}, true)
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one", Note: "beat 2", Renew: true}, true)
	t.wantHeld("key", "one", "beat 2", quorum.MaxTTL)
	t.pass(quorum.MinTTL)
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, false)
	t.wantHeld("key", "one", "beat 2", quorum.MaxTTL-quorum.MinTTL)
}

func renewNeverTakes(t nodeTest) {
	t.mustMark(sale)
	renew := quorum.LeaseRequest{Key: "key", Token: "one", Renew: true}
	if holder := t.wantVote(t.a, quorum.MinTTL, renew, false); holder != (quorum.Holding{}) {
		t.Errorf("nobody has the key, but the holder is %+v", holder)
	}
	t.wantVote(t.a, quorum.MinTTL, quorum.LeaseRequest{Key: "key", Token: "one"}, true)
	t.pass(quorum.MinTTL)
	t.wantVote(t.a, quorum.MinTTL, renew, false)
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
	if holder := t.wantVote(t.a, quorum.MaxTTL, renew, false); holder.Token != "two" {
		t.Errorf("the holder is %+v, want token two", holder)
	}
	t.wantHeld("key", "two", "", quorum.MaxTTL)
}

// A promise that lasts longer than quorum.MaxTTL would outlast the silence of a
// node that lost its memory.
func ttlHasBounds(t nodeTest) {
	t.mustMark(sale)
	for _, ttl := range []time.Duration{-time.Second, 0, quorum.MaxTTL + 1} {
		requests := []quorum.LeaseRequest{{Key: "key", Token: "one"}}
		if count, err := t.a.Vote(t.Context(), quorum.Ballot{Marker: sale, TTL: ttl, Requests: requests}); err == nil {
			t.Errorf("a ballot with a ttl of %v was answered %+v", ttl, count)
		}
	}
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
}

func releaseComparesTokens(t nodeTest) {
	t.mustMark(sale)
	one := []quorum.LeaseRequest{{Key: "key 1", Token: "one"}, {Key: "key 2", Token: "one"}, {Key: "key 3", Token: "one"}}
	t.vote(t.a, quorum.MaxTTL, one...)
	two := []quorum.LeaseRequest{{Key: "key 1", Token: "two"}, {Key: "key 2", Token: "two"}, {Key: "key 4", Token: "two"}}
	for _, step := range []struct {
		requests []quorum.LeaseRequest
		want     int
	}{{two, 0}, {one[:2], 2}, {one, 1}, {one, 0}, {nil, 0}} {
		if n, err := t.b.Release(t.Context(), step.requests); err != nil || n != step.want {
			t.Errorf("release of %+v: %d, %v; want %d", step.requests, n, err, step.want)
		}
	}
	if count := t.vote(t.b, quorum.MaxTTL, two...); slices.Contains(count.Yes, false) {
		t.Errorf("votes after the release are %v, want all yes", count.Yes)
	}
}

func manyRequests(t nodeTest) {
	t.mustMark(sale)
	const n = 1024
	first, second := make([]quorum.LeaseRequest, n/2), make([]quorum.LeaseRequest, n)
	for i := range second {
		second[i] = quorum.LeaseRequest{Key: fmt.Sprintf("shard:%d", i), Token: "two"}
		if i%2 == 0 {
			first[i/2] = quorum.LeaseRequest{Key: second[i].Key, Token: "one"}
		}
	}
	if count := t.vote(t.a, quorum.MaxTTL, first...); slices.Contains(count.Yes, false) {
		t.Fatal("a vote for a free key is no")
	}
	count := t.vote(t.b, quorum.MaxTTL, second...)
	for i, yes := range count.Yes {
		if held := i%2 == 0; yes == held || (held && count.Holders[i].Token != "one") {
			t.Fatalf("request %d of one ballot: yes is %t, the holder %+v; held by one: %t", i, yes, count.Holders[i], held)
		}
	}
	if freed, err := t.a.Release(t.Context(), second); err != nil || freed != n/2 {
		t.Errorf("%d released, %v; want %d", freed, err, n/2)
	}
	t.vote(t.a, quorum.MaxTTL) // no requests, no answers
}

func listInOrder(t nodeTest) {
	t.mustMark(sale)
	var want []string
	for _, key := range []string{"b:10", "b:2", "b:", "b", "a:1", "c", "b:é", "b:%", "b:_", "B:1", "b:1"} {
		t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: key, Token: "token-of-" + key, Note: "note of " + key}, true)
		if strings.HasPrefix(key, "b:") {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	found, err := t.b.List(t.Context(), "b:")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range found {
		got = append(got, h.Key)
		if h.Token != "token-of-"+h.Key || h.Note != "note of "+h.Key || h.Left <= 0 || h.Left > quorum.MaxTTL {
			t.Errorf("list finds %+v", h)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("list of b: finds %q, want %q", got, want)
	}
	if found, err := t.b.List(t.Context(), "nobody"); err != nil || len(found) != 0 {
		t.Errorf("list of a prefix that no key has: %+v, %v", found, err)
	}
}

func nodeEndedContext(t nodeTest) {
	t.mustMark(sale)
	request := quorum.LeaseRequest{Key: "key", Token: "one"}
	for _, n := range []quorum.Node{t.a, t.b} {
		within(t.T, "Info", func(ctx context.Context) { n.Info(ctx) })
		within(t.T, "Mark", func(ctx context.Context) { n.Mark(ctx, "other", "") })
		within(t.T, "Vote", func(ctx context.Context) {
			n.Vote(ctx, quorum.Ballot{Marker: sale, TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{request}})
		})
		within(t.T, "Release", func(ctx context.Context) { n.Release(ctx, []quorum.LeaseRequest{request}) })
		within(t.T, "List", func(ctx context.Context) { n.List(ctx, "") })
		within(t.T, "ReadMarker", func(ctx context.Context) { n.ReadMarker(ctx, sale) })
		within(t.T, "Forget", func(ctx context.Context) { n.Forget(ctx, "other") })
		within(t.T, "Announce", func(ctx context.Context) { n.Announce(ctx, registry, quorum.Member{ID: "one"}, quorum.MinTTL) })
	}
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "another", Token: "two"}, true)
}

// wantAbstains votes for one key and checks that the node abstains for the
// time that it must.
func (t nodeTest) wantAbstains(n quorum.Node, marker string) quorum.BallotReply {
	t.Helper()
	count, err := n.Vote(t.Context(), quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{{Key: "key of " + marker, Token: "one"}}})
	switch {
	case err != nil:
		t.Fatalf("vote: %v", err)
	case !count.Abstained || len(count.Yes) != 1 || count.Yes[0] || len(count.Holders) != 1:
		t.Fatalf("the count is %+v; want an abstention with one no", count)
	case !count.VotesFrom.After(count.Time) || count.VotesFrom.After(count.Time.Add(quorum.MaxTTL)):
		t.Fatalf("at %v the node abstains until %v; want at most %v from then", count.Time, count.VotesFrom, quorum.MaxTTL)
	}
	return count
}

func isOtherRun(err error) bool { return errors.Is(err, quorum.ErrOtherRun) }
