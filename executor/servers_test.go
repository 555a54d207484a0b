package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/hbase"
	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/executor/saletest"
	"salectl/services"
	"salectl/spec"
)

// The promises about time are held to in virtual time (fault_test.go). What runs
// on real servers shows that the drivers keep their part of them, however slow
// the machine is.
const patience = 20 * time.Second

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

// soon waits for something that others promise to happen sooner.
func soon(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > patience {
			t.Fatalf("after %v it is not %s", time.Since(began), what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// buyers claims one unit for a new buyer at each call, who waits as long as one
// does over HTTP.
func (p *process) buyers(prefix string) func() api.Outcome {
	n := 0
	return func() api.Outcome {
		n++
		ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
		defer cancel()
		return p.Claim(ctx, Request{User: fmt.Sprint(prefix, n), Key: "key", Quantity: 1}).Outcome
	}
}

// during fails the test unless all claims for a while come to an outcome.
func during(t *testing.T, d time.Duration, want api.Outcome, claim func() api.Outcome) {
	t.Helper()
	for began := time.Now(); time.Since(began) < d; time.Sleep(20 * time.Millisecond) {
		if got := claim(); got != want {
			t.Fatalf("after %v a claim comes to %s, want %s", time.Since(began), got, want)
		}
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
	s := newSite(t, 1, 5000, 5000)
	for _, n := range lockNodes(t, servers) {
		saletest.Mark(t, n)
	}
	p := s.serve(func(c *Config) { c.Nodes = lockNodes(t, servers) })
	claim, ttl := p.buyers("buyer-"), s.sale.LockTTL
	during(t, time.Second, api.Sold, claim)
	mustDo(t, servers[0].Kill(), servers[1].Pause())
	during(t, 3*ttl, api.Sold, claim)

	mustDo(t, servers[2].Pause())
	took := soon(t, "without quorum", func() bool { return claim() == api.NoQuorum })
	during(t, 2*ttl, api.NoQuorum, claim)
	t.Logf("the third paused: stopped after %v", took)
	mustDo(t, servers[2].Continue())
	t.Logf("the third continued: sells after %v", soon(t, "selling", func() bool { return claim() == api.Sold }))

	mustDo(t, servers[2].Kill())
	soon(t, "without quorum", func() bool { return claim() == api.NoQuorum })
	mustDo(t, servers[2].Start(t.Context()))
	began := time.Now()
	soon(t, "abstaining", func() bool { return strings.Contains(fmt.Sprint(p.Ready()), servers[2].Addr()+" lost its memory") })
	soon(t, "selling", func() bool { return claim() == api.Sold })
	if took := time.Since(began); took < quorum.MaxTTL-time.Second {
		t.Errorf("a node without memory voted after %v", took)
	}
	t.Logf("the third restarted empty: sells after %v", time.Since(began))
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
	s := newSite(t, 1, 5000, 5000)
	logs := open()
	s.logs = logs
	mustDo(t, logs.CreateTable(t.Context()))
	saletest.Provision(t, logs, s.sale, []int64{5000, 5000})
	for _, n := range lockNodes(t, servers) {
		saletest.Mark(t, n)
	}
	process := func(c *Config) {
		c.Nodes = nil
		for _, n := range lockNodes(t, servers) {
			c.Nodes = append(c.Nodes, &gatedNode{Node: n})
		}
		c.Logs = &gatedLogs{Logs: open()}
	}
	var nodes, others []quorum.Node // of the first, of the second
	first := s.serve(func(c *Config) { process(c); nodes = c.Nodes })
	second := s.process(func(c *Config) { process(c); others = c.Nodes })
	claim := first.buyers("buyer-")
	during(t, time.Second, api.Sold, claim)
	was := first.claim("ann", "key")

	mustDo(t, store.Pause())
	soon(t, "refusing", func() bool { return claim() == api.NoQuorum })
	during(t, 8*time.Second, api.NoQuorum, claim)
	if a := second.claim("ann", "key"); a.Outcome != api.NoQuorum {
		t.Errorf("the standby says %+v", a)
	}
	mustDo(t, store.Continue())
	t.Logf("HBase continued: sells after %v", soon(t, "selling", func() bool { return claim() == api.Sold }))

	mustDo(t, store.Kill(), store.Start(t.Context()))
	t.Logf("HBase restarted: sells after %v", soon(t, "selling", func() bool { return claim() == api.Sold || second.buy("bob", "key").Outcome == api.Sold }))
	soon(t, "one's", func() bool { return first.Ready() == nil || second.Ready() == nil })
	if second.Ready() == nil { // it took over: the machine was busy for longer than a ttl
		first, second, nodes = second, first, others
	}

	for _, n := range nodes { // the first dies, as far as the others can see
		n.(*gatedNode).close()
	}
	t.Logf("took over after %v", soon(t, "serving", func() bool { return second.Ready() == nil }))
	if a := first.claim("carl", "key"); a.Accepted() {
		t.Errorf("the first process says %+v", a)
	}
	if a := second.claim("ann", "key"); a.Outcome != api.Sold || a.Claim.ID != was.Claim.ID {
		t.Errorf("ann was told %+v, and is told %+v", was, a)
	}
	for _, n := range nodes {
		n.(*gatedNode).open()
	}
	soon(t, "a standby", func() bool { return first.claim("carl", "key").Outcome == api.Standby })
	saletest.Audited(t, s.logs, s.sale.Name)
}
