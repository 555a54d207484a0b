package redis

import (
	"cmp"
	"context"
	"flag"
	"io"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// Close must leave no goroutine; every test closes what it opens.
func TestMain(m *testing.M) {
	if nodes := os.Getenv(contenderNodes); nodes != "" {
		os.Exit(contend(nodes))
	}
	// Most of these tests wait for servers and for leases to expire, so more can run than
	// there are processors; -parallel overrides it.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// A proxy with a fault in it does not end all of its own.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}

// long is how long the tests wait for what must happen at some time.
const long = wait.Limit

// mustStart starts a server that the test's end stops.
func mustStart(t testing.TB, o services.RedisOptions) *services.Redis {
	t.Helper()
	o.Dir = t.TempDir()
	server, err := services.StartRedis(t.Context(), o)
	services.Require(t, err)
	t.Cleanup(server.Stop)
	return server
}

// mustRestart kills a server and starts it again, from what is on its disk.
func mustRestart(t testing.TB, server *services.Redis) {
	t.Helper()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// mustOpen opens a handle that the test's end closes. A step of its calls takes as
// long as a busy machine needs, so that a call that returns earlier does so for
// another reason.
func mustOpen(t testing.TB, o Options) *Node {
	t.Helper()
	o.patience = cmp.Or(o.patience, long)
	node, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, node)
	return node
}

func closeLater(t testing.TB, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// mustServe starts a plain server and opens a handle on it.
func mustServe(t testing.TB, args ...string) (*Node, *services.Redis) {
	t.Helper()
	server := mustStart(t, services.RedisOptions{Args: args})
	return mustOpen(t, Options{Address: server.Addr()}), server
}

// client is the hands of an operator, or of another program, on a server.
func client(t testing.TB, server *services.Redis) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr(), Protocol: 2})
	closeLater(t, c)
	return c
}

// do makes a server do something as redis-cli would.
func do(t testing.TB, server *services.Redis, args ...any) any {
	t.Helper()
	value, err := client(t, server).Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return value
}

// pttl returns how long a key has, in milliseconds; -1 for ever, -2 if it is
// not there.
func pttl(t testing.TB, server *services.Redis, key string) int64 {
	t.Helper()
	return do(t, server, "PTTL", key).(int64)
}

const marker = "salectl:test:marker"

func mustMark(t testing.TB, n quorum.Node) quorum.Info {
	t.Helper()
	info, err := n.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Mark(t.Context(), marker, info.RunID); err != nil {
		t.Fatal(err)
	}
	return info
}

// vote requests keys under one token, for the longest ttl.
func vote(ctx context.Context, n quorum.Node, token string, keys ...string) (quorum.BallotReply, error) {
	b := quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL}
	for _, key := range keys {
		b.Requests = append(b.Requests, quorum.LeaseRequest{Key: key, Token: token, Note: "note of " + token})
	}
	return n.Vote(ctx, b)
}

func mustVote(t testing.TB, n quorum.Node, token string, keys ...string) quorum.BallotReply {
	t.Helper()
	count, err := vote(t.Context(), n, token, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func mustRelease(t testing.TB, n quorum.Node, token, key string) {
	t.Helper()
	if freed, err := n.Release(t.Context(), []quorum.LeaseRequest{{Key: key, Token: token}}); err != nil || freed != 1 {
		t.Fatalf("release: %d, %v; want 1", freed, err)
	}
}

// awaitCalls waits until no call of a node is under way, and returns how long that took.
func awaitCalls(n *Node) time.Duration {
	begin := time.Now()
	n.calls.Lock()
	defer n.calls.Unlock()
	return time.Since(begin)
}
