package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/wait"
)

// A client that died between SETNX and EXPIRE must not keep its key for ever,
// nor one that was promised before the clock was set back for as long as that.
func TestLeaseWithoutEnd(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	do(t, server, "SET", "salectl:endless", "crashed 10.0.0.7 1")
	do(t, server, "SET", "salectl:far", "crashed", "PX", time.Hour.Milliseconds())
	for _, key := range []string{"salectl:endless", "salectl:far"} {
		count := mustVote(t, n, "token", key)
		h := count.Holders[0]
		if count.Yes[0] || h.Token != "crashed" || h.Left <= 0 || h.Left > quorum.MaxTTL || count.Repaired != 1 {
			t.Errorf("%s: the count is %+v; want a no, held by token crashed for at most %v, and one repaired", key, count, quorum.MaxTTL)
		}
		if left := pttl(t, server, key); left <= 0 || left > quorum.MaxTTL.Milliseconds() {
			t.Errorf("%s has %d ms left; want to the longest ttl at most", key, left)
		}
	}
	if count := mustVote(t, n, "token", "salectl:endless", "salectl:far"); count.Holders[0].Note != "10.0.0.7 1" || count.Repaired != 0 {
		t.Errorf("at the second request, the count is %+v; want the text after the token as note, and no repair", count)
	}
	do(t, server, "PERSIST", "salectl:endless")
	do(t, server, "PERSIST", "salectl:far")
	if count := mustVote(t, n, "token", "salectl:endless", "salectl:far", "salectl:free"); count.Repaired != 2 || !count.Yes[2] {
		t.Errorf("the count is %+v, want two repaired and the third granted", count)
	}
	do(t, server, "SET", "salectl:endless", "crashed")
	renewed, err := n.Vote(t.Context(), quorum.Ballot{Marker: marker, TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "salectl:endless", Token: "crashed", Renew: true}}})
	if left := pttl(t, server, "salectl:endless"); err != nil || !renewed.Yes[0] || left <= 0 || left > quorum.MinTTL.Milliseconds() {
		t.Errorf("renewed by its own token: %+v, %v, %d ms left; want a yes for the requested ttl", renewed, err, left)
	}
}

// A marker that a vote wrote goes an hour after it was used, or half an hour: to
// extend it costs something, so that not every vote does. One that apply wrote
// stays, for a sale that opens in a week.
func TestMarkerEnds(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	run := mustMark(t, n).RunID
	voteUnder := func(t *testing.T, marker string) {
		b := quorum.Ballot{Marker: marker, TTL: quorum.MinTTL}
		if _, err := n.Vote(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	mark := func(t *testing.T, marker, run string) {
		if err := n.Mark(t.Context(), marker, run); err != nil {
			t.Fatal(err)
		}
	}
	// age makes a marker that a vote wrote older, until it has no more than left.
	age := func(t *testing.T, marker string, left time.Duration) {
		info, err := n.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		do(t, server, "HSET", marker, "kept_until", info.Time.Add(left).UnixMicro())
		do(t, server, "PEXPIRE", marker, left.Milliseconds())
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, marker string)
		want time.Duration // 0: for ever
	}{
		"vote": {voteUnder, time.Hour},
		"vote on one that is about to go": {func(t *testing.T, marker string) {
			voteUnder(t, marker)
			age(t, marker, 29*time.Minute)
			voteUnder(t, marker)
		}, time.Hour},
		"vote on one that stays for long": {func(t *testing.T, marker string) {
			voteUnder(t, marker)
			age(t, marker, 40*time.Minute)
			voteUnder(t, marker)
		}, 40 * time.Minute},
		"vote on one that a vote of a run ago wrote": {func(t *testing.T, marker string) {
			voteUnder(t, marker)
			age(t, marker, time.Minute)
			do(t, server, "HSET", marker, "run_id", "another")
			voteUnder(t, marker)
		}, time.Hour},
		"mark":                          {func(t *testing.T, marker string) { mark(t, marker, run) }, 0},
		"mark without run id":           {func(t *testing.T, marker string) { mark(t, marker, "") }, 0},
		"mark on one that a vote wrote": {func(t *testing.T, marker string) { voteUnder(t, marker); mark(t, marker, run) }, 0},
		"mend of one that a vote wrote": {func(t *testing.T, marker string) { voteUnder(t, marker); mark(t, marker, "") }, 0},
		"vote on a marked one":          {func(t *testing.T, marker string) { mark(t, marker, run); voteUnder(t, marker) }, 0},
		"vote on one marked after a vote": {func(t *testing.T, marker string) {
			voteUnder(t, marker)
			age(t, marker, time.Minute)
			mark(t, marker, run)
			voteUnder(t, marker)
		}, 0},
		"vote on one marked in a run ago": {func(t *testing.T, marker string) {
			mark(t, marker, run)
			do(t, server, "HSET", marker, "run_id", "ab12")
			voteUnder(t, marker)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			test.do(t, name)
			left := pttl(t, server, name)
			if want := test.want.Milliseconds(); want > 0 && (left <= want-60_000 || left > want) {
				t.Errorf("the marker has %d ms left, want %d", left, want)
			} else if want == 0 && left != -1 {
				t.Errorf("the marker has %d ms left, want no end", left)
			}
		})
	}
}

// A clock that was set back must not silence a node for as long as the jump.
func TestMarkerFromTheFuture(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	info := mustMark(t, n)
	do(t, server, "HSET", marker, "votes_from", info.Time.Add(time.Hour).UnixMicro())
	count := mustVote(t, n, "one", "salectl:key")
	if !count.Abstained || !count.VotesFrom.Equal(count.Time.Add(quorum.MaxTTL)) {
		t.Errorf("the count is %+v; want it to abstain for %v", count, quorum.MaxTTL)
	}
}

// FLUSHALL leaves the run id as it is, but not the marker.
func TestFlushedAbstains(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	if !mustVote(t, n, "one", "salectl:key").Yes[0] {
		t.Fatal("a free key was not granted")
	}
	do(t, server, "FLUSHALL")
	first := mustVote(t, n, "two", "salectl:key")
	if !first.Abstained || first.VotesFrom.Before(first.Time.Add(quorum.MaxTTL)) {
		t.Fatalf("flushed, the count is %+v; want it to abstain for %v", first, quorum.MaxTTL)
	}
	wait.Until(t, "the node to vote", func() bool {
		count := mustVote(t, n, "two", "salectl:key")
		if count.Yes[0] != !count.Time.Before(first.VotesFrom) || count.Abstained == count.Yes[0] {
			t.Fatalf("the count is %+v; want a yes from %v, an abstention before", count, first.VotesFrom)
		}
		return count.Yes[0]
	})
}

// A replica that takes over has the leases that reached it and its master's
// marker: it may have missed others.
func TestFailoverAbstains(t *testing.T) {
	t.Parallel()
	master, masterServer := mustServe(t)
	replica, replicaServer := mustServe(t)
	mustMark(t, master)
	if !mustVote(t, master, "one", "salectl:key").Yes[0] {
		t.Fatal("a free key was not granted")
	}
	host, port := hostPort(t, masterServer)
	do(t, replicaServer, "REPLICAOF", host, port)
	wait.Until(t, "the replica to have the lease", func() bool { return pttl(t, replicaServer, "salectl:key") > 0 })
	if _, err := vote(t.Context(), replica, "two", "salectl:other"); !errors.Is(err, ErrReplica) {
		t.Errorf("a vote of a replica: %v, want ErrReplica", err)
	}
	if got, err := replica.ReadMarker(t.Context(), marker); err != nil || got.Good {
		t.Errorf("the master's marker reads as %+v, %v on its replica; want not good", got, err)
	}
	do(t, replicaServer, "REPLICAOF", "NO", "ONE")
	count := mustVote(t, replica, "two", "salectl:other", "salectl:key")
	if !count.Abstained || count.Yes[0] || count.Holders[1].Token != "one" {
		t.Errorf("after the failover the count is %+v; want it to abstain, and the lease that it has", count)
	}
}

// Waiters expire some seconds after the last request.
func TestWaitersAreForgotten(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	mustVote(t, n, "one", "salectl:key")
	request := quorum.LeaseRequest{Key: "salectl:key", Token: "two", Waiter: "waiter", Waited: time.Hour}
	if _, err := n.Vote(t.Context(), quorum.Ballot{Marker: marker, TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{request}}); err != nil {
		t.Fatal(err)
	}
	if left := pttl(t, server, "salectl:key:waiting"); left <= 0 || left > quorum.MaxTTL.Milliseconds() {
		t.Errorf("the list of those who wait has %d ms left, want at most the longest ttl", left)
	}
}

// Watch must not seem to watch when its connection is gone.
func TestWatchEndsWithItsServer(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() { ended <- n.Watch(t.Context(), "salectl:key", "waiter", func() { begun <- struct{}{} }) }()
	<-begun
	mustRestart(t, server)
	if err := <-ended; !errors.Is(err, ErrHungUp) {
		t.Errorf("the server has restarted, and watch ends with %v; want ErrHungUp", err)
	}
}

// A server that accepts connections and sends nothing must not delay the end of a canceled
// Watch.
func TestWatchEndsWhileItConnects(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n := mustOpen(t, Options{Address: silent.Addr().String()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- n.Watch(ctx, "salectl:key", "waiter", func() {}) }()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v, want that of its context", err)
		}
	case <-time.After(soon):
		t.Errorf("watch still connects %v after the end of its context", soon)
	}
}

func TestListOfManyKeys(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	var want []string
	for i := range 2 * page {
		want = append(want, fmt.Sprintf("salectl:uid:shard:%d", i))
	}
	if count := mustVote(t, n, "one", want...); slices.Contains(count.Yes, false) {
		t.Fatal("a vote for a free key is no")
	}
	slices.Sort(want)
	// Beside them, what has the prefix but is no lease, and what a pattern
	// would take for it.
	do(t, server, "RPUSH", "salectl:uid:shard:list", "not a lease")
	do(t, server, "SET", "salectl:uid:shardX", "not below the prefix")
	do(t, server, "SET", "salectl:*:shard:0", "one")
	do(t, server, "SET", "endless", "one note")

	found, err := n.List(t.Context(), "salectl:uid:shard:")
	var got []string
	for _, h := range found {
		got = append(got, h.Key)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("list finds %d keys, %v; want %d in order", len(got), err, len(want))
	}
	if found, err = n.List(t.Context(), "salectl:*:"); err != nil || len(found) != 1 {
		t.Errorf("list of a prefix with a star in it: %+v, %v; want the one key", found, err)
	}
	if found, err = n.List(t.Context(), "endless"); err != nil || len(found) != 1 || found[0].Left != quorum.MaxTTL {
		t.Errorf("list of a lease without end: %+v, %v; want %v left", found, err, quorum.MaxTTL)
	}
}

func TestBadTokens(t *testing.T) {
	t.Parallel()
	n, _ := mustServe(t)
	mustMark(t, n)
	for _, token := range []string{"", "two words", " "} {
		if count, err := vote(t.Context(), n, token, "salectl:key"); err == nil {
			t.Errorf("the token %q was taken: %+v", token, count)
		}
	}
}
