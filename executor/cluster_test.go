package executor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/saletest"
	"salectl/spec"
)

// cluster is an applied sale on five lock nodes and a store in memory, in a
// bubble where time passes only while everybody waits.
type cluster struct {
	t      *testing.T
	sale   spec.Sale
	store  *memory.Store
	logs   ledger.Logs // a handle without faults
	nodes  []*memory.Node
	lists  []lists.Node // of engine redis
	queue  int          // Config.Queue of its processes
	users  OpenUsers    // Config.Users of its processes
	log    string       // that their gatedStore.one is about
	totals *switchboard // connects its processes
	ended  chan struct{}
}

// inCluster runs a test in a bubble. The clocks of the nodes go on by
// themselves, in steps that are small beside whatever is promised.
func inCluster(t *testing.T, ttl time.Duration, shares []int64, test func(c *cluster)) {
	inClusterThatCloses(t, 0, ttl, shares, test)
}

// inClusterThatCloses is inCluster, with a sale that closes after a while, if that is
// not 0.
func inClusterThatCloses(t *testing.T, after, ttl time.Duration, shares []int64, test func(c *cluster)) {
	inClusterAs(t, ttl, shares, func(c *cluster, settings *pb.Settings) {
		if after != 0 {
			settings.ClosesAtUs = time.Now().Add(after).UnixMicro()
		}
	}, test)
}

// inClusterAs is inCluster of a sale that change has changed, with its settings.
func inClusterAs(t *testing.T, ttl time.Duration, shares []int64, change func(c *cluster, settings *pb.Settings), test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, store: memory.NewStore(), totals: newSwitchboard(), ended: make(chan struct{})}
		c.logs = c.store.Handle(nil)
		stock := int64(0)
		for _, n := range shares {
			stock += n
		}
		c.sale = saletest.Declared("cluster", stock, len(shares), 1)
		c.sale.LockTTL = spec.Duration(ttl)
		settings := &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN}
		change(c, settings)
		saletest.ProvisionAs(t, c.logs, c.sale, shares, settings)
		for i := range 5 {
			c.nodes = append(c.nodes, memory.NewNode(fmt.Sprint("node", i), time.Now()))
			saletest.Mark(t, c.nodes[i])
		}
		var clocks sync.WaitGroup
		clocks.Go(func() {
			const step = 5 * time.Millisecond
			for tick := time.NewTicker(step); ; {
				select {
				case <-tick.C:
					for _, n := range c.nodes {
						n.Advance(step)
					}
				case <-c.ended:
					tick.Stop()
					return
				}
			}
		})
		test(c)
		close(c.ended)
		clocks.Wait()
	})
}

// clusterProcess is one process of a cluster.
type clusterProcess struct {
	*Executor
	c     *cluster
	store *gatedStore
	nodes []*gatedNode
	links gate // of what comes from and goes to other processes
	log   *lines
	over  chan error // has what Run returned
	stop  func()     // has it give its shards to others, and end
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how many lines have a text in them.
func (l *lines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// gatedStore is a handle on a store behind a gate for all calls, and one for
// those of a single log.
type gatedStore struct {
	ledger.Logs
	all, one gate
	log      string // of one

	reads, mostReads atomic.Int64 // under way, and how many there were at once
}

func (s *gatedStore) pass(ctx context.Context, log string) error {
	if log == s.log {
		if err := s.one.pass(ctx); err != nil {
			return err
		}
	}
	return s.all.pass(ctx)
}

func (s *gatedStore) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if err := s.pass(ctx, log); err != nil {
		return err
	}
	return s.Logs.Append(ctx, log, slot, prev, head, entry)
}

func (s *gatedStore) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	defer s.reads.Add(-1)
	if n := s.reads.Add(1); n > s.mostReads.Load() {
		s.mostReads.Store(n)
	}
	time.Sleep(time.Millisecond)
	if err := s.pass(ctx, log); err != nil {
		return nil, nil, err
	}
	return s.Logs.Read(ctx, log, from, max)
}

// start starts a process whose calls of the store suffer the faults.
func (c *cluster) start(name string, faults memory.Faults) *clusterProcess {
	m := &clusterProcess{c: c, store: &gatedStore{Logs: c.store.Handle(faults), log: c.log}, log: &lines{}}
	var nodes []quorum.Node
	for _, n := range c.nodes {
		m.nodes = append(m.nodes, &gatedNode{Node: n})
		nodes = append(nodes, m.nodes[len(m.nodes)-1])
	}
	address := name + ":1"
	m.Executor = New(Config{
		Logs: m.store, Nodes: nodes, Sale: c.sale.Name, Address: address, Queue: c.queue, Lists: c.lists, Users: c.users,
		Logger: slog.New(slog.NewTextHandler(m.log, nil)), Dial: c.totals.dial,
	})
	c.totals.join(address, m.Executor, &m.links)
	ctx, cancel := context.WithCancel(c.t.Context())
	m.over = make(chan error, 1)
	go func() { m.over <- m.Run(ctx) }()
	m.stop = sync.OnceFunc(func() {
		bound, over := context.WithTimeout(ctx, 20*time.Second)
		defer over()
		m.Retire(bound, func(int) {})
		cancel()
		if err := <-m.over; err != nil {
			c.t.Errorf("Run: %v", err)
		}
		c.totals.cut(address)
	})
	return m
}

// serve is start, once it is ready.
func (c *cluster) serve(name string, faults memory.Faults) *clusterProcess {
	c.t.Helper()
	m := c.start(name, faults)
	m.within(10*time.Second, "ready", func() bool { return m.Ready() == nil })
	return m
}

// shared waits until each of some processes owns as many shards as it should, and can
// answer for all.
func shared(all ...*clusterProcess) {
	for _, m := range all {
		m.c.t.Helper()
		m.within(10*time.Second, "sharing", func() bool {
			s := m.Status()
			if m.Ready() != nil || len(s.Processes) != len(all) {
				return false
			}
			for _, x := range s.Processes {
				if x.Shards == nil || *x.Shards != x.Assigned {
					return false
				}
			}
			return true
		})
	}
}

// within fails the test unless something happens in time, and returns when.
func (m *clusterProcess) within(d time.Duration, what string, ok func() bool) time.Duration {
	m.c.t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > d {
			m.c.t.Fatalf("after %v it is not %s (ready: %v)\n%s", time.Since(begin), what, m.Ready(), m.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

// cut takes the process away from everything: to all others it is dead.
func (m *clusterProcess) cut() {
	m.store.all.close()
	m.links.close()
	for _, n := range m.nodes {
		n.close()
	}
}

func (m *clusterProcess) heal() {
	m.store.all.open()
	m.links.open()
	for _, n := range m.nodes {
		n.open()
	}
}

// claim claims one unit, and waits as long as a buyer does over HTTP.
func (m *clusterProcess) claim(user string) Answer {
	ctx, cancel := context.WithTimeout(m.c.t.Context(), 5*time.Second)
	defer cancel()
	return m.Do(ctx, Request{User: user, Key: "key", Quantity: 1})
}

// later is claim, whose answer comes when it does.
func (m *clusterProcess) later(user string) <-chan Answer {
	a := make(chan Answer, 1)
	go func() { a <- m.claim(user) }()
	return a
}

// sells fails the test unless each of some buyers gets a unit.
func (m *clusterProcess) sells(users ...string) {
	m.c.t.Helper()
	for _, user := range users {
		if a := m.claim(user); a.Outcome != api.Sold {
			m.c.t.Fatalf("%s gets %+v\n%s", user, a, m.log)
		}
	}
}

// metric returns the value of a gauge or counter, by name and the value of its
// label, "" for none.
func (m *clusterProcess) metric(name, label string) float64 {
	m.c.t.Helper()
	v, is := scrape(m.c.t, m.Executor)[strings.TrimSpace(name+" "+label)]
	if !is {
		m.c.t.Fatalf("no metric %s of %q", name, label)
	}
	return v
}

// shows reports whether a metric has a value. While a process cannot tell of all shards it has none
// of the sale's.
func (m *clusterProcess) shows(name, label string, want float64) bool {
	m.c.t.Helper()
	v, is := scrape(m.c.t, m.Executor)[strings.TrimSpace(name+" "+label)]
	return is && v == want
}

// scrape returns what the metrics of a process say: by name and, behind a blank, the values
// of its labels but for the sale's; of a histogram how many were observed.
func scrape(t testing.TB, e *Executor) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			labels := ""
			for _, l := range one.GetLabel() {
				if l.GetName() != "sale" {
					labels += l.GetValue()
				}
			}
			all[strings.TrimSpace(f.GetName()+" "+labels)] = one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// ended counts the machines of shards that have ended on a process.
func (m *clusterProcess) ended() float64 {
	return m.metric("salectl_shard_sessions_total", "ended")
}

// TestGoingDownIsTold has a process be told to end while its peer cannot take its shards yet: the
// peer reports the phase draining, and what it says itself is the same.
func TestGoingDownIsTold(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{9, 9}, func(c *cluster) {
		a, b := c.start("a", nil), c.start("b", nil)
		defer a.stop()
		shared(a, b)
		a.store.all.close()
		ended := make(chan struct{})
		go func() {
			b.stop()
			close(ended)
		}()
		for _, m := range []*clusterProcess{a, b} {
			m.within(time.Second, "telling that one is draining", func() bool {
				return m.shows("salectl_members", api.ProcessDraining, 1) && m.shows("salectl_members", api.ProcessStandby, 0)
			})
		}
		if s, err := b.StandBy(c.t.Context(), true); err != nil || s.State != api.ProcessDraining {
			t.Errorf("it takes shards again that is told to end: %+v, %v", s, err)
		}
		a.store.all.open()
		<-ended
		shared(a)
	})
}

// TestMovesWhileOneIsAway has a process begin that does not reach another, and that one of three
// die later: no move is told to it or from it, nor that it owns a shard, and whoever is to have its
// shards is.
func TestMovesWhileOneIsAway(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{9, 9, 9, 9, 9, 9}, func(c *cluster) {
		gone := c.serve("gone", nil)
		defer gone.stop()
		gone.links.close()
		a := c.start("a", nil)
		defer a.stop()
		unreached, fallsBack := 0, false
		look := func() (members int) {
			s, reached := a.Status(), make(map[string]bool)
			for _, m := range s.Processes {
				if reached[m.Address] = m.Up; !m.Up {
					unreached++
				}
			}
			for _, m := range s.Moves {
				if !reached[m.To] || m.From != "" && !reached[m.From] {
					t.Errorf("shard %d moves from %q to %q, and reached are %v", m.Shard, m.From, m.To, reached)
				}
				fallsBack = fallsBack || m.From == ""
			}
			for _, x := range s.Shards {
				if x.Unknown && x.Owner != "" && !reached[x.Owner] {
					t.Errorf("the owner of shard %d, of which nothing is known, is %s, and reached are %v", x.Shard, x.Owner, reached)
				}
			}
			return len(s.Processes)
		}
		a.within(ownership.GoneAfter, "told of the other for a second", func() bool { return look() > 0 && unreached == 100 })
		gone.links.open()
		b := c.start("b", nil)
		defer b.stop()
		shared(a, b, gone)
		fallsBack = false
		gone.cut()
		a.within(3*quorum.DefaultTTL, "rid of the dead one", func() bool { return look() == 2 })
		if !fallsBack {
			t.Error("nobody was told to take the shards of the dead one")
		}
		gone.heal()
		shared(a, b, gone)
	})
}
