package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// fleet is lock nodes on servers of their own, and handles on them.
type fleet struct {
	*testing.T
	servers []*services.Redis
	nodes   []quorum.Node
}

const leaseKey = "salectl:test:shard:0"

// newFleet starts nodes that vote at once.
func newFleet(t *testing.T, size int) *fleet {
	f := &fleet{T: t}
	for range size {
		n, server := mustServe(t)
		mustMark(t, n)
		f.servers, f.nodes = append(f.servers, server), append(f.nodes, n)
	}
	return f
}

// addresses returns where the servers are.
func (f *fleet) addresses() (all []string) {
	for _, server := range f.servers {
		all = append(all, server.Addr())
	}
	return all
}

func (f *fleet) hold(ttl time.Duration) *quorum.Lease {
	f.Helper()
	l, err := quorum.Hold(f.Context(), f.nodes, quorum.Config{Marker: marker, TTL: ttl, Address: "127.0.0.1:8080"}, leaseKey, quorum.Forever)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { <-l.Done() })
	return l
}

// beat returns the number in the note that a node has with the lease, which
// grows with each renewal; 0 if it has no lease, or one of a program without notes.
func (f *fleet) beat(node int) uint64 {
	f.Helper()
	found, err := f.nodes[node].List(f.Context(), leaseKey)
	if err != nil {
		f.Fatal(err)
	}
	if len(found) == 0 {
		return 0
	}
	note, _ := quorum.ParseNote(found[0].Note)
	return note.Beats
}

// awaitRenewal returns when a node has seen two renewals from now on.
func (f *fleet) awaitRenewal(node int) {
	f.Helper()
	before := f.beat(node)
	wait.Until(f, "a renewal of the lease", func() bool { return f.beat(node) > before+1 })
}

// wantFree checks that a node has no lease.
func (f *fleet) wantFree(node int) {
	f.Helper()
	if left := pttl(f, f.servers[node], leaseKey); left != -2 {
		f.Errorf("after the release, node %d has the lease for another %d ms", node, left)
	}
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// With two of five gone a lease is kept; with three it is lost, in time.
func TestLeaseLivesByAMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	const ttl = quorum.MaxTTL
	l := f.hold(ttl)
	f.must(errors.Join(f.servers[0].Kill(), f.servers[1].Kill()))
	f.awaitRenewal(2)
	if !l.Valid() {
		t.Fatalf("with two of five nodes gone the lease is not valid: %v", context.Cause(l.Context()))
	}

	f.must(f.servers[2].Pause())
	paused := time.Now() // no majority has promised anything since
	wait.Until(t, "the end of the lease", func() bool {
		if took := time.Since(paused); took >= ttl && l.Valid() {
			t.Fatalf("the lease is valid %v after the third node was stopped, when others may have it; its ttl is %v", took, ttl)
		}
		return l.Context().Err() != nil
	})
	if err := context.Cause(l.Context()); !errors.Is(err, quorum.ErrLost) || !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), f.servers[2].Addr()) {
		t.Errorf("the lease ended by %v; want ErrLost, and the answer of each node", err)
	}
	if l.Valid() {
		t.Error("a lost lease is valid")
	}
	<-l.Done()
	f.wantFree(3)
	f.wantFree(4)

	// It can be had again as soon as the third is back.
	f.must(f.servers[2].Continue())
	again := f.hold(ttl)
	f.must(again.Release(t.Context()))
	// Nodes that were not reached have nothing to free. But a call may have begun
	// on a connection from before, and then it is not known.
	if err := again.Freed(t.Context()); err != nil && !errors.Is(err, ErrAway) {
		t.Errorf("released with two nodes gone: %v, want at most ErrAway", err)
	}
}

// A node that was restarted empty joins a lease again when all that it may have
// promised before has run out, and not earlier.
func TestRestartedNodeJoinsLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	l := f.hold(quorum.MaxTTL)
	mustRestart(t, f.servers[0])
	var m quorum.Marker
	wait.Until(t, "a good marker on the node", func() (good bool) {
		var err error
		m, err = f.nodes[0].ReadMarker(t.Context(), marker)
		f.must(err)
		return m.Good
	})
	wait.Until(t, "the node to have the lease again", func() bool {
		has := f.beat(0) > 0
		info, err := f.nodes[0].Info(t.Context())
		f.must(err)
		if has && info.Time.Before(m.VotesFrom) {
			t.Fatalf("at %v the node has the lease; it was to vote from %v", info.Time, m.VotesFrom)
		}
		return has
	})
	if !l.Valid() {
		t.Errorf("the lease did not outlive one restart: %v", context.Cause(l.Context()))
	}
	f.must(l.Release(t.Context()))
}

// A release reaches all nodes, one that was away for a while included.
func TestReleaseReachesAllNodes(t *testing.T) {
	t.Parallel()
	t.Run("back before the release", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, 5)
		l := f.hold(quorum.MaxTTL)
		f.must(f.servers[0].Pause())
		f.awaitRenewal(1)
		f.must(f.servers[0].Continue())
		// What it was sent while it stood still comes first.
		f.awaitRenewal(1)
		wait.Until(t, "the node to have the lease again", func() bool { return f.beat(0) > 0 })
		f.awaitRenewal(0)
		f.must(errors.Join(l.Release(t.Context()), l.Freed(t.Context())))
		for node := range f.nodes {
			f.wantFree(node)
		}
	})
	t.Run("away during the release", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, 5)
		l := f.hold(quorum.MaxTTL)
		f.must(f.servers[0].Pause())
		f.must(l.Release(t.Context()))
		if err := l.Freed(t.Context()); !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), f.servers[0].Addr()) {
			t.Errorf("released with a hung node: %v; want ErrSilent of that node", err)
		}
		for node := 1; node < len(f.nodes); node++ {
			f.wantFree(node)
		}
		f.must(f.servers[0].Continue())
		wait.Until(t, "the node to free the key", func() bool { return pttl(t, f.servers[0], leaseKey) == -2 })
	})
}
