package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// gate lets calls through, or makes them hang until it opens or their context
// ends.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
	held atomic.Int64  // calls that hang
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return ctx.Err()
	}
	g.held.Add(1)
	defer g.held.Add(-1)
	select {
	case <-shut:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gatedLogs are logs behind gates.
type gatedLogs struct {
	ledger.Logs
	appends, reads gate
}

func (l *gatedLogs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if err := l.appends.pass(ctx); err != nil {
		return err
	}
	return l.Logs.Append(ctx, log, slot, prev, head, entry)
}

func (l *gatedLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if err := l.reads.pass(ctx); err != nil {
		return nil, nil, err
	}
	return l.Logs.Read(ctx, log, from, max)
}

// gatedNode is a lock node behind a gate.
type gatedNode struct {
	quorum.Node
	gate
	fails atomic.Pointer[error] // of votes; nil: none does
}

func (n *gatedNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if err := n.pass(ctx); err != nil {
		return quorum.BallotReply{}, err
	}
	if err := n.fails.Load(); err != nil {
		return quorum.BallotReply{}, *err
	}
	return n.Node.Vote(ctx, b)
}

func (n *gatedNode) Announce(ctx context.Context, room string, m quorum.Member, ttl time.Duration) ([]quorum.Member, error) {
	if err := n.pass(ctx); err != nil {
		return nil, err
	}
	return n.Node.Announce(ctx, room, m, ttl)
}

func (n *gatedNode) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	if err := n.pass(ctx); err != nil {
		return 0, err
	}
	return n.Node.Release(ctx, requests)
}

// site is an applied sale in an embedded folder.
type site struct {
	t    testing.TB
	dir  string
	sale spec.Sale
	host embedded.Host
	logs ledger.Logs // a handle of its own
}

// inSite runs a test of a site in a bubble: the store is on disk, and time passes only
// while everybody waits.
func inSite(t *testing.T, perUser int64, shares []int64, test func(t *testing.T, s *site)) {
	synctest.Test(t, func(t *testing.T) { test(t, newSite(t, embedded.Host{Wall: time.Now}, perUser, shares...)) })
}

func newSite(t testing.TB, host embedded.Host, perUser int64, shares ...int64) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), host: host}
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	s.sale = saletest.Declared("site", stock, len(shares), perUser)
	s.sale.LockTTL = spec.Duration(quorum.MinTTL)
	logs, node := s.handles()
	s.logs = logs
	saletest.Provision(t, logs, s.sale, shares)
	saletest.Mark(t, node)
	return s
}

// handles opens handles of one more process.
func (s *site) handles() (ledger.Logs, quorum.Node) {
	return openEmbeddedAt(s.t, s.dir, s.host)
}

func openEmbeddedAt(t testing.TB, dir string, host embedded.Host) (ledger.Logs, quorum.Node) {
	t.Helper()
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	node, err := embedded.OpenNode(dir, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return logs, node
}

// siteProcess is an executor that runs, with gates between it and its backends.
type siteProcess struct {
	*Executor
	t    testing.TB
	logs *gatedLogs
	node *gatedNode
	stop func() error // drains it and waits for its end; once is enough
}

func (s *site) process(change func(*Config)) *siteProcess {
	s.t.Helper()
	logs, node := s.handles()
	p := &siteProcess{t: s.t, logs: &gatedLogs{Logs: logs}, node: &gatedNode{Node: node}}
	cfg := Config{Logs: p.logs, Nodes: []quorum.Node{p.node}, Sale: s.sale.Name, Address: "127.0.0.1:1"}
	if change != nil {
		change(&cfg)
	}
	p.Executor = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	s.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
	return p
}

// serve is process, once it is ready.
func (s *site) serve(change func(*Config)) *siteProcess {
	s.t.Helper()
	p := s.process(change)
	wait.UntilNil(s.t, "the process", p.Ready)
	return p
}

// later starts a claim and returns where its answer comes.
func (p *siteProcess) later(ctx context.Context, user, key string) <-chan Answer {
	c := make(chan Answer, 1)
	go func() { c <- p.Do(ctx, Request{User: user, Key: key, Quantity: 1}) }()
	return c
}

// claim claims one unit. A test that goes wrong ends all the same.
func (p *siteProcess) claim(user, key string) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return p.Do(ctx, Request{User: user, Key: key, Quantity: 1})
}

// buy claims one unit, again and again while none is to be had just now.
func (p *siteProcess) buy(user, key string) Answer {
	for {
		if a := p.claim(user, key); a.Outcome != api.NoneNow {
			return a
		}
		time.Sleep(time.Millisecond)
	}
}

// read returns what reads all that may be read.
func (p *siteProcess) read() func() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.Collectors()...)
	return func() {
		p.Status()
		lookupUser(context.Background(), p, "buyer-1", api.Page{})
		_ = p.Ready()
		if _, err := registry.Gather(); err != nil {
			p.t.Error(err)
		}
	}
}
