package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"salectl/backends/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// liveNode is a simulated node behind the interface that shells call.
type liveNode struct {
	start time.Time

	// mu guards what follows; calls come from several shells.
	mu    sync.Mutex
	node  *simNode
	slow  time.Duration // for how long answers of ballots are under way
	hangs bool          // calls do nothing until their context ends, and a little longer
	err   error         // calls fail with it
	calls int
	busy  int // calls that have not returned

	watches []*liveWatch
	mute    bool // nobody is notified of freed keys
}

// liveWatch is a call of Watch.
type liveWatch struct {
	key, waiter string
	freed       chan struct{}
}

func newLiveNodes(names ...string) []*liveNode {
	var nodes []*liveNode
	for _, name := range names {
		n := &liveNode{start: time.Now(), node: newSimNode(name)}
		n.node.mark("marker")
		n.node.woken = n.wake
		nodes = append(nodes, n)
	}
	return nodes
}

func asNodes(live []*liveNode) []quorum.Node {
	nodes := make([]quorum.Node, len(live))
	for i, n := range live {
		nodes[i] = n
	}
	return nodes
}

// enter counts a call and suffers its fault.
func (n *liveNode) enter(ctx context.Context) error {
	n.mu.Lock()
	n.calls++
	hangs, err := n.hangs, n.err
	if hangs {
		n.busy++
	}
	n.mu.Unlock()
	if !hangs {
		return err
	}
	<-ctx.Done()
	time.Sleep(lag)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy--
	return ctx.Err()
}

// lag is how long a hanging call takes to notice that its context has ended.
const lag = 10 * time.Millisecond

func (n *liveNode) trouble(hangs bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangs, n.err = hangs, err
}

// keys returns how many leases the node has.
func (n *liveNode) keys() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for key := range n.node.keys {
		if k, ok := n.node.has(time.Since(n.start), key); ok && k.token != "" {
			count++
		}
	}
	return count
}

func (n *liveNode) Name() string { return n.node.name }

func (n *liveNode) Info(ctx context.Context) (quorum.Info, error) {
	return quorum.Info{Time: time.Now()}, n.enter(ctx)
}

func (n *liveNode) Mark(ctx context.Context, marker, _ string) error {
	if err := n.enter(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node.mark(marker)
	return nil
}

func (n *liveNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if err := n.enter(ctx); err != nil {
		return quorum.BallotReply{}, err
	}
	n.mu.Lock()
	count, slow := n.node.vote(time.Since(n.start), b), n.slow
	n.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	return count, nil
}

func (n *liveNode) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	if err := n.enter(ctx); err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node.release(time.Since(n.start), requests), nil
}

func (n *liveNode) List(ctx context.Context, _ string) ([]quorum.Holding, error) {
	return nil, n.enter(ctx)
}

func (n *liveNode) ReadMarker(ctx context.Context, _ string) (quorum.Marker, error) {
	return quorum.Marker{}, n.enter(ctx)
}

func (n *liveNode) Forget(ctx context.Context, _ string) error { return n.enter(ctx) }

func (n *liveNode) Announce(ctx context.Context, _ string, _ quorum.Member, _ time.Duration) ([]quorum.Member, error) {
	return nil, n.enter(ctx)
}

func (n *liveNode) Watch(ctx context.Context, key, waiter string, freed func()) error {
	w := &liveWatch{key, waiter, make(chan struct{}, 1)}
	n.mu.Lock()
	n.watches = append(n.watches, w)
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.watches = slices.DeleteFunc(n.watches, func(other *liveWatch) bool { return other == w })
	}()
	freed()
	for {
		select {
		case <-w.freed:
			freed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake notifies the next waiter of a freed key. mu is held.
func (n *liveNode) wake(key, next string) {
	for _, w := range n.watches {
		if w.key == key && w.waiter == next && !n.mute {
			select {
			case w.freed <- struct{}{}:
			default:
			}
		}
	}
}

// waiting returns how many wait for a key, and how many watch any.
func (n *liveNode) waiting(key string) (listed, watching int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.node.waiting[key]), len(n.watches)
}

var config = quorum.Config{Marker: "marker", TTL: ttl, Address: "here:1"}

// mustHold acquires a lease or fails the test.
func mustHold(t *testing.T, nodes []*liveNode, key string) *quorum.Lease {
	t.Helper()
	l, err := quorum.Hold(t.Context(), asNodes(nodes), config, key, quorum.Forever)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustFree releases a lease on nodes of which none is in trouble.
func mustFree(t *testing.T, l *quorum.Lease) {
	t.Helper()
	if err := errors.Join(l.Release(t.Context()), l.Freed(t.Context())); err != nil {
		t.Error(err)
	}
}

func wantKeys(t *testing.T, nodes []*liveNode, want int) {
	t.Helper()
	for _, n := range nodes {
		if got := n.keys(); got != want {
			t.Errorf("%s has %d keys, want %d", n.Name(), got, want)
		}
	}
}

// The shell's tests run on the fake clock of a synctest bubble: they take no
// real time, and a goroutine that is left behind ends them with a panic.
func TestShell(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"a lease is renewed for as long as it is wanted": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			l := mustHold(t, nodes, "a")
			for range 100 {
				time.Sleep(ttl / 2)
				if !l.Valid() || l.Context().Err() != nil {
					t.Fatalf("not valid: %v", context.Cause(l.Context()))
				}
				wantKeys(t, nodes, 1)
			}
			if err := errors.Join(l.Release(t.Context()), l.Freed(t.Context())); err != nil {
				t.Error(err)
			}
			if l.Valid() || !errors.Is(context.Cause(l.Context()), quorum.ErrReleased) {
				t.Errorf("valid %v, cause %v", l.Valid(), context.Cause(l.Context()))
			}
			wantKeys(t, nodes, 0)
			if calls := nodes[0].calls; calls > 1+50*3+1 {
				t.Errorf("%d calls for 50 ttl", calls)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("released again: %v", err)
			}
		},
		"who waits has it after the release": func(t *testing.T) {
			nodes := newLiveNodes("n0")
			first := mustHold(t, nodes, "a")
			time.AfterFunc(10*time.Second, func() { first.Release(context.Background()) })
			began := time.Now()
			second := mustHold(t, nodes, "a")
			if took := time.Since(began); took < 10*time.Second || took > 10*time.Second+ttl/4 {
				t.Errorf("had it after %v", took)
			}
			mustFree(t, second)
		},
		"refused once": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			first := mustHold(t, nodes, "a")
			time.Sleep(time.Second) // until all nodes know it
			began := time.Now()
			_, err := quorum.Hold(t.Context(), asNodes(nodes), config, "a", 0)
			var f *quorum.Failure
			if !errors.Is(err, quorum.ErrRefused) || !errors.As(err, &f) || f.Key != "a" || time.Since(began) > 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			wantKeys(t, nodes, 1)
			mustFree(t, first)
		},
		"refused for good where too many nodes deny it": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			denied := fmt.Errorf("no right: %w", fs.ErrPermission)
			nodes[1].trouble(false, denied)
			if err := mustHold(t, nodes, "a").Release(t.Context()); err != nil {
				t.Error(err)
			}
			nodes[2].trouble(false, denied)
			_, err := quorum.Hold(t.Context(), asNodes(nodes), config, "a", quorum.Forever)
			if f, ok := errors.AsType[*quorum.Failure](err); !ok || !f.Denied() {
				t.Error(err)
			}
			wantKeys(t, nodes, 0)
		},
		"a context that ends while waiting leaves nothing behind": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			first := mustHold(t, nodes, "a")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("enough"))
			defer cancel()
			if _, err := quorum.Hold(ctx, asNodes(nodes), config, "a", quorum.Forever); err == nil || err.Error() != "enough" {
				t.Error(err)
			}
			wantKeys(t, nodes, 1)
			if _, err := quorum.Hold(ctx, asNodes(nodes), config, "b", quorum.Forever); err == nil || err.Error() != "enough" {
				t.Error(err)
			}
			wantKeys(t, nodes, 1)
			mustFree(t, first)
		},
		"a context that ends gives the keys back": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			ctx, cancel := context.WithCancelCause(t.Context())
			l, err := quorum.Hold(ctx, asNodes(nodes), config, "a", quorum.Forever)
			if err != nil {
				t.Fatal(err)
			}
			cancel(errors.New("enough"))
			<-l.Done()
			if err := context.Cause(l.Context()); err.Error() != "enough" {
				t.Error(err)
			}
			wantKeys(t, nodes, 0)
		},
		"a lease that is lost ends its context in time": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			l := mustHold(t, nodes, "a")
			for _, n := range nodes[:2] {
				n.trouble(false, errors.New("connection refused"))
			}
			began := time.Now()
			<-l.Context().Done()
			if took := time.Since(began); took >= ttl-drift || took < ttl/2 {
				t.Errorf("lost after %v", took)
			}
			cause := context.Cause(l.Context())
			if !errors.Is(cause, quorum.ErrLost) || !strings.Contains(cause.Error(), "n1 failed: connection refused") {
				t.Error(cause)
			}
			err := l.Release(t.Context())
			if err == nil || !strings.Contains(err.Error(), "n0 has not confirmed") || strings.Contains(err.Error(), "n2") {
				t.Error(err)
			}
			wantKeys(t, nodes[2:], 0)
		},
		"a lease that is broken by hand is lost at the next renewal": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			l := mustHold(t, nodes, "a")
			for _, n := range nodes {
				n.mu.Lock()
				clear(n.node.keys)
				n.mu.Unlock()
			}
			began := time.Now()
			<-l.Done()
			if took := time.Since(began); took > ttl/3 || !errors.Is(context.Cause(l.Context()), quorum.ErrLost) {
				t.Errorf("%v after %v", context.Cause(l.Context()), took)
			}
		},
		"a node that hangs slows nothing but the end": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			nodes[1].trouble(true, nil)
			began := time.Now()
			l := mustHold(t, nodes, "a")
			if took := time.Since(began); took > 2*time.Millisecond {
				t.Errorf("took %v", took)
			}
			time.Sleep(10 * ttl)
			if !l.Valid() {
				t.Fatal(context.Cause(l.Context()))
			}
			began = time.Now()
			if err := l.Release(t.Context()); err != nil || time.Since(began) > 0 {
				t.Errorf("released by a majority: %v after %v", err, time.Since(began))
			}
			err := l.Freed(t.Context())
			if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "n1 has not confirmed") || took > ttl/2+lag {
				t.Errorf("%v after %v", err, took)
			}
			if nodes[1].busy != 0 {
				t.Error("done while a call is under way")
			}
			wantKeys(t, nodes, 0)
		},
		"a caller of Release may leave early": func(t *testing.T) {
			nodes := newLiveNodes("n0")
			l := mustHold(t, nodes, "a")
			nodes[0].trouble(true, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := l.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			nodes[0].trouble(false, nil)
			<-l.Done()
			wantKeys(t, nodes, 0)
		},
		"unreachable nodes are not called in quick succession": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			for _, n := range nodes {
				n.trouble(false, errors.New("connection refused"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*ttl)
			defer cancel()
			if _, err := quorum.Hold(ctx, asNodes(nodes), config, "a", quorum.Forever); err == nil {
				t.Error("held without a node")
			}
			// A ballot and the release behind it each 240 ms, and repetitions of
			// the release each sixteenth of a ttl.
			if calls := nodes[0].calls; calls > 100*(2*13+16) || calls < 100 {
				t.Errorf("%d calls in 100 ttl", calls)
			}
		},
		"no key, no lease": func(t *testing.T) {
			if _, err := quorum.Hold(t.Context(), asNodes(newLiveNodes("n0")), config, "", quorum.Forever); err == nil {
				t.Error("held nothing")
			}
			if _, err := quorum.Hold(t.Context(), nil, config, "a", quorum.Forever); err == nil {
				t.Error("held by no node")
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// delivering are callers whose replies all go to one place.
type delivering struct {
	*quorum.Callers
	replies chan quorum.Reply
}

func callersOf(nodes []quorum.Node, replies chan quorum.Reply) delivering {
	return delivering{quorum.NewCallers(nodes), replies}
}

func (d delivering) Do(calls []quorum.Call) {
	d.Callers.Do(calls, func(r quorum.Reply) { d.replies <- r })
}

func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := newLiveNodes("n0", "n1")
		nodes[1].trouble(true, nil)
		replies := make(chan quorum.Reply, 10)
		c := callersOf(asNodes(nodes), replies)
		ballot := &quorum.Ballot{Marker: "marker", TTL: ttl, Requests: []quorum.LeaseRequest{{Key: "a", Token: "t"}}}
		began := time.Now()
		c.Do([]quorum.Call{
			{Node: 1, Seq: 1, Vote: ballot, Timeout: time.Second},
			{Node: 0, Seq: 2, Vote: ballot, Timeout: time.Second},
		})
		if r := <-replies; r.Seq != 2 || r.Node != 0 || r.Err != nil || !r.Ballot.Yes[0] || time.Since(began) > 0 {
			t.Errorf("%+v after %v", r, time.Since(began))
		}
		c.Do([]quorum.Call{{Node: 0, Seq: 3, Release: ballot.Requests, Timeout: time.Second}})
		if r := <-replies; r.Seq != 3 || r.Err != nil || nodes[0].keys() != 0 {
			t.Errorf("%+v", r)
		}
		if r := <-replies; r.Seq != 1 || !errors.Is(r.Err, context.DeadlineExceeded) || time.Since(began) != time.Second+lag {
			t.Errorf("%+v after %v", r, time.Since(began))
		}
		c.Do([]quorum.Call{{Node: 1, Seq: 4, Vote: ballot, Timeout: time.Second}})
		synctest.Wait()
		c.Close() // does not wait for the call to time out
		if took := time.Since(began); took != time.Second+2*lag || len(replies) != 0 || nodes[1].busy != 0 {
			t.Errorf("closed after %v with %d replies", took, len(replies))
		}
	})
}
