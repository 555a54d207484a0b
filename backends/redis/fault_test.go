package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// soon is how long a call may take to return once its context has ended. It is
// well below long, after which calls return by themselves.
const soon = long / 2

// mustProxy puts a proxy before a server, and opens a handle on it.
func mustProxy(t *testing.T) (*Node, *toxiproxy.Proxy, *services.Redis) {
	t.Helper()
	server := mustStart(t, services.RedisOptions{})
	proxy := mustProxyTo(t, server)
	return mustOpen(t, Options{Address: proxy.Listen}), proxy, server
}

func mustProxyTo(t *testing.T, server *services.Redis) *toxiproxy.Proxy {
	t.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(api, t.Name(), scripts.FreeAddress(t), server.Addr())
	scripts.Listen(t, proxy.Start)
	t.Cleanup(proxy.Stop)
	return proxy
}

// poison makes what flows in a direction suffer.
func poison(t *testing.T, p *toxiproxy.Proxy, kind, direction, attributes string) {
	t.Helper()
	if err := addToxic(p, kind, direction, attributes); err != nil {
		t.Fatal(err)
	}
}

func addToxic(p *toxiproxy.Proxy, kind, direction, attributes string) error {
	toxic := fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":{%s}}`, kind, direction, attributes)
	_, err := p.Toxics.AddToxicJson(strings.NewReader(toxic))
	return err
}

// scriptsRun returns the number of requests to a server to run a script.
func scriptsRun(t *testing.T, server *services.Redis) string {
	t.Helper()
	stats := do(t, server, "INFO", "commandstats").(string)
	return strings.Join(regexp.MustCompile(`cmdstat_eval(sha)?:calls=\d+`).FindAllString(stats, -1), " ")
}

// A vote whose answer is lost was granted, and is granted again to its token. It is sent
// once: the caller decides about a retry.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		toxic, attributes string
		want              error
	}{
		"reset":   {"reset_peer", `"timeout":0`, ErrHungUp},
		"hung up": {"limit_data", `"bytes":1`, ErrHungUp},
		"silence": {"timeout", `"timeout":0`, ErrSilent},
	} {
		t.Run(name, func(t *testing.T) {
			n, proxy, server := mustProxy(t)
			mustMark(t, n)
			mustVote(t, n, "one", "salectl:before") // the server knows the script from here on
			do(t, server, "CONFIG", "RESETSTAT")

			poison(t, proxy, test.toxic, "downstream", test.attributes)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if count, err := vote(ctx, n, "one", "salectl:key"); !errors.Is(err, test.want) {
				t.Errorf("a vote whose answer is lost: %+v, %v; want %v", count, err, test.want)
			}
			if got, want := scriptsRun(t, server), "cmdstat_evalsha:calls=1"; got != want {
				t.Errorf("the server has run %s, want %s", got, want)
			}
			if left := pttl(t, server, "salectl:key"); left <= 0 {
				t.Errorf("the key has %d ms left; it was to be granted", left)
			}

			proxy.Toxics.ResetToxics(t.Context())
			if !mustVote(t, n, "one", "salectl:key").Yes[0] {
				t.Error("at the second request, the node refused the token that has the key")
			}
			if mustVote(t, n, "two", "salectl:key").Yes[0] {
				t.Error("the node granted the key to another token")
			}
		})
	}
}

func TestLostRequest(t *testing.T) {
	t.Parallel()
	n, proxy, server := mustProxy(t)
	mustMark(t, n)
	poison(t, proxy, "timeout", "upstream", `"timeout":0`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if count, err := vote(ctx, n, "one", "salectl:key"); !errors.Is(err, ErrSilent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a vote that does not arrive: %+v, %v; want ErrSilent", count, err)
	}
	proxy.Toxics.ResetToxics(t.Context())
	if left := pttl(t, server, "salectl:key"); left != -2 {
		t.Errorf("the key has %d ms left; nobody was to be granted it", left)
	}
	if !mustVote(t, n, "two", "salectl:key").Yes[0] {
		t.Error("a free key was not granted")
	}
}

func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	n, proxy, _ := mustProxy(t)
	mustMark(t, n)
	poison(t, proxy, "latency", "downstream", `"latency":200`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if count, err := vote(ctx, n, "one", "salectl:key"); !errors.Is(err, ErrSilent) {
		t.Errorf("a vote with no time for the answer: %+v, %v; want ErrSilent", count, err)
	}
	if !mustVote(t, n, "one", "salectl:key").Yes[0] {
		t.Error("with time for the answer, the node refused")
	}
}

// A server that was away for long answers the first call after its return.
func TestServerAway(t *testing.T) {
	t.Parallel()
	n, proxy, _ := mustProxy(t)
	mustMark(t, n)
	proxy.Stop()
	for range 5 * Connections {
		if _, err := n.Info(t.Context()); !errors.Is(err, ErrAway) && !errors.Is(err, ErrHungUp) {
			t.Fatalf("info: %v, want ErrAway", err)
		}
	}
	_, err := n.Info(t.Context())
	if !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), n.Name()) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("info: %v; want ErrAway, the address and the reason", err)
	}
	scripts.Listen(t, proxy.Start)
	if _, err := n.Info(t.Context()); err != nil {
		t.Errorf("info of a server that is back: %v", err)
	}
}

// A server that is restarted has closed the connections of the pool, which is
// no reason for a call to fail.
func TestServerRestarted(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	mustRestart(t, server)
	if !mustVote(t, n, "one", "salectl:key").Abstained {
		t.Error("a node that was restarted empty votes")
	}
}

// within makes a call whose context ends in a moment, and wants it back soon.
func within(t *testing.T, what string, ctx context.Context, call func(context.Context) error, want error) {
	t.Helper()
	begin := time.Now()
	err := call(ctx)
	if took := time.Since(begin); took > soon {
		t.Errorf("%s took %v", what, took)
	}
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// It counts goroutines, so that no other test may run beside it.
func TestHungServer(t *testing.T) {
	n, server := mustServe(t)
	mustMark(t, n)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(context.Context) error{
		"info":    func(ctx context.Context) error { _, err := n.Info(ctx); return err },
		"mark":    func(ctx context.Context) error { return n.Mark(ctx, marker, "") },
		"vote":    func(ctx context.Context) error { _, err := vote(ctx, n, "one", "salectl:key"); return err },
		"release": func(ctx context.Context) error { _, err := n.Release(ctx, nil); return err },
		"list":    func(ctx context.Context) error { _, err := n.List(ctx, ""); return err },
		"read":    func(ctx context.Context) error { _, err := n.ReadMarker(ctx, marker); return err },
		"forget":  func(ctx context.Context) error { return n.Forget(ctx, "other") },
		"announce": func(ctx context.Context) error {
			_, err := n.Announce(ctx, "registry", quorum.Member{ID: "one"}, time.Second)
			return err
		},
	}
	before := runtime.NumGoroutine()
	for name, call := range calls {
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			within(t, name, ctx, call, context.DeadlineExceeded)
			cancel()
		}
	}
	if took := awaitCalls(n); took > soon {
		t.Errorf("calls whose context had ended went on for %v", took)
	}
	for name, call := range calls {
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			within(t, name, ctx, call, context.Canceled)
		}
	}
	// Only a goroutine a call would be too many.
	if after := runtime.NumGoroutine(); after > before+5*Connections {
		t.Errorf("%d calls of a hung server left %d goroutines", 20*len(calls), after-before)
	}
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the server to answer", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.Info(ctx)
		return err == nil
	})
}

// The error of a server that cannot execute a call must reach the operator.
func TestServerInTrouble(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t, "--busy-reply-threshold", "10")
	mustMark(t, n)
	mustVote(t, n, "one", "salectl:key")

	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	if _, err := vote(t.Context(), n, "one", "salectl:key", "salectl:other"); !errors.Is(err, ErrFull) {
		t.Errorf("a vote of a full server: %v, want ErrFull", err)
	}
	if freed, err := n.Release(t.Context(), []quorum.LeaseRequest{{Key: "salectl:key", Token: "one"}}); err != nil || freed != 1 {
		t.Errorf("a release on a full server: %d, %v; want 1", freed, err)
	}
	do(t, server, "CONFIG", "SET", "maxmemory", "0")

	do(t, server, "HSET", "salectl:taken", "another", "program's")
	do(t, server, "SET", "salectl:taken:marker", "another program's")
	if _, err := vote(t.Context(), n, "one", "salectl:taken"); !errors.Is(err, ErrForeign) {
		t.Errorf("a vote for a key that is no lease: %v, want ErrForeign", err)
	}
	if err := n.Mark(t.Context(), "salectl:taken:marker", ""); !errors.Is(err, ErrForeign) {
		t.Errorf("mark of a key that is no marker: %v, want ErrForeign", err)
	}

	other := client(t, server)
	looping := make(chan error)
	go func() { looping <- other.Eval(context.Background(), "while true do end", nil).Err() }()
	wait.Until(t, "the server to be busy", func() bool {
		_, err := n.Info(t.Context())
		return errors.Is(err, ErrBusy)
	})
	wait.Until(t, "the script to be killed", func() bool { return client(t, server).ScriptKill(t.Context()).Err() == nil })
	<-looping
	if _, err := n.Info(t.Context()); err != nil {
		t.Errorf("info of a server that is free again: %v", err)
	}
}
