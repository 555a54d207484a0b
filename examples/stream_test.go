package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"salectl/api"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// served is a sale on an embedded store, served by processes.
type served struct {
	t   *testing.T
	dir string
}

func (s *served) salectl(args ...string) *exec.Cmd {
	c := exec.Command("salectl", args...)
	c.Dir = s.dir
	return c
}

func (s *served) run(args ...string) string {
	s.t.Helper()
	out, err := s.salectl(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("salectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// serve starts a process and returns it and its base URL, once it answers.
func (s *served) serve() (*exec.Cmd, string) {
	s.t.Helper()
	listen, admin := scripts.FreeAddress(s.t), scripts.FreeAddress(s.t)
	c := s.salectl("serve", "--listen", listen, "--admin-listen", admin)
	var log bytes.Buffer
	c.Stderr = &log
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if s.t.Failed() {
			s.t.Logf("%s prints:\n%s", listen, log.String())
		}
	})
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + admin}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	wait.UntilNil(s.t, listen+" to answer", func() error {
		_, err := client.Ready(s.t.Context())
		return err
	})
	return c, "http://" + listen
}

// has is the answer to a user: the claim and its unit.
type has struct{ claim, unit string }

// python runs the example's client and returns the answer to each user.
func (s *served) python(ctx context.Context, args ...string) map[string]has {
	s.t.Helper()
	program, err := services.Python()
	services.Require(s.t, err)
	client, err := filepath.Abs("stream-client/client.py")
	if err != nil {
		s.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, program, append([]string{client, "--units"}, args...)...)
	var errors bytes.Buffer
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, &errors)
	}
	received := make(map[string]has)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) != 4 || words[1] != "sold" {
			s.t.Errorf("printed %q", line)
			continue
		}
		received[words[0]] = has{words[2], words[3]}
	}
	return received
}

// The example's client in Python claims over a stream while the process that
// sells is killed and another one takes over: all answers to users are in the ledger, and
// each unit was sold once. The Go client reads it over a stream, and claims the rest.
func TestStreamClients(t *testing.T) {
	example, err := os.ReadFile("movie-tickets/sale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, dir: t.TempDir()}
	file := strings.Replace(string(example), "stock: 100", "stock: 10000", 1)
	if err := os.WriteFile(filepath.Join(s.dir, "sale.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("apply", "--yes")
	first, one := s.serve()
	_, two := s.serve()
	servers := one + "," + two
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	received := s.python(ctx, servers, "movie-tickets", "--claims", "2000", "--users", "first-")

	go func() { // as soon as some of them have theirs
		c, err := api.NewClient(api.Config{Servers: []string{one}, Sale: "movie-tickets"})
		if err == nil {
			err = wait.Poll(wait.Limit, func() error {
				u, err := c.User(ctx, "killed-300", api.Page{})
				if err == nil && len(u.Claims) == 0 {
					err = errors.New("no claim yet")
				}
				return err
			})
		}
		if err != nil {
			t.Error(err)
		}
		_ = first.Process.Kill()
	}()
	for user, got := range s.python(ctx, servers, "movie-tickets", "--claims", "3000", "--users", "killed-") {
		received[user] = got
	}
	if len(received) != 5000 {
		t.Errorf("%d users received a unit", len(received))
	}

	client, err := api.NewClient(api.Config{Servers: []string{one, two}, Sale: "movie-tickets", Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var mu sync.Mutex
	var all sync.WaitGroup
	whose := make(map[string]string)
	keep := func(user string, c api.Claim) {
		mu.Lock()
		defer mu.Unlock()
		unit := fmt.Sprint(c.Units[0])
		if other, twice := whose[unit]; twice {
			t.Errorf("%s and %s have unit %s", user, other, unit)
		}
		whose[unit] = user
	}
	for user, got := range received {
		all.Go(func() {
			c, err := client.LookUp(ctx, got.claim, api.Page{})
			if err != nil || c.User != user || fmt.Sprint(c.Units) != "["+got.unit+"]" || c.Outcome != api.Sold {
				t.Errorf("%s received %v, and there is %+v, %v", user, got, c, err)
				return
			}
			keep(user, c)
		})
	}
	for i := range 1000 {
		all.Go(func() {
			user := fmt.Sprint("go-", i)
			a, err := client.Claim(ctx, api.Request{User: user, Quantity: 1, Key: "k"})
			if err != nil || a.Outcome != api.Sold {
				t.Errorf("%s: %+v, %v", user, a, err)
				return
			}
			keep(user, a.Claim)
		})
	}
	all.Wait()
	if out := s.run("audit"); !strings.Contains(out, "6,000 of 10,000 units sold to 6,000 users") && !strings.Contains(out, "6000 of 10000 units sold to 6000 users") {
		t.Errorf("the audit has:\n%s", out)
	}
}
