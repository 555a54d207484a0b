package services

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

func startRedis(t *testing.T, o RedisOptions) *Redis {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	r, err := StartRedis(t.Context(), o)
	Require(t, err)
	t.Cleanup(r.Stop)
	return r
}

func wantAnswer(t *testing.T, r *Redis, question, want string) {
	t.Helper()
	if got := query(t.Context(), r.Addr(), nil, question); strings.TrimSpace(got) != want {
		t.Errorf("%q got %q, want %q", question, got, want)
	}
}

func TestRedisIsEmptyAfterKillAndStart(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	addr := r.Addr()
	wantAnswer(t, r, "SET k v\r\n", "+OK")
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("a killed server takes connections")
	}
	if err := r.Kill(); err != nil {
		t.Errorf("killing it twice: %v", err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, r.Addr())
	}
	wantAnswer(t, r, "EXISTS k\r\n", ":0")
	if err := r.Start(t.Context()); !errors.Is(err, errRunning) {
		t.Errorf("starting it twice: %v", err)
	}
}

func TestRedisPausesAndContinues(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, r, redisRequest, "")
	if err := r.Continue(); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, r, redisRequest, "+PONG")

	if err := r.Pause(); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	if log := r.logOf(r.run); !strings.Contains(log, "ready to exit") {
		t.Errorf("a paused server was not shut down but killed; its log:\n%s", log)
	}
	if err := r.Pause(); err == nil {
		t.Error("a server that is gone was paused")
	}
}

func TestRedisTakesArguments(t *testing.T) {
	r := startRedis(t, RedisOptions{Args: []string{
		"--user", "default", "off", "--user", "alice", "on", ">secret", "~*", "+@all", "--maxmemory-policy", "allkeys-lru",
	}})
	wantAnswer(t, r, redisRequest, "-NOAUTH Authentication required.")
	wantAnswer(t, r, "AUTH alice secret\r\n", "+OK")
}

func TestRedisServesTLS(t *testing.T) {
	r := startRedis(t, RedisOptions{TLS: true})
	for name, c := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"its authority":     {&tls.Config{RootCAs: r.CertPool()}, "+PONG\r\n"},
		"its name":          {&tls.Config{RootCAs: r.CertPool(), ServerName: "localhost"}, "+PONG\r\n"},
		"another authority": {&tls.Config{}, ""},
		"another name":      {&tls.Config{RootCAs: r.CertPool(), ServerName: "example.com"}, ""},
		"no TLS":            {nil, ""},
	} {
		if got := query(t.Context(), r.Addr(), c.config, redisRequest); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if _, err := os.Stat(r.CAFile()); err != nil {
		t.Error(err)
	}
}

func TestRedisRefusesATakenPort(t *testing.T) {
	other := startRedis(t, RedisOptions{})
	_, err := StartRedis(t.Context(), RedisOptions{Dir: t.TempDir(), Port: other.port})
	if err == nil || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "another program has the port") {
		t.Errorf("got %v", err)
	}
}

// A port can be lost between the choice and the bind, and a server can die for
// many other reasons: its log has the reason.
func TestServerThatDiesAtOnceShowsItsLog(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	startRedis(t, RedisOptions{Port: r.port}) // it would give the answer that Start waits for
	err := r.Start(t.Context())
	if !errors.Is(err, errPortLost) || !strings.Contains(err.Error(), "Address already in use") || !strings.Contains(err.Error(), r.log) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherPortIsTriedOnlyForALostOne(t *testing.T) {
	lost := fmt.Errorf("start it: %w", errPortLost)
	died := errors.New("died")
	for name, c := range map[string]struct {
		fixed bool
		errs  []error // of one try after the other
		tries int
	}{
		"at once":          {false, []error{nil}, 1},
		"the second time":  {false, []error{lost, nil}, 2},
		"never":            {false, []error{lost, lost, lost}, 3},
		"a port was given": {true, []error{lost}, 1},
		"another reason":   {false, []error{lost, died}, 2},
	} {
		tries := 0
		err := retryLostPort(c.fixed, func() error { tries++; return c.errs[tries-1] })
		if tries != c.tries || err != c.errs[len(c.errs)-1] {
			t.Errorf("%s: %d tries, %v", name, tries, err)
		}
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	r := startRedis(t, RedisOptions{})
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r.running() != nil {
		t.Error("the server that was not awaited runs on")
	}
}

func TestStopRemovesOnlyItsOwnFolder(t *testing.T) {
	r, err := StartRedis(t.Context(), RedisOptions{})
	Require(t, err)
	r.Stop()
	if _, err := os.Stat(r.temporary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder is still there (%v)", err)
	}
	kept := startRedis(t, RedisOptions{})
	kept.Stop()
	if _, err := os.Stat(kept.log); err != nil {
		t.Errorf("a folder of the caller's: %v", err)
	}
}
