package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/backends/hbase"
	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// The promises about time are held to in virtual time (fault_test.go). What runs
// on real servers shows that the drivers keep their part of them, however slow
// the machine is: a process that is not run for a ttl loses its leases.

// redisServers starts five.
func redisServers(t *testing.T) (servers []*services.Redis) {
	t.Helper()
	for range 5 {
		r, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir()})
		services.Require(t, err)
		t.Cleanup(r.Stop)
		servers = append(servers, r)
	}
	return servers
}

// lockNodes returns new connections to servers.
func lockNodes(t *testing.T, servers []*services.Redis) (nodes []quorum.Node) {
	t.Helper()
	var addresses []string
	for _, r := range servers {
		addresses = append(addresses, r.Addr())
	}
	opened, err := redis.Nodes(spec.Redis{Nodes: addresses})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range opened {
		t.Cleanup(func() {
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, n)
	}
	return nodes
}

// mustDo fails the test if a server does not do as it is told.
func mustDo(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// buyers claims one unit at each call for a new buyer, who waits as long as one does over
// HTTP, from whichever process serves.
func (s *site) buyers(ps ...*siteProcess) func() api.Outcome {
	n, claim := 0, anyOf(ps...)
	return func() api.Outcome {
		n++
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		return claim(ctx, Request{User: fmt.Sprint("buyer-", n), Key: "key", Quantity: 1}).Outcome
	}
}

// TestServers runs beside nothing else: a machine that starts servers is too slow
// for others' leases.
func TestServers(t *testing.T) {
	t.Run("RedisFails", redisFails)
	t.Run("HBaseAndOwnerFail", hbaseAndOwnerFail)
}

// redisFails takes real lock nodes away from a process that serves.
func redisFails(t *testing.T) {
	t.Parallel()
	servers := redisServers(t)
	s := newSite(t, embedded.ThisHost(), 1, 5000, 5000)
	for _, n := range lockNodes(t, servers) {
		saletest.Mark(t, n)
	}
	p := s.serve(func(c *Config) { c.Nodes = lockNodes(t, servers) })
	claim := s.buyers(p)
	sells := func() bool { return claim() == api.Sold }
	// more waits until a metric has grown, after all that is under way.
	more := func(metric string, by float64) {
		t.Helper()
		before := scrape(t, p.Executor)[metric]
		wait.Until(t, metric+" grows", func() bool { return scrape(t, p.Executor)[metric] >= before+by })
	}
	// refuses wants that no claim is accepted while leases are tried for.
	refuses := func() {
		t.Helper()
		wait.Until(t, "without quorum", func() bool { return claim() == api.NoQuorum })
		for range 3 {
			more("salectl_lock_tries_total refused", 1)
			if got := claim(); got != api.NoQuorum {
				t.Errorf("without a majority of the lock nodes a claim comes to %s", got)
			}
		}
	}
	mustDo(t, servers[0].Kill(), servers[1].Pause())
	more("salectl_lock_renewals_total", 6) // each of two shards
	wait.Until(t, "selling without two of five", sells)

	mustDo(t, servers[2].Pause())
	refuses()
	mustDo(t, servers[2].Continue())
	wait.Until(t, "selling when the third goes on", sells)

	mustDo(t, servers[2].Kill())
	refuses()
	mustDo(t, servers[2].Start(t.Context()))
	began := time.Now()
	wait.Until(t, "the third abstains", func() bool { return strings.Contains(fmt.Sprint(p.Ready()), servers[2].Addr()+" lost its memory") })
	wait.Until(t, "selling when the third votes", sells)
	if took := time.Since(began); took < quorum.MaxTTL-time.Second {
		t.Errorf("a node without memory voted after %v", took)
	}
	mustDo(t, servers[1].Continue())
	saletest.Audited(t, s.logs, s.sale.Name)
}

// hbaseAndOwnerFail serves a sale on Redis and HBase from two processes, stops
// HBase, kills it, and has the first process die. What was accepted is kept.
func hbaseAndOwnerFail(t *testing.T) {
	t.Parallel()
	servers := redisServers(t)
	store, err := services.StartHBase(t.Context(), services.HBaseOptions{})
	services.Require(t, err)
	t.Cleanup(store.Stop)
	open := func() *hbase.Logs {
		logs, err := hbase.Open(hbase.Options{Zookeeper: []string{store.Zookeeper()}, Table: "sales"})
		mustDo(t, err)
		t.Cleanup(func() { mustDo(t, logs.Close()) })
		return logs
	}
	s := newSite(t, embedded.ThisHost(), 1, 5000, 5000)
	logs := open()
	s.logs = logs
	mustDo(t, logs.CreateTable(t.Context()))
	saletest.Provision(t, logs, s.sale, []int64{5000, 5000})
	for _, n := range lockNodes(t, servers) {
		saletest.Mark(t, n)
	}
	connect := func(c *Config) {
		c.Nodes = nil
		for _, n := range lockNodes(t, servers) {
			c.Nodes = append(c.Nodes, &gatedNode{Node: n})
		}
		c.Logs = &gatedLogs{Logs: open()}
	}
	var nodes, others []quorum.Node // of the first, of the second
	first := s.serve(func(c *Config) { connect(c); nodes = c.Nodes })
	second := s.process(func(c *Config) { connect(c); others = c.Nodes })
	claim := s.buyers(first, second)
	sells := func() bool { return claim() == api.Sold }
	wait.Until(t, "selling", sells)
	var was Answer
	wait.Until(t, "ann has a unit", func() bool {
		was = anyOf(first, second)(t.Context(), Request{User: "ann", Key: "key", Quantity: 1})
		return was.Outcome == api.Sold
	})

	mustDo(t, store.Pause())
	wait.Until(t, "refusing", func() bool { return claim() == api.NoQuorum })
	wait.Until(t, "both fail to read the ledger", func() bool {
		return scrape(t, first.Executor)["salectl_ledger_up"]+scrape(t, second.Executor)["salectl_ledger_up"] == 0
	})
	for _, p := range []*siteProcess{first, second} {
		if a := p.claim("carl", "key"); a.Accepted() {
			t.Errorf("while HBase is away a process says %+v", a)
		}
	}
	mustDo(t, store.Continue())
	wait.Until(t, "selling when HBase goes on", sells)

	mustDo(t, store.Kill(), store.Start(t.Context()))
	wait.Until(t, "selling when HBase has restarted", sells)
	wait.Until(t, "one is ready", func() bool { return first.Ready() == nil || second.Ready() == nil })
	if second.Ready() == nil { // it took over: the machine was busy for longer than a ttl
		first, second, nodes = second, first, others
	}

	for _, n := range nodes { // the first dies, as far as the others can see
		n.(*gatedNode).close()
	}
	wait.Until(t, "the second serves", func() bool { return second.claim("ann", "key").Outcome == api.Sold })
	if a := first.claim("carl", "key"); a.Accepted() {
		t.Errorf("the first process says %+v", a)
	}
	if a := second.claim("ann", "key"); a.Accepted() && a.Claim.ID != was.Claim.ID {
		t.Errorf("ann was told %+v, and is told %+v", was, a)
	}
	for _, n := range nodes {
		n.(*gatedNode).open()
	}
	wait.Until(t, "one is a standby", func() bool {
		return first.claim("carl", "key").Outcome == api.Standby || second.claim("carl", "key").Outcome == api.Standby
	})
	saletest.Audited(t, s.logs, s.sale.Name)
}
