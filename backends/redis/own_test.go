package redis

import (
	"strings"
	"testing"

	"salectl/backends/quorum"
	"salectl/internal/wait"
	"salectl/services"
)

// mustOwn waits until a node votes by a copy of the script that only this run of the
// server has.
func mustOwn(t *testing.T, n pipelinedNode) (own ownVote) {
	t.Helper()
	wait.Until(t, "the server to have a copy", func() bool {
		own = n.pipelined().ownVote(marker)
		return own.sha != ""
	})
	return own
}

// restartBehind restarts a server as if behind a proxy that keeps connections open
// meanwhile: the node goes on with what it knew of the run before.
func restartBehind(t *testing.T, server *services.Redis, n pipelinedNode, knew ownVote) {
	t.Helper()
	mustRestart(t, server)
	wait.Until(t, "the end of the pipeline", func() bool { return n.pipelined() == nil })
	awaitPipeline(t, n.Node)
	w := n.pipelined()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own = map[string]ownVote{marker: knew}
}

func infos(t *testing.T, server *services.Redis) int {
	t.Helper()
	_, after, _ := strings.Cut(do(t, server, "INFO", "commandstats").(string), "cmdstat_info:calls=")
	calls, _, _ := strings.Cut(after, ",")
	n := 0
	for _, digit := range calls {
		n = 10*n + int(digit-'0')
	}
	return n
}

// A server that has lost promises and has the marker votes for nobody, also when it is
// asked over a connection that is older than its run.
func TestOwnVoteAfterRestart(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]func(*testing.T, *services.Redis){
		"nobody else has asked it": func(*testing.T, *services.Redis) {},
		"another process has given it a copy": func(t *testing.T, server *services.Redis) {
			// Of another marker: what it does to this one must not decide.
			n := mustOpen(t, Options{Address: server.Addr()})
			if _, _, err := n.giveOwn(t.Context(), "salectl:another:marker"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mustStart(t, services.RedisOptions{Args: []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}})
			n := mustPipeline(t, server, Options{})
			mustMark(t, n)
			before := mustOwn(t, n)
			if !mustVote(t, n, "one", "salectl:key").Yes[0] {
				t.Fatal("the node does not vote before the restart")
			}
			do(t, server, "DEL", "salectl:key") // as if it had not been saved
			restartBehind(t, server, n, before)
			others(t, server)
			for range 2 {
				if got := mustVote(t, n, "two", "salectl:key"); !got.Abstained || got.Yes[0] {
					t.Fatalf("the vote after the restart is %+v; want that the node abstains", got)
				}
			}
			if after := mustOwn(t, n); after.run == before.run || after.sha == before.sha {
				t.Errorf("the copy is %+v after the restart, and was %+v", after, before)
			}
			if got := mustVote(t, n, "two", "salectl:key"); !got.Abstained {
				t.Errorf("the vote by the new copy is %+v; want that the node abstains", got)
			}
		})
	}
}

// Processes share a copy, which asks for nothing of which the server has to think long,
// and get another when somebody has flushed it.
func TestOwnVoteIsShared(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	a, b := mustPipeline(t, server, Options{}), mustPipeline(t, server, Options{})
	mustMark(t, a)
	own := mustOwn(t, a)
	if other := mustOwn(t, b); other != own {
		t.Errorf("the copies of two processes are %+v and %+v", own, other)
	}
	before := infos(t, server)
	for range 10 {
		if got := mustVote(t, b, "one", "salectl:key"); !got.Yes[0] {
			t.Fatalf("the vote is %+v", got)
		}
	}
	if n := infos(t, server) - before; n > 1 { // one of it is ours
		t.Errorf("the server was asked for INFO %d times in 10 votes", n)
	}
	do(t, server, "SCRIPT", "FLUSH")
	if got := mustVote(t, b, "one", "salectl:key"); !got.Yes[0] {
		t.Fatalf("the vote after the flush is %+v", got)
	}
	again := mustOwn(t, b)
	if again.sha == own.sha || again.run != own.run {
		t.Errorf("after a flush of the scripts the copy is %+v, and was %+v", again, own)
	}
	if r := <-b.send(quorum.Call{Timeout: long, Vote: &quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL,
		Asks: []quorum.Ask{{Key: "salectl:key", Token: "one"}}}}); r.Err != nil || !r.Ballot.Yes[0] {
		t.Errorf("the vote by the new copy is %+v", r)
	}
}

// A process gives a server a copy in the background, so that it may come after destroy.
func TestOwnVoteWritesNoMarker(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	n := mustOpen(t, Options{Address: server.Addr()})
	if run, _, err := n.giveOwn(t.Context(), marker); err != nil || run == "" {
		t.Fatalf("the copy was given in the run %q, %v", run, err)
	}
	if got, err := n.ReadMarker(t.Context(), marker); err != nil || got.Good {
		t.Errorf("then the marker reads as %+v, %v; want none", got, err)
	}
}
