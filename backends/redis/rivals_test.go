package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"salectl/backends/quorum"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// rivals is two contenders for one lease, each with connections of its own
// through proxies of its own. The fleet's are past all proxies.
type rivals struct {
	*fleet
	ways  [2][]*toxiproxy.Proxy
	first *quorum.Lease
	won   chan *quorum.Lease // by the second
}

func newRivals(t *testing.T, args ...string) *rivals {
	r := &rivals{fleet: &fleet{T: t}, won: make(chan *quorum.Lease, 1)}
	for range 3 {
		r.add(args...)
	}
	return r
}

// add starts another server, with a way to it for each contender.
func (r *rivals) add(args ...string) {
	r.Helper()
	n, server := mustServe(r, args...)
	mustMark(r, n)
	r.servers, r.nodes = append(r.servers, server), append(r.nodes, n)
	for i := range r.ways {
		r.ways[i] = append(r.ways[i], mustProxyTo(r.T, server))
	}
}

// handles opens a contender's nodes.
func (r *rivals) handles(contender int) (nodes []quorum.Node) {
	for _, way := range r.ways[contender] {
		nodes = append(nodes, mustOpen(r, Options{Address: way.Listen}))
	}
	return nodes
}

// rivalConfig has the longest ttl: a shorter one passes without a renewal where a
// busy machine does not run a process or a node for that long.
func rivalConfig(contender int) quorum.Config {
	return quorum.Config{Marker: marker, TTL: quorum.MaxTTL, Address: fmt.Sprint("contender:", contender)}
}

// begin gives the lease to the first contender, on all nodes, and lets the
// second wait for it.
func (r *rivals) begin() {
	r.Helper()
	var err error
	r.first, err = quorum.Hold(r.Context(), r.handles(0), rivalConfig(0), leaseKey, quorum.Forever)
	r.must(err)
	r.Cleanup(func() { <-r.first.Done() })
	for node := range r.nodes {
		wait.Until(r, "all nodes to grant the lease", func() bool { return r.beat(node) > 0 })
	}
	r.waits()
}

// waits lets the second contender wait for the lease.
func (r *rivals) waits() {
	second := r.handles(1)
	go func() {
		defer close(r.won)
		l, err := quorum.Hold(r.Context(), second, rivalConfig(1), leaseKey, quorum.Forever)
		if err != nil {
			r.Errorf("the second contender: %v", err)
			return
		}
		// Checked after the second has it: a lease that is valid now overlaps.
		if r.first != nil && r.first.Valid() {
			r.Error("the second contender has the lease, and the first is valid still")
		}
		r.won <- l
	}()
}

// wantKept checks that the first contender keeps the lease, by two renewals
// that a node sees, and gives it back.
func (r *rivals) wantKept(node int) {
	r.Helper()
	r.awaitRenewal(node)
	if !r.first.Valid() {
		r.Errorf("the first contender lost the lease: %v", context.Cause(r.first.Context()))
	}
	// What a node did not confirm, the others make up for.
	if err := r.first.Release(r.Context()); err != nil {
		r.Logf("release: %v", err)
	}
}

// wantLost checks that the first contender loses the lease.
func (r *rivals) wantLost() {
	r.Helper()
	select {
	case <-r.first.Context().Done():
	case <-time.After(long):
		r.Fatal("the first contender does not lose the lease")
	}
	if err := context.Cause(r.first.Context()); !errors.Is(err, quorum.ErrLost) {
		r.Errorf("the first contender's lease ended by %v, want ErrLost", err)
	}
}

// wantSecond checks that the second contender gets the lease and keeps it, as a
// node sees it.
func (r *rivals) wantSecond(node int) {
	r.Helper()
	var second *quorum.Lease
	select {
	case second = <-r.won:
	case <-time.After(long):
		r.Fatal("the second contender does not get the lease")
	}
	if second == nil {
		r.FailNow()
	}
	r.awaitRenewal(node)
	if !second.Valid() {
		r.Errorf("the second contender's lease did not last: %v", context.Cause(second.Context()))
	}
	r.must(second.Release(r.Context()))
	<-second.Done()
	r.wantFree(node)
}

// faults are what may befall a node while somebody has the lease. Each is
// prepared when the node has its marker and not yet the lease, and struck by
// what it returns.
var faults = map[string]struct {
	args    []string // of the servers
	prepare func(r *rivals, node int) (strike func())
}{
	"restarted empty": {nil, func(r *rivals, node int) func() {
		return func() { mustRestart(r, r.servers[node]) }
	}},
	"restarted from an old snapshot": {nil, func(r *rivals, node int) func() {
		do(r, r.servers[node], "SAVE")
		return func() { mustRestart(r, r.servers[node]) }
	}},
	"restarted from an old append-only file": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, oldFile},
	"flushed": {nil, func(r *rivals, node int) func() {
		return func() { do(r, r.servers[node], "FLUSHALL") }
	}},
	"failed over to an old replica": {[]string{"--repl-diskless-sync-delay", "0"}, oldReplica},
	"drops requests of the first": {nil, func(r *rivals, node int) func() {
		return func() { poison(r.T, r.ways[0][node], "timeout", "upstream", `"timeout":0`) }
	}},
	"drops replies to the first": {nil, func(r *rivals, node int) func() {
		return func() { poison(r.T, r.ways[0][node], "timeout", "downstream", `"timeout":0`) }
	}},
}

// oldFile copies a server's append-only file, and puts the copy in its place
// while the server is down: the disk came back as it was.
func oldFile(r *rivals, node int) func() {
	server := r.servers[node]
	dir := do(r, server, "CONFIG", "GET", "dir").([]any)[1].(string)
	files := filepath.Join(dir, "appendonlydir")
	old := filepath.Join(r.TempDir(), "old")
	r.must(os.CopyFS(old, os.DirFS(files)))
	return func() {
		r.must(server.Kill())
		r.must(os.RemoveAll(files))
		r.must(os.CopyFS(files, os.DirFS(old)))
		r.must(server.Start(r.Context()))
		if left := pttl(r, server, marker); left != -1 {
			r.Fatalf("the old file did not bring the marker back: it has %d ms left", left)
		}
	}
}

// oldReplica makes a replica that has the marker and misses what comes after,
// and lets it take the master's place.
func oldReplica(r *rivals, node int) func() {
	n, replica := mustServe(r)
	host, port := hostPort(r.T, r.servers[node])
	do(r, replica, "REPLICAOF", host, port)
	wait.Until(r, "the replica to have the marker", func() bool { return pttl(r, replica, marker) == -1 })
	do(r, replica, "REPLICAOF", "NO", "ONE")
	return func() {
		r.must(r.servers[node].Kill())
		for i := range r.ways {
			way := r.ways[i][node]
			way.Stop()
			way.Upstream = replica.Addr()
			scripts.Listen(r, way.Start)
		}
		r.servers[node], r.nodes[node] = replica, n
	}
}

// While a lease is held, one node of three may suffer anything and the lease is
// kept; if two do, it is lost, and another gets it when all that was promised
// has run out. Never do two have it.
func TestNoSecondHolder(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		for struck := 1; struck <= 2; struck++ {
			t.Run(fmt.Sprintf("%d of 3 %s", struck, name), func(t *testing.T) {
				t.Parallel()
				r := newRivals(t, fault.args...)
				var strikes []func()
				for node := range struck {
					strikes = append(strikes, fault.prepare(r, node))
				}
				r.begin()
				for _, strike := range strikes {
					strike()
				}
				if struck == 1 {
					r.wantKept(2)
				} else {
					r.wantLost()
				}
				r.wantSecond(2)
			})
		}
	}
}

// A key that has no end any more gets one by the next renewal.
func TestHeldWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	r.begin()
	for node, server := range r.servers {
		before := r.beat(node)
		do(t, server, "PERSIST", leaseKey)
		wait.Until(t, "a renewal of the lease", func() bool { return r.beat(node) > before })
		if left := pttl(t, server, leaseKey); left <= 0 {
			t.Errorf("node %d has the lease for %d ms", node, left)
		}
	}
	r.wantKept(2)
	r.wantSecond(2)
}

// Who died between SETNX and EXPIRE keeps nobody out for longer than the
// longest ttl, and nobody has the key before its keys are gone.
func TestCrashedWithoutEnd(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	for _, server := range r.servers {
		do(t, server, "SET", leaseKey, "crashed")
	}
	r.waits()
	for node, server := range r.servers {
		wait.Until(t, "an end of the key", func() bool {
			left := pttl(t, server, leaseKey)
			if left > quorum.MaxTTL.Milliseconds() {
				t.Errorf("node %d gave the key %d ms", node, left)
			}
			return left != -1
		})
	}
	r.wantSecond(2)
}

// A try whose answers are lost is refused, though the nodes granted it: they
// keep the lease for nobody until it runs out, and then another gets it.
func TestLostAnswersOfATry(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	first := r.handles(0)
	for node, n := range first { // connect, so that nothing but answers is lost
		_, err := n.Info(t.Context())
		r.must(err)
		mustVote(t, n, "one", "salectl:other")
		mustRelease(t, n, "one", "salectl:other")
		do(t, r.servers[node], "CONFIG", "RESETSTAT")
		if node < 2 {
			poison(t, r.ways[0][node], "timeout", "downstream", `"timeout":0`)
		}
	}
	l, err := quorum.Hold(t.Context(), first, rivalConfig(0), leaseKey, 0)
	if !errors.Is(err, quorum.ErrRefused) || !errors.Is(err, ErrSilent) {
		t.Fatalf("a try with the answers of two nodes lost: %v, %v; want ErrRefused and ErrSilent", l, err)
	}
	for node, server := range r.servers {
		if !granted(t, server) {
			t.Errorf("node %d has no trace of the try", node)
		}
	}
	r.wantFree(2)
	r.waits()
	r.wantSecond(2)
}

// A first answer that is lost costs a try, and not a ttl: the lease that the
// nodes then have is our own.
func TestLostAnswerRetried(t *testing.T) {
	t.Parallel()
	r := newRivals(t)
	nodes := r.handles(0)
	for node, n := range nodes { // connect, so that nothing but the vote is lost
		_, err := n.Info(t.Context())
		r.must(err)
		mustVote(t, r.nodes[node], "one", "salectl:other") // the server knows the script from here on
		do(t, r.servers[node], "CONFIG", "RESETSTAT")
		poison(t, r.ways[0][node], "reset_peer", "downstream", `"timeout":0`)
	}
	had := make(chan *quorum.Lease, 1)
	go func() {
		l, err := quorum.Hold(t.Context(), nodes, rivalConfig(0), leaseKey, quorum.Forever)
		if err != nil {
			t.Error(err)
		}
		had <- l
	}()
	for node := range nodes {
		wait.Until(t, "the node to grant the lease", func() bool { return granted(t, r.servers[node]) })
		r.ways[0][node].Toxics.ResetToxics(t.Context())
	}
	r.first = <-had
	if r.first == nil {
		t.FailNow()
	}
	r.Cleanup(func() { <-r.first.Done() })
	r.waits()
	r.wantKept(2)
	r.wantSecond(2)
}

// granted reports whether a server has granted a key since its statistics were
// reset, even if that was given back since.
func granted(t *testing.T, server *services.Redis) bool {
	t.Helper()
	return strings.Contains(do(t, server, "INFO", "commandstats").(string), "cmdstat_set:")
}
