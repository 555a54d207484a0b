package executor

import (
	"context"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestUndecided asks for one key again and again while its claim is being
// appended and the store does not answer: through the stall, the loss of the right
// to append, a full queue, a drain, and the end of the session. Others hear what is
// the matter; of this key nobody knows.
func TestUndecided(t *testing.T) {
	const others = 2 * time.Second // have given up by then
	begin := func(c *cluster) *clusterProcess {
		c.queue = 3
		m := c.serve("first", nil)
		m.sells("ann")
		m.store.all.close()
		m.later("bob")
		time.Sleep(time.Millisecond)
		return m
	}
	// hears asks at once: bob's request, and that of somebody else.
	hears := func(m *clusterProcess, want api.Outcome) {
		m.c.t.Helper()
		for user, want := range map[string]api.Outcome{"bob": api.Unknown, "carl": want} {
			if a := m.claim(user); a.Outcome != want {
				m.c.t.Errorf("%s hears %+v, want %s", user, a, want)
			}
			if a := m.Refuse(Request{User: user, Key: "key", Quantity: 1}, request.Refusal(api.Draining)); (a.Outcome == api.Unknown) != (user == "bob") {
				m.c.t.Errorf("declined, %s hears %+v", user, a)
			}
		}
		if a := m.Do(m.c.t.Context(), Request{User: "dora", Quantity: 1}); a.Outcome != want {
			m.c.t.Errorf("without a key, dora hears %+v, want %s", a, want)
		}
	}
	sold := func(m *clusterProcess) {
		m.c.t.Helper()
		m.store.all.open()
		m.within(10*time.Second, "selling", func() bool { return m.claim("bob").Outcome == api.Sold })
		if a := m.claim("bob"); !a.Replayed {
			m.c.t.Errorf("bob hears %+v", a)
		}
		m.within(10*time.Second, "selling to others", func() bool { return m.claim("carl").Outcome == api.Sold })
		saletest.Audited(m.c.t, m.c.logs, m.c.sale.Name)
	}
	t.Run("stalled, without rights, given up", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			seen := map[api.Outcome]bool{}
			for began := time.Now(); time.Since(began) < shard.EndAfter+20*time.Second; time.Sleep(500 * time.Millisecond) {
				if a := m.claim("bob"); a.Outcome != api.Unknown {
					t.Fatalf("after %v bob hears %+v", time.Since(began), a)
				}
				seen[m.claim("carl").Outcome] = true
			}
			if !seen[api.NoQuorum] || len(seen) != 1 {
				t.Errorf("carl heard %v", seen)
			}
			if m.ended() == 0 {
				t.Errorf("the shard was never given up:\n%s", m.log)
			}
			sold(m)
		})
	})
	t.Run("another owner", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			m.cut()
			second := c.serve("second", nil)
			defer second.stop()
			time.Sleep(shard.EndAfter)
			hears(m, api.NoQuorum)
			second.sells("carl")
			m.heal()
			m.within(20*time.Second, "asking the other", func() bool {
				if a := m.claim("bob"); a.Outcome != api.Unknown && !a.Accepted() {
					t.Errorf("of a claim that another process decides, it says %+v", a)
				}
				return m.claim("carl").Outcome == api.Sold
			})
			second.sells("bob")
			was := second.claim("bob")
			if a := m.claim("bob"); a.Outcome != api.Sold || a.Claim.ID != was.Claim.ID {
				t.Errorf("bob was told %+v, and by way of the other %+v", was, a)
			}
			second.stop()
			m.within(20*time.Second, "selling", func() bool { return m.claim("dan").Outcome == api.Sold })
			if a := m.claim("bob"); a.Outcome != api.Sold || a.Claim.ID != was.Claim.ID {
				t.Errorf("bob was told %+v, and when the other has gone %+v", was, a)
			}
		})
	})
	t.Run("queue full", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			for _, user := range []string{"eve", "fay"} { // they have no time limit
				go m.Do(c.t.Context(), Request{User: user, Key: "key", Quantity: 1})
			}
			time.Sleep(time.Millisecond)
			hears(m, api.Overloaded)
			// Of those in the queue it is not known either.
			if a := m.claim("eve"); a.Outcome != api.Unknown {
				t.Errorf("eve, who waits in the queue, hears %+v", a)
			}
			sold(m)
		})
	})
	t.Run("queued twice, and given up", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			first, end := context.WithCancel(c.t.Context())
			heard := make(chan Answer, 1)
			go func() { heard <- m.Do(first, Request{User: "eve", Key: "key", Quantity: 1}) }()
			time.Sleep(time.Millisecond)
			second, cancel := context.WithTimeout(c.t.Context(), time.Second)
			defer cancel()
			if a := m.Do(second, Request{User: "eve", Key: "key", Quantity: 1}); a.Outcome != api.Unknown {
				t.Errorf("given up while an earlier request waits: %+v", a)
			}
			end()
			if a := <-heard; a.Outcome != api.Overloaded {
				t.Errorf("given up while nothing else waits: %+v", a)
			}
			if n := m.machine.Shards()[0].Underway.Len(); n != 1 {
				t.Errorf("%d requests are under way, want bob's", n)
			}
			sold(m)
		})
	})
	t.Run("draining", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			go m.stop()
			time.Sleep(10 * time.Millisecond)
			hears(m, api.Draining)
			time.Sleep(process.DrainTimeout + others)
			hears(m, api.Draining) // it is gone, and it never learned
			m.store.all.open()
			m.stop()
			hears(m, api.Draining)
		})
	})
	t.Run("sold out meanwhile", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			totals := m.machine.Totals()
			totals.Set(0, 99, ledger.Totals{Generation: 1, Limit: 50, Sold: 50}, time.Time{}, true) // and more units come before bob's claim is decided
			if a := m.claim("carl"); a.Outcome != api.SoldOut {
				t.Errorf("carl hears %+v", a)
			}
			if a := m.claim("bob"); a.Outcome != api.Unknown {
				t.Errorf("while a claim of that key is under way, bob hears %+v", a)
			}
			totals.Set(0, 99, ledger.Totals{Generation: 1, Limit: 50, Sold: 1}, time.Time{}, true)
			sold(m)
		})
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		const closes = 2 * time.Second // a process without the store has no rights after 3 s
		inClusterThatCloses(t, closes, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			time.Sleep(closes) // before the append is known
			hears(m, api.Closed)
			m.store.all.open()
			m.within(10*time.Second, "selling", func() bool { return m.claim("bob").Outcome == api.Sold })
		})
	})
}

// TestUndecidedGrab leaves a call of a list's node without an answer: it lands
// after its user has asked again.
func TestUndecidedGrab(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			s := newListSite(t, ack, 1, nil, 50)
			p, held, _ := s.farProcess()
			wait.UntilNil(t, "the process", p.Ready)
			node := held[0]
			node.hold()
			if a := p.claim("bob", "a"); a.Outcome != api.Unknown {
				t.Fatalf("without an answer of the node bob hears %+v", a)
			}
			node.mu.Lock()
			node.held = false // it answers again, and what came before is still on its way
			node.mu.Unlock()
			wait.Until(t, "a unit is sold", func() bool { return p.claim("ann", "a").Outcome == api.Sold })
			for user, want := range map[string]api.Outcome{"bob": api.Unknown, "carl": api.Draining} {
				if a := p.Refuse(Request{User: user, Key: "a", Quantity: 1}, request.Refusal(api.Draining)); a.Outcome != want {
					t.Errorf("%s hears %+v, want %s", user, a, want)
				}
			}
			if n := node.letGo(); n == 0 {
				t.Error("nothing was on its way")
			}
			if a := p.claim("bob", "a"); a.Outcome != api.Sold {
				t.Errorf("asked again, bob hears %+v", a)
			}
			wait.Until(t, "a unit is sold", func() bool {
				return p.Refuse(Request{User: "bob", Key: "a", Quantity: 1}, request.Refusal(api.Draining)).Outcome == api.Sold
			})
			if a := saletest.Audited(t, s.logs, "site"); a.Sold != 2 {
				t.Errorf("audit: %+v", a)
			}
		})
	}
}

// TestUndecidedWhenLost has the sale's log damaged while a claim is being appended:
// the process gives the sale up, and still does not deny the claim.
func TestUndecidedWhenLost(t *testing.T) {
	inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
		handle, node := s.handles()
		logs := &gatedLogs{Logs: handle}
		p := New(Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: s.sale.Name, Address: "127.0.0.1:1"})
		ended := make(chan error, 1)
		go func() { ended <- p.Run(t.Context()) }()
		wait.UntilNil(t, "the process", p.Ready)
		request := Request{User: "ann", Key: "1", Quantity: 1}
		logs.appends.close()
		go p.Do(t.Context(), request)
		wait.Until(t, "an append is held", func() bool { return logs.appends.held.Load() == 1 })
		log := spec.SaleLog(s.sale.Name)
		head, entries, err := s.logs.Read(t.Context(), log, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.logs.Append(t.Context(), log, uint64(len(entries)), head, []byte(`{"slot":2}`), []byte("garbage")); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the session has ended", func() bool { _, away := p.machine.Away(); return away })
		if a := p.Do(t.Context(), request); a.Outcome != api.Unknown {
			t.Errorf("while it ends ann hears %+v", a)
		}
		if <-ended == nil {
			t.Error("Run ends without an error")
		}
		if a := p.Do(t.Context(), request); a.Outcome != api.Unknown {
			t.Errorf("after it has ended ann hears %+v", a)
		}
		if a := p.Do(t.Context(), Request{User: "bob", Key: "1", Quantity: 1}); a.Outcome != api.NoQuorum {
			t.Errorf("bob hears %+v", a)
		}
	})
}
