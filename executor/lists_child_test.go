package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// childRole says to the test program that it is to be a process of its own.
const childRole = "SALECTL_LISTS_CHILD"

// childSite is what a child has to know.
type childSite struct {
	Dir     string
	Nodes   []string
	Users   string // the beginning of the users' names
	Count   int
	Callers int
}

// childAnswer is what a user of a child was told.
type childAnswer struct {
	User   string
	Answer Answer
}

// child is a process of its own that serves a sale and asks it for users of its
// own. What they are told comes to a crowd.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	ended chan struct{} // closed when all that it said was heard
	once  sync.Once
}

// startChild starts one that asks for users.
func (c *crowd) startChild(users string, count, callers int) *child {
	c.t.Helper()
	role, err := json.Marshal(childSite{c.s.dir, c.s.sale.Redis.Nodes, users, count, callers})
	if err != nil {
		c.t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	k := &child{t: c.t, cmd: exec.Command(os.Args[0], "-test.run=^TestListsChild$"), ended: make(chan struct{})}
	k.cmd.Env = append(os.Environ(), childRole+"="+string(role))
	k.cmd.ExtraFiles = []*os.File{in}
	k.cmd.Stderr = os.Stderr
	if err := k.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	in.Close()
	go func() {
		defer close(k.ended)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a childAnswer
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				continue // it was killed in the middle of a line
			}
			c.mu.Lock()
			c.heard(a.User, a.Answer)
			c.mu.Unlock()
		}
	}()
	c.t.Cleanup(k.kill)
	return k
}

// kill ends it as kill -9 does.
func (k *child) kill() { k.end(syscall.SIGKILL) }

// end sends a signal and waits for the end.
func (k *child) end(sig syscall.Signal) {
	k.once.Do(func() {
		k.signal(sig)
		<-k.ended
		err := k.cmd.Wait()
		if sig != syscall.SIGKILL && err != nil {
			k.t.Errorf("after %v the process ended with %v", sig, err)
		}
	})
}

func (k *child) signal(sig syscall.Signal) {
	if err := services.Signal(k.cmd.Process, sig); err != nil {
		k.t.Fatal(err)
	}
}

// TestListsChild is not a test: it is the process that startChild starts.
func TestListsChild(t *testing.T) {
	role := os.Getenv(childRole)
	if role == "" {
		t.Skip("started by other tests")
	}
	var who childSite
	if err := json.Unmarshal([]byte(role), &who); err != nil {
		t.Fatal(err)
	}
	s := &listSite{site: &site{t: t, dir: who.Dir, host: embedded.ThisHost()}}
	s.sale = saletest.Declared("site", 1, 1, 1)
	s.sale.Redis = &spec.Redis{Nodes: who.Nodes}
	told := os.NewFile(3, "answers")
	stopping, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	p := s.serve()
	var all sync.WaitGroup
	var mu sync.Mutex
	var next atomic.Int64
	for range who.Callers {
		all.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(who.Count) {
					return
				}
				_ = wait.Poll(wait.Limit, func() error {
					r := childAnswer{User: fmt.Sprint(who.Users, i)}
					r.Answer = p.Do(context.Background(), Request{User: r.User, Key: "key", Quantity: 1})
					line, err := json.Marshal(r)
					mu.Lock()
					if err == nil {
						_, err = told.Write(append(line, '\n'))
					}
					mu.Unlock()
					switch o := r.Answer.Outcome; {
					case err != nil, o == api.Draining, o == api.Sold, o == api.LimitReached, o == api.SoldOut:
						return nil
					default:
						return errors.New(string(o))
					}
				})
			}
		})
	}
	<-stopping.Done()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	all.Wait()
}
