package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// everyCall makes each call of a node once, and returns its errors.
func everyCall(ctx context.Context, n quorum.Node) error {
	info, err1 := n.Info(ctx)
	err2 := n.Mark(ctx, marker, info.RunID)
	count, err3 := vote(ctx, n, "one", "salectl:key")
	if err3 == nil && !count.Yes[0] {
		err3 = errors.New("a free key was not granted")
	}
	_, err4 := n.List(ctx, "salectl:")
	_, err5 := n.ReadMarker(ctx, marker)
	freed, err6 := n.Release(ctx, []quorum.LeaseRequest{{Key: "salectl:key", Token: "one", Waiter: "waiter"}})
	if err6 == nil && freed != 1 {
		err6 = errors.New("the key was not released")
	}
	err7 := n.Forget(ctx, marker)
	_, err8 := vote(ctx, n, "one", "salectl:key") // abstains
	err9 := n.Mark(ctx, marker, "")
	_, err10 := n.Announce(ctx, "salectl:registry", quorum.Member{ID: "one"}, time.Second)
	_, err11 := n.Announce(ctx, "salectl:registry", quorum.Member{ID: "one"}, 0)
	return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, err11)
}

// waitingCalls waits for a key as those do who are not granted it, and returns
// whom Watch named when it was freed. An operator's word follows, in case that
// Watch names nobody.
func waitingCalls(t *testing.T, n *Node, server *services.Redis) (notified string, err error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mustMark(t, n)
	mustVote(t, n, "one", "salectl:key")
	vote := func(key string) error {
		b := quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{{Key: key, Token: "two", Waiter: "waiter"}}}
		_, err := n.Vote(ctx, b)
		return err
	}
	err1 := vote("salectl:key")
	err2 := vote("salectl:free")
	named, ended := make(chan string, 8), make(chan error, 2)
	for _, waiter := range []string{"waiter", "nobody"} {
		go func() { ended <- n.Watch(ctx, "salectl:key", waiter, func() { named <- waiter }) }()
		select {
		case err := <-ended:
			return "", errors.Join(err1, err2, err)
		case <-named:
		}
	}
	if freed, err := n.Release(ctx, []quorum.LeaseRequest{{Key: "salectl:key", Token: "one"}}); freed != 1 {
		t.Errorf("release: %d, %v; want 1, whatever it may not do about those who wait", freed, err)
	}
	do(t, server, "PUBLISH", "salectl:key:nobody", "")
	notified = <-named
	cancel()
	<-ended
	<-ended
	return notified, errors.Join(err1, err2)
}

// Rights must be enough, and each of them needed. Those for waiting are needed
// by who waits, and nobody else.
func TestRights(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	rights := strings.Fields(Rights)
	user := func(name string, rights ...string) *Node {
		args := []any{"ACL", "SETUSER", name, "on", ">secret"}
		for _, r := range rights {
			args = append(args, r)
		}
		do(t, server, args...)
		return mustOpen(t, Options{Address: server.Addr(), Username: name, Password: "secret"})
	}
	// The server forgets the scripts, so that +eval is needed.
	do(t, server, "SCRIPT", "FLUSH")
	all := user("salectl", rights...)
	if err := everyCall(t.Context(), all); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	do(t, server, "FLUSHALL")
	if notified, err := waitingCalls(t, all, server); notified != "waiter" || err != nil {
		t.Errorf("with all rights, watch names %q, %v; want the waiter", notified, err)
	}
	waiting := map[string]error{"&salectl:*": ErrForbidden, "+zadd": ErrForbidden, "+zrem": ErrForbidden,
		"+subscribe": ErrForbidden, "+zpopmin": nil, "+publish": nil}
	for i, missing := range rights {
		t.Run("without "+missing, func(t *testing.T) {
			do(t, server, "SCRIPT", "FLUSH")
			do(t, server, "FLUSHALL")
			n := user("without"+strconv.Itoa(i), append(rights[:i:i], rights[i+1:]...)...)
			err := everyCall(t.Context(), n)
			want, waits := waiting[missing]
			if !waits {
				if !errors.Is(err, ErrForbidden) {
					t.Errorf("%v; want ErrForbidden", err)
				}
				return
			}
			if err != nil {
				t.Errorf("where nobody waits: %v", err)
			}
			do(t, server, "FLUSHALL")
			if notified, err := waitingCalls(t, n, server); !errors.Is(err, want) || want == nil && notified == "waiter" {
				t.Errorf("where somebody waits, watch names %q, %v; want %v, or else nobody named", notified, err, want)
			}
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	server := mustStart(t, services.RedisOptions{Args: []string{"--requirepass", secret}})
	for name, test := range map[string]struct {
		username, password string
		want               error
	}{
		"right":                  {"", secret, nil},
		"right, with a username": {"default", secret, nil},
		"none":                   {"", "", ErrLogin},
		"wrong":                  {"", "battery-staple", ErrLogin},
		"wrong user":             {"nobody", secret, ErrLogin},
	} {
		t.Run(name, func(t *testing.T) {
			n := mustOpen(t, Options{Address: server.Addr(), Username: test.username, Password: test.password})
			_, err := n.Info(t.Context())
			switch {
			case !errors.Is(err, test.want) || (err == nil) != (test.want == nil):
				t.Errorf("info: %v, want %v", err, test.want)
			case err != nil && (!strings.Contains(err.Error(), server.Addr()) || test.password != "" && strings.Contains(err.Error(), test.password)):
				t.Errorf("info: %v; want the address in it, and not the password", err)
			}
		})
	}
}

// Something that is not quite a Redis may repeat what it was sent.
func TestPasswordIsNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse"
	for name, words := range map[string]string{
		"as old Redis does": "-ERR unknown command `AUTH`, with args beginning with: `correct`, \r\n",
		"in other words":    "-ERR what is AUTH correct-horse?\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := mustOpen(t, Options{Address: parrot(t, words), Password: secret})
			_, err := n.Info(t.Context())
			if err == nil || strings.Contains(err.Error(), "correct") {
				t.Errorf("info: %v; want an error without the password", err)
			}
		})
	}
}

// parrot listens, and answers everything with the same words.
func parrot(t *testing.T, words string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if strings.HasPrefix(line, "*") { // a command begins
						io.WriteString(conn, words)
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{TLS: true})
	good := mustOpen(t, Options{Address: server.Addr(), TLS: &tls.Config{RootCAs: server.CertPool()}})
	if err := everyCall(t.Context(), good); err != nil {
		t.Errorf("over TLS: %v", err)
	}
	for name, test := range map[string]struct {
		options Options
		want    error
		text    string
	}{
		"an authority that nobody trusts": {Options{TLS: &tls.Config{}}, ErrTLS, "unknown authority"},
		"another name":                    {Options{TLS: &tls.Config{RootCAs: server.CertPool(), ServerName: "redis.example"}}, ErrTLS, "redis.example"},
		"no TLS":                          {Options{}, ErrHungUp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Address = server.Addr()
			n := mustOpen(t, test.options)
			if _, err := n.Info(t.Context()); !errors.Is(err, test.want) || !strings.Contains(err.Error(), "spec.redis.tls") || !strings.Contains(err.Error(), test.text) {
				t.Errorf("info: %v; want %v, with %q in it", err, test.want, test.text)
			}
		})
	}
}

// childAddress is set in the child process of TestTrustedByFile.
const childAddress = "SALECTL_TEST_TLS_ADDRESS"

// A process reads SSL_CERT_FILE once, so the test needs one of its own.
func TestTrustedByFile(t *testing.T) {
	if address := os.Getenv(childAddress); address != "" {
		nodes, err := Nodes(spec.Redis{Nodes: []string{address}, TLS: true})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, nodes[0])
		// It ends after three seconds where the machine is busy.
		wait.UntilNil(t, "an answer over TLS", func() error {
			_, err := nodes[0].Info(t.Context())
			return err
		})
		return
	}
	t.Parallel()
	server := mustStart(t, services.RedisOptions{TLS: true})
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestTrustedByFile$")
	child.Env = append(os.Environ(), childAddress+"="+server.Addr(), "SSL_CERT_FILE="+server.CAFile())
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNodes(t *testing.T) {
	server := mustStart(t, services.RedisOptions{Args: []string{"--user", "salectl", "on", ">secret", "~*", "+@all"}})
	t.Setenv("TEST_REDIS_USERNAME", "salectl")
	t.Setenv("TEST_REDIS_PASSWORD", "secret\n") // as of a file with a line
	t.Setenv("TEST_REDIS_EMPTY", "")
	for name, test := range map[string]struct {
		sale spec.Redis
		want []string // of the error
	}{
		"username and password": {spec.Redis{UsernameEnv: "TEST_REDIS_USERNAME", PasswordEnv: "TEST_REDIS_PASSWORD"}, nil},
		"no login":              {spec.Redis{}, nil},
		"password unset":        {spec.Redis{PasswordEnv: "TEST_REDIS_UNSET"}, []string{"TEST_REDIS_UNSET", "spec.redis.passwordEnv"}},
		"password empty":        {spec.Redis{PasswordEnv: "TEST_REDIS_EMPTY"}, []string{"TEST_REDIS_EMPTY", "spec.redis.passwordEnv"}},
		"username unset": {spec.Redis{UsernameEnv: "TEST_REDIS_UNSET", PasswordEnv: "TEST_REDIS_PASSWORD"},
			[]string{"TEST_REDIS_UNSET", "spec.redis.usernameEnv"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.sale.Nodes = []string{server.Addr(), "127.0.0.1:1"} // the second is unreachable, and not called
			nodes, err := Nodes(test.sale)
			if test.want != nil {
				if !errors.Is(err, ErrUnset) || !strings.Contains(err.Error(), test.want[0]) || !strings.Contains(err.Error(), test.want[1]) {
					t.Errorf("%v; want ErrUnset, naming %q", err, test.want)
				}
				return
			}
			if err != nil || len(nodes) != 2 || nodes[1].Name() != "127.0.0.1:1" {
				t.Fatalf("nodes: %v, %v", nodes, err)
			}
			closeLater(t, nodes[0])
			closeLater(t, nodes[1])
			if _, err := nodes[0].Info(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	for _, o := range []Options{{Address: "no port"}, {Address: "127.0.0.1:1", Username: "alone"}} {
		if n, err := Open(o); err == nil {
			closeLater(t, n)
			t.Errorf("open of %+v succeeded", o)
		}
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	n, server := mustServe(t)
	mustMark(t, n)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	replied := make(chan error)
	go func() {
		_, err := vote(context.Background(), n, "one", "salectl:key")
		replied <- err
	}()
	// Whether the vote has begun or not, and from whatever step of it.
	begin := time.Now()
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Error(err)
	}
	if err := <-replied; !errors.Is(err, ErrClosed) {
		t.Errorf("a vote under way when the handle closes: %v, want ErrClosed", err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("to close took %v, with a vote that would have waited for %v", took, long)
	}
	if _, err := n.Info(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("info after close: %v, want ErrClosed", err)
	}
}

// The end of one watch does not end the others.
func TestWatchersOfAUserWithRights(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	args := []any{"ACL", "SETUSER", "salectl", "on", ">secret"}
	for _, r := range strings.Fields(Rights) {
		args = append(args, r)
	}
	do(t, server, args...)
	n := mustOpen(t, Options{Address: server.Addr(), Username: "salectl", Password: "secret"})
	notified := make(chan string, 8)
	watch := func(waiter string) (stop context.CancelFunc, ended <-chan error) {
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- n.Watch(ctx, "salectl:key", waiter, func() { notified <- waiter }) }()
		if got := <-notified; got != waiter {
			t.Errorf("%s is notified when %s begins to watch", got, waiter)
		}
		return stop, over
	}
	stays, ended := watch("stays")
	defer stays()
	leaves, left := watch("leaves")
	leaves()
	<-left
	// The server notices the end of the one connection before it notifies the other.
	wait.Until(t, "the end of the subscription", func() bool {
		return do(t, server, "PUBLISH", "salectl:key:leaves", "").(int64) == 0
	})
	do(t, server, "PUBLISH", "salectl:key:stays", "")
	select {
	case got := <-notified:
		if got != "stays" {
			t.Errorf("%s is notified", got)
		}
	case err := <-ended:
		t.Errorf("the other's watch ends with %v", err)
	}
}
