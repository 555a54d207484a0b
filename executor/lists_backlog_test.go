package executor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/executor/ownership"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestListsBacklog has the ledger stall, and many ask at once. With ack redis the
// lists give on, until as many grabs as the backlog allows are not in the ledger, and
// never one more; all others are refused as overloaded. When the ledger is back, so
// is the sale.
func TestListsBacklog(t *testing.T) {
	t.Parallel()
	const backlog, callers = 50, 600
	s := listSiteAt(t, spec.AckRedis, []string{startRedis(t, always...).Addr(), startRedis(t, always...).Addr()},
		func(sale *spec.Sale, _ *pb.Settings) { sale.Backlog = backlog }, spec.Shares(800, 4)...)
	p := s.serve()
	p.awaitLists()
	c := newCrowd(t, s, p.Do)
	if a := c.one("first", "key"); a.Outcome != api.Sold {
		t.Fatalf("%+v", a)
	}
	c.await("drained", func() bool { return len(c.inLedger()) == 1 })
	for round := range 3 {
		had := int64(len(c.inLedger()))
		var slow atomic.Int64 // for whom the machine was too slow
		p.logs.appends.close()
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				user := fmt.Sprint("eager-", round, "-", i)
				a := p.claim(user, "key")
				switch {
				case a.Outcome == api.Unknown, a.Outcome == api.NoQuorum, a.Outcome == api.Standby:
					slow.Add(1)
				case a.Outcome != api.Sold && (a.Outcome != api.Overloaded || a.RetryAfter == 0):
					t.Errorf("while the ledger stalls: %+v", a)
				}
				c.mu.Lock()
				c.heard(user, a)
				c.mu.Unlock()
			})
		}
		all.Wait()
		gave := c.sold() + 1 - had // with the first
		if gave > backlog || gave < backlog && slow.Load() == 0 {
			t.Errorf("%d of %d were told to have a unit where the ledger may lack %d", gave, callers, backlog)
		}
		if in := int64(len(c.inLedger())); in != had {
			t.Errorf("%d are in a ledger that stalls, which had %d", in, had)
		}
		p.logs.appends.open()
		c.await("drained", func() bool { return int64(len(c.inLedger())) >= had+gave })
		c.kept()
	}
	c.race(40, func() {})
}

// TestListsStalledLedger has the ledger stall under ack ledger: nobody is told
// anything that it does not have.
func TestListsStalledLedger(t *testing.T) {
	t.Parallel()
	s := newListSite(t, spec.AckLedger, 2, nil, spec.Shares(400, 4)...)
	p := s.serve()
	c := newCrowd(t, s, p.Do)
	c.race(40, func() {
		c.at(30, p.logs.appends.close)
		c.await("stalled", func() bool { return p.logs.appends.held.Load() == 4 })
		c.kept()
		in := int64(len(c.inLedger()))
		c.await("refused", func() bool { return c.count(api.NoQuorum) > 50 })
		if sold := c.sold(); sold > in {
			t.Errorf("%d have a unit while the ledger stalls with %d claims", sold, in)
		}
		c.kept()
		p.logs.appends.open()
	})
}

// TestListsDrain ends a process while the ledger hangs: with ack ledger, who waits
// for it is told when it is back.
func TestListsDrain(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, spec.Shares(600, 3)...)
		first := s.site.serve(func(c *Config) {
			c.Nodes, c.Lists = s.connect()
			c.DrainTimeout = time.Minute
		})
		c := newCrowd(t, s, first.Do)
		first.awaitLists()
		first.logs.appends.close()
		var all sync.WaitGroup
		var slow atomic.Int64 // who come when the shards have stalled
		for i := range 60 {
			all.Go(func() {
				user := fmt.Sprint("waiting-", i)
				a := first.claim(user, "key")
				switch {
				case a.Outcome == api.NoQuorum, a.Outcome == api.Standby:
					slow.Add(1)
				case a.Outcome != api.Sold:
					t.Errorf("%s, whom a process that goes down has in its hands: %+v", user, a)
				}
				c.mu.Lock()
				c.heard(user, a)
				c.mu.Unlock()
			})
		}
		wait.Until(t, "the ledger lacks 60 grabs", func() bool { return first.logs.appends.held.Load() == 3 && first.undrained()+slow.Load() == 60 })
		ended := make(chan error, 1)
		go func() { ended <- first.stop() }()
		wait.Until(t, "the process is draining", func() bool { return first.Ready() == ownership.ErrDraining })
		if a := first.claim("late", "key"); a.Outcome != api.Draining {
			t.Errorf("a claim while it drains: %+v", a)
		}
		if n := c.sold(); ack == spec.AckLedger && n != 0 {
			t.Errorf("%d were told to have a unit by a process whose ledger hangs", n)
		}
		first.logs.appends.open()
		all.Wait()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		c.kept() // with ack redis too: it drains before it leaves
		second := s.serve()
		c.claim = second.Do
		c.settle()
	})
}

// awaitLists waits until all lists give.
func (p *siteProcess) awaitLists() {
	p.t.Helper()
	wait.Until(p.t, "all lists give", func() bool {
		shards := p.Status().Shards
		return len(shards) > 0 && !slices.ContainsFunc(shards, func(s ShardStatus) bool { return !s.ListOn })
	})
}

// undrained returns how many grabs the ledger lacks, as far as the process knows.
func (p *siteProcess) undrained() (all int64) {
	for _, s := range p.Status().Shards {
		all += s.Undrained
	}
	return all
}

// TestListsBacklogLost has a server lose what it gave, again and again, each time as
// much as the ledger may lack, within one session. What is lost is not counted any
// more: the sale goes on each time, and to its end.
func TestListsBacklogLost(t *testing.T) {
	t.Parallel()
	const backlog, callers = 10, 60
	server := startRedis(t)
	s := listSiteAt(t, spec.AckRedis, []string{server.Addr()},
		func(sale *spec.Sale, _ *pb.Settings) { sale.Backlog = backlog }, spec.Shares(300, 2)...)
	p := s.serve()
	c := newCrowd(t, s, p.Do)
	c.lossy = true
	_, kept := s.connect()
	p.awaitLists()
	before := p.machine.Shards()[0]
	// oneOfEach sells a unit of each shard.
	oneOfEach := func(name string) (sold int64) {
		t.Helper()
		for shard := range 2 {
			user := name
			for spec.HomeShard(user, 2) != shard {
				user += "'"
			}
			if a := c.one(user, "key"); a.Outcome != api.Sold {
				t.Fatalf("%s: %+v", user, a)
			}
			sold++
		}
		return sold
	}
	drained := func() bool { return p.Ready() == nil && p.undrained() == 0 }
	for round := range 4 {
		had := len(c.inLedger())
		p.logs.appends.close()
		var all sync.WaitGroup
		// An append of each shard is held: what comes then is on the server alone.
		first := oneOfEach(fmt.Sprint("first-", round))
		wait.Until(t, "2 appends are held", func() bool { return p.logs.appends.held.Load() == 2 })
		var gave, slow atomic.Int64
		for i := range callers {
			all.Go(func() {
				switch p.claim(fmt.Sprint("lost-", round, "-", i), "key").Outcome {
				case api.Sold:
					gave.Add(1)
				case api.Unknown, api.NoQuorum, api.Standby:
					slow.Add(1)
				}
			})
		}
		all.Wait()
		if n := first + gave.Load(); n > backlog || n < backlog && slow.Load() == 0 {
			t.Errorf("round %d: %d were told to have a unit where the ledger may lack %d", round, n, backlog)
		}
		for shard := range 2 {
			if err := kept[0].Forget(t.Context(), lists.List{UID: saletest.UID, Shard: shard}); err != nil {
				t.Fatal(err)
			}
		}
		wait.Until(t, "both lists are off", func() bool { // until then the process appends what it knows
			return !slices.ContainsFunc(p.Status().Shards, func(s ShardStatus) bool { return s.ListOn })
		})
		p.logs.appends.open()
		wait.Until(t, "ready and drained", drained)
		if in := len(c.inLedger()); in >= had+backlog {
			t.Errorf("round %d: all that was given is in the ledger, though the server forgot it", round)
		}
		// Both lists are filled again: a shard whose list gave little may not have
		// asked for it since, and cannot fill it while its appends are held.
		oneOfEach(fmt.Sprint("after-", round))
		wait.Until(t, "ready and drained", drained)
	}
	if p.machine.Shards()[0] != before {
		t.Error("another session has begun")
	}
	c.race(20, func() {})
}
