package executor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestListsProcessKilled kills the process that serves with kill -9, again and
// again, while it answers and while grabs of its lists are not in the ledger yet.
// What it has told is kept by the next one.
func TestListsProcessKilled(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 3, always, spec.Shares(600, 6)...)
		c := newCrowd(t, s, nil)
		for round := range 2 {
			before := c.sold()
			k := c.startChild(fmt.Sprint("child-", round, "-"), 2000, 30)
			c.await("sold by a child", func() bool { return c.sold() > before+80 })
			k.kill()
			if ack == spec.AckLedger {
				c.kept()
			}
		}
		t.Logf("killed after %d, %d are in the ledger, outcomes %v", c.sold(), len(c.inLedger()), c.outcomes)
		p := s.serve()
		c.claim = p.Do
		c.settle()
	})
}

// TestListsProcessEnded ends the process that serves as an operator does: it says
// what became of all that it has in its hands. What it has not drained the next one
// does.
func TestListsProcessEnded(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, spec.Shares(600, 4)...)
		c := newCrowd(t, s, nil)
		for round := range 2 {
			before := c.sold()
			k := c.startChild(fmt.Sprint("child-", round, "-"), 2000, 30)
			c.await("sold by a child", func() bool { return c.sold() > before+80 })
			k.end(syscall.SIGTERM)
			c.kept() // with ack redis too: it drains before it leaves
		}
		if n := c.count(api.Unknown); n > 0 {
			t.Errorf("%d were told unknown by a process that had time", n)
		}
		p := s.serve()
		c.claim = p.Do
		c.settle()
	})
}

// TestListsProcessPaused stops the process that serves with SIGSTOP, with grabs in
// flight, until another has taken over and sold. When it goes on, whatever it does
// comes too late.
func TestListsProcessPaused(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 3, always, spec.Shares(600, 6)...)
		c := newCrowd(t, s, nil)
		k := c.startChild("child-", 2000, 30)
		c.await("sold by a child", func() bool { return c.sold() >= c.stock/10 })
		k.signal(syscall.SIGSTOP)
		for n := 0; !s.writes(n); n++ { // it was stopped in the middle of a write, with SQLite's lock
			before := c.sold()
			k.signal(syscall.SIGCONT)
			c.await("sold by a child that goes on", func() bool { return c.sold() > before })
			k.signal(syscall.SIGSTOP)
		}
		paused := c.sold()
		p := s.serve()
		c.claim = p.Do
		stop := c.watchLedger()
		c.begin(600, 30)
		c.at(40, func() { k.signal(syscall.SIGCONT) })
		c.end()
		stop()
		k.kill()
		t.Logf("paused after %d", paused)
		c.settle()
	})
}

// writes reports whether the store of the ledger takes a write in time.
func (s *listSite) writes(n int) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	return s.logs.Append(ctx, fmt.Sprint("probe-", n), 0, nil, []byte("{}"), []byte("probe")) == nil
}

// lateNode is a node that is reached late: what is asked of it while it is held
// arrives when it is let go, long after whoever asked has given up.
type lateNode struct {
	lists.Node
	mu   sync.Mutex
	held bool
	late []func()
	gave atomic.Int64 // batches that were given something, or were asked of a list that gives
}

func (n *lateNode) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = true
}

// letGo lets arrive what was held, and returns how much that was.
func (n *lateNode) letGo() int {
	n.mu.Lock()
	late := n.late
	n.held, n.late = false, nil
	n.mu.Unlock()
	for _, call := range late {
		call()
	}
	return len(late)
}

// asked is how many calls are kept.
func (n *lateNode) asked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.late)
}

// lateCall makes a call, or keeps it until it is let go.
func lateCall[T any](ctx context.Context, n *lateNode, call func(context.Context) (T, error)) (T, error) {
	n.mu.Lock()
	held := n.held
	if held {
		n.late = append(n.late, func() { _, _ = call(context.Background()) })
	}
	n.mu.Unlock()
	if !held {
		return call(ctx)
	}
	<-ctx.Done()
	var none T
	return none, ctx.Err()
}

func (n *lateNode) Grab(ctx context.Context, b []lists.Batch) ([]lists.Given, error) {
	copied := append([]lists.Batch(nil), b...)
	return lateCall(ctx, n, func(ctx context.Context) ([]lists.Given, error) {
		given, err := n.Node.Grab(ctx, copied)
		for _, g := range given {
			if g.Why == nil {
				n.gave.Add(1)
			}
		}
		return given, err
	})
}

func (n *lateNode) Stop(ctx context.Context, l lists.List, fill uint64, run string) error {
	return late(ctx, n, func(ctx context.Context) error { return n.Node.Stop(ctx, l, fill, run) })
}

func (n *lateNode) Read(ctx context.Context, l lists.List, fill uint64, after, drained string, max int) ([]lists.Entry, error) {
	return lateCall(ctx, n, func(ctx context.Context) ([]lists.Entry, error) {
		return n.Node.Read(ctx, l, fill, after, drained, max)
	})
}

func (n *lateNode) Put(ctx context.Context, l lists.List, fill uint64, run string, p lists.Part) error {
	return late(ctx, n, func(ctx context.Context) error { return n.Node.Put(ctx, l, fill, run, p) })
}

func (n *lateNode) Start(ctx context.Context, l lists.List, fill uint64, run string, s lists.Start) error {
	return late(ctx, n, func(ctx context.Context) error { return n.Node.Start(ctx, l, fill, run, s) })
}

func (n *lateNode) Take(ctx context.Context, l lists.List, fill uint64, k int) (ledger.Units, error) {
	return lateCall(ctx, n, func(ctx context.Context) (ledger.Units, error) { return n.Node.Take(ctx, l, fill, k) })
}

func (n *lateNode) Add(ctx context.Context, l lists.List, fill uint64, u ledger.Units) error {
	return late(ctx, n, func(ctx context.Context) error { return n.Node.Add(ctx, l, fill, u) })
}

func late(ctx context.Context, n *lateNode, call func(context.Context) error) error {
	_, err := lateCall(ctx, n, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// farProcess serves with nodes that can be held, and locks that can be cut off.
func (s *listSite) farProcess() (p *siteProcess, held []*lateNode, locks []*gatedNode) {
	s.t.Helper()
	p = s.site.process(func(c *Config) {
		nodes, kept := s.connect()
		c.Nodes = nil
		for i, n := range nodes {
			locks, held = append(locks, &gatedNode{Node: n}), append(held, &lateNode{Node: kept[i]})
			c.Nodes, c.Lists = append(c.Nodes, locks[i]), append(c.Lists, held[i])
		}
	})
	return p, held, locks
}

// TestListsLateCalls has all that a process asks of the nodes in the middle of a
// race, and all that it appends, arrive only when another process has taken over:
// nothing of it may be done then.
func TestListsLateCalls(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, 450, 0, 150, 400)
		first, held, locks := s.farProcess()
		wait.Until(t, "the first process is ready", func() bool { return first.Ready() == nil })
		second := s.serveLater()
		c := newCrowd(t, s, anyOf(first, second))
		c.race(40, func() {
			c.at(20, func() {
				for _, n := range held {
					n.hold()
				}
				first.logs.appends.close()
				for _, n := range locks {
					n.close()
				}
			})
			wait.Until(t, "the second process is ready", func() bool { return second.Ready() == nil })
			c.at(60, func() {
				calls := 0
				for i, n := range held {
					before := n.gave.Load()
					calls += n.letGo()
					if now := n.gave.Load(); now != before {
						t.Errorf("node %d gives to whoever has lost the sale: %d batches", i, now-before)
					}
				}
				first.logs.appends.open()
				for _, n := range locks {
					n.open()
				}
				if calls == 0 {
					t.Error("no call was under way")
				}
				t.Logf("%d calls came late", calls)
			})
		})
	})
}

// TestListsReady holds all that a process which takes over asks of one of two nodes:
// it is not ready before the lists there give too.
func TestListsReady(t *testing.T) {
	t.Parallel()
	s := newListSite(t, spec.AckLedger, 2, nil, 5, 5, 5)
	first := s.serve()
	c := newCrowd(t, s, first.Do)
	if a := c.one("first", "key"); a.Outcome != api.Sold {
		t.Fatalf("%+v", a)
	}
	second, held, _ := s.farProcess()
	held[1].hold()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	c.await("serving, with the lists of one node, and the other asked", func() bool {
		if second.Ready() == nil {
			t.Fatalf("ready, with %+v", second.Status().Shards)
		}
		shards := second.Status().Shards
		return len(shards) == 3 && shards[0].ListOn && shards[2].ListOn && held[1].asked() > 0
	})
	held[1].letGo()
	wait.Until(t, "the second process is ready", func() bool { return second.Ready() == nil })
	for _, shard := range second.Status().Shards {
		if !shard.ListOn {
			t.Errorf("ready, with %+v", shard)
		}
	}
	c.claim = second.Do
	c.settle()
}

// TestListsPages takes over a list whose stream has more than one page of grabs that
// the ledger lacks, and whose users make more than one part: all that was told is
// kept, and stays with whom it was told.
func TestListsPages(t *testing.T) {
	t.Parallel()
	const told, callers = 5500, 100
	s := newListSite(t, spec.AckRedis, 1, always, told+500)
	first := s.site.serve(func(c *Config) {
		c.Nodes, c.Lists = s.connect()
		c.DrainTimeout = time.Millisecond
	})
	first.awaitLists()
	c := newCrowd(t, s, first.Do)
	first.logs.appends.close()
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= told; i = next.Add(1) {
				user := fmt.Sprint("told-", i)
				a := c.one(user, "key")
				if a.Outcome != api.Sold {
					t.Errorf("%s: %+v", user, a)
					return
				}
				c.mu.Lock()
				c.heard(user, a)
				c.mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if in := len(c.inLedger()); c.sold() != told || in > 500 {
		t.Fatalf("%d were told of %d, and %d are in the ledger already", c.sold(), told, in)
	}
	restart(t, s.servers[0])
	c.claim = s.serve().Do
	c.await("in the ledger", func() bool { return len(c.inLedger()) >= told })
	c.kept()
	c.settle()
}
