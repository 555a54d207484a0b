package peers_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/embedded"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

const shards = 6

// pair is two processes of one sale in this one, on the embedded store: the links between
// them are real.
type pair struct {
	a, b   *executor.Executor
	owners [shards]*executor.Executor
	users  atomic.Int64
}

// newPair starts them, and returns when each owns half and knows what the other has.
func newPair(t testing.TB) *pair {
	return newPairAs(t, &pb.Settings{PerUserLimit: 10, Phase: pb.Phase_OPEN})
}

func newPairAs(t testing.TB, settings *pb.Settings) *pair {
	t.Helper()
	dir := t.TempDir()
	logs, node := open(t, dir)
	sale := saletest.Declared("linked", shards<<32, shards, 10)
	sale.LockTTL = spec.Duration(quorum.MaxTTL) // a process that is not run for as long loses its shards
	saletest.ProvisionAs(t, logs, sale, slices.Repeat([]int64{1 << 32}, shards), settings)
	saletest.Mark(t, node)
	p, addresses := new(pair), make(map[string]*executor.Executor)
	for _, e := range []**executor.Executor{&p.a, &p.b} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		logs, node := open(t, dir)
		*e = executor.New(executor.Config{
			Logs: logs, Nodes: []quorum.Node{node}, Sale: "linked", Address: l.Addr().String(),
			Dial: peers.Dialer(linkConfig),
		})
		addresses[l.Addr().String()] = *e
		run(t, *e, l)
	}
	wait.Until(t, "each process owns half of the shards", func() bool { return p.shared(addresses) })
	return p
}

// open opens the embedded store of a folder until the test has ended.
func open(t testing.TB, dir string) (*embedded.Logs, *embedded.Node) {
	t.Helper()
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	node, err := embedded.OpenNode(dir, embedded.ThisHost())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(logs.Close(), node.Close()); err != nil {
			t.Error(err)
		}
	})
	return logs, node
}

// shared reports whether both own half, and agree.
func (p *pair) shared(addresses map[string]*executor.Executor) bool {
	count := make(map[*executor.Executor]int)
	for i := range shards {
		p.owners[i] = addresses[p.a.PlaceOf(i).Owner]
		if p.owners[i] == nil || p.owners[i] != addresses[p.b.PlaceOf(i).Owner] {
			return false
		}
		count[p.owners[i]]++
	}
	return count[p.a] == shards/2 && count[p.b] == shards/2
}

// run serves until the test has ended.
func run(t testing.TB, e *executor.Executor, l net.Listener) {
	server := httpd.New(httpd.Config{Sales: []executor.Service{e}, Address: l.Addr().String()})
	ctx, cancel := context.WithCancel(context.Background())
	owning, release := context.WithCancel(context.Background())
	served, ended := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	go func() { ended <- e.Run(owning) }()
	t.Cleanup(func() {
		cancel()
		err := <-served
		release()
		if err := errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	})
}

// userOf returns somebody new, whose shard a process owns.
func (p *pair) userOf(owner *executor.Executor) string {
	for {
		if user := fmt.Sprintf("user-%011d", p.users.Add(1)); p.owners[spec.HomeShard(user, shards)] == owner {
			return user
		}
	}
}

// What a process is asked about a shard of its peer's, it answers as the peer would.
func TestForwarded(t *testing.T) {
	p := newPair(t)
	for _, asked := range []*executor.Executor{p.a, p.b} {
		for _, owner := range []*executor.Executor{p.a, p.b} {
			user := p.userOf(owner)
			r := executor.Request{User: user, Key: "key", Quantity: 2}
			sold := asked.Do(t.Context(), r)
			if sold.Outcome != api.Sold || sold.Replayed || len(sold.Claim.Units) != 2 || sold.Claim.User != user {
				t.Fatalf("%+v", sold)
			}
			if again := asked.Do(t.Context(), r); again.Outcome != api.Sold || !again.Replayed || again.Claim.ID != sold.Claim.ID {
				t.Errorf("asked again: %+v", again)
			}
			if more := asked.Do(t.Context(), executor.Request{User: user, Key: "more", Quantity: 9}); more.Outcome != api.LimitReached || len(more.Claims) != 1 {
				t.Errorf("asked for more than a user may have: %+v", more)
			}
			if claims, _, why := lookupUser(t.Context(), asked, user, api.Page{}); why != "" || len(claims) != 1 || claims[0].ID != sold.Claim.ID {
				t.Errorf("the user's claims are %+v %s", claims, why)
			}
			if c, why := lookupClaim(t.Context(), asked, sold.Claim.ID, api.Page{}); why != "" || c.User != user {
				t.Errorf("the claim is %+v %s", c, why)
			}
			refund := executor.Settlement{Claim: sold.Claim.ID, How: api.Refund}
			if back := settle(t.Context(), asked, refund); back.Outcome != api.Refunded {
				t.Errorf("refunded: %+v", back)
			}
			if claims, _, _ := lookupUser(t.Context(), asked, "nobody-"+user, api.Page{}); len(claims) != 0 {
				t.Errorf("nobody has %+v", claims)
			}
		}
	}
}

// A process that was killed and started again is known to its peers by two ids for a while,
// and both lead to it. It takes no link that is made to the one before, and goes on
// answering what comes by the other.
func TestLinkToTheProcessBefore(t *testing.T) {
	p := newPair(t)
	dial := peers.Dialer(linkConfig)
	before, closed := p.b.Me(), make(chan struct{})
	ignored := func(uint64, executor.Answer, ownership.Route) {}
	before.ID = "0123456789abcdef"
	if _, err := dial(t.Context(), p.a.Me(), before, ignored, func(error) { close(closed) }); err != nil {
		t.Fatal(err)
	}
	<-closed // the link is not taken
	if a := p.a.Do(t.Context(), executor.Request{User: p.userOf(p.b), Quantity: 1}); a.Outcome != api.Sold {
		t.Errorf("what goes by the other link: %+v", a)
	}
}

// TestHelloOfAnOlderLink: the first message of a link that a process has left is read after that
// of the link that it has made since, which counts as the older one then. What it asks there is
// answered all the same: it has to make a third.
func TestHelloOfAnOlderLink(t *testing.T) {
	p := newPair(t)
	dial := peers.Dialer(linkConfig)
	answered := make(chan struct{})
	answer := func(uint64, executor.Answer, ownership.Route) { close(answered) }
	l, err := dial(t.Context(), p.a.Me(), p.b.Me(), answer, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	query := &request.Ticket{Request: request.Request{Query: &request.Query{User: p.userOf(p.b)}}}
	query.ForwardID = 1 << 63
	l.Forward(peers.EncodeRequest("", query))
	<-answered // its first message has been read
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if a := p.a.Do(ctx, executor.Request{User: p.userOf(p.b), Key: "key", Quantity: 1}); a.Outcome != api.Sold {
		t.Errorf("what goes by the other link: %+v", a)
	}
}

// What a user chooses is asked for on the other process's shards, in whichever process the
// user has asked.
func TestForwardedChoice(t *testing.T) {
	row := &pb.Range{First: 1, Count: 12} // of shard 0
	p := newPairAs(t, &pb.Settings{PerUserLimit: 10, Phase: pb.Phase_OPEN, Choose: true, Rows: []*pb.Range{row}})
	other := p.a
	if p.owners[0] == p.a {
		other = p.b
	}
	// find claims until no shard was too slow to say that it has what is asked for.
	find := func(asked *executor.Executor, r executor.Request) (a executor.Answer) {
		t.Helper()
		wait.Until(t, "all shards have answered", func() bool {
			a = asked.Do(t.Context(), r)
			return a.Outcome != api.UnitsTaken && a.Outcome != api.NotAdjacent
		})
		return a
	}
	unit := int64(100)
	for _, asked := range []*executor.Executor{p.a, p.b} {
		user := p.userOf(other)
		named := []int64{unit, unit + 2, 1<<32 + unit, 5<<32 + unit}
		unit += 4
		sold := find(asked, executor.Request{User: user, Key: "named", Quantity: 4, Units: named})
		if sold.Outcome != api.Sold || !slices.Equal(sold.Claim.Units, named) {
			t.Errorf("for units %v: %+v", named, sold)
		}
		taken := asked.Do(t.Context(), executor.Request{User: p.userOf(other), Key: "named", Quantity: 1, Units: named[:1]})
		if taken.Outcome != api.UnitsTaken || taken.RetryAfter != time.Second {
			t.Errorf("for unit %d again: %+v", named[0], taken)
		}
		run := find(asked, executor.Request{User: user, Key: "run", Quantity: 6, Adjacent: true})
		if want := []int64{row.First, row.First + 1, row.First + 2, row.First + 3, row.First + 4, row.First + 5}; !slices.Equal(run.Claim.Units, want) {
			t.Errorf("for adjacent units: %+v, want %v", run, want)
		}
		row.First += 6
	}
	none := p.a.Do(t.Context(), executor.Request{User: p.userOf(other), Quantity: 1, Adjacent: true})
	if none.Outcome != api.NotAdjacent {
		t.Errorf("for an adjacent one when the row is sold: %+v", none)
	}
}

// BenchmarkForwarded compares the processor time of a claim that a process decides with
// that of one that its peer decides, in turns. Both processes are this one.
func BenchmarkForwarded(b *testing.B) {
	for _, callers := range []int{1, 200, 2000} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			p := newPair(b)
			rounds := []struct {
				name  string
				owner *executor.Executor
				used  time.Duration
			}{{name: "own", owner: p.a}, {name: "forwarded", owner: p.b}}
			n := max(20_000, 40*callers)
			if callers == 1 {
				n = 2000
			}
			for b.Loop() {
				for i := range rounds {
					runtime.GC()
					before := saletest.ProcessorTime(b)
					p.claim(b, rounds[i].owner, callers, n)
					rounds[i].used += saletest.ProcessorTime(b) - before
				}
			}
			b.ReportMetric(0, "ns/op") // a round of both is no operation
			for _, r := range rounds {
				b.ReportMetric(float64(r.used.Microseconds())/float64(b.N*n), r.name+"-us/claim")
			}
			b.ReportMetric(float64(rounds[1].used)/float64(rounds[0].used), "forwarded:own")
		})
	}
}

// claim has callers claim so many units of the first process, for users of an owner's.
func (p *pair) claim(b *testing.B, owner *executor.Executor, callers, n int) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	var wrong atomic.Pointer[executor.Answer]
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				r := executor.Request{User: p.userOf(owner), Key: "key", Quantity: 1}
				if a := p.a.Do(context.Background(), r); a.Outcome != api.Sold {
					wrong.CompareAndSwap(nil, &a)
					return
				}
			}
		})
	}
	all.Wait()
	if a := wrong.Load(); a != nil {
		b.Fatalf("%+v", *a)
	}
}

// linkConfig makes links without a token and TLS.
var linkConfig = peers.Config{
	Sale: "linked", Token: func() string { return "" }, TLS: func() *tls.Config { return nil }, Log: slog.New(slog.DiscardHandler),
}
