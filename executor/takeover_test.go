package executor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestStandby has a second process wait until the first goes down.
func TestStandby(t *testing.T) {
	inSite(t, 1, []int64{5, 5}, func(t *testing.T, s *site) {
		first := s.serve(nil)
		second := s.process(nil)
		wait.Until(t, "the sale's log is read", func() bool { return second.claim("ann", "1").Message != "the sale's log has not been read yet" })
		if a := second.claim("ann", "1"); a.Outcome != api.Standby || a.RetryAfter == 0 {
			t.Errorf("the second process says %+v", a)
		}
		if second.Ready() == nil || second.Status().Outcome != api.Standby {
			t.Errorf("the second process: ready %v, %+v", second.Ready(), second.Status())
		}
		if _, _, no := lookupUser(t.Context(), second, "ann", api.Page{}); no != api.Standby {
			t.Errorf("the second process tells a user's claims: %q", no)
		}
		was := first.claim("ann", "1")
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		down := time.Now()
		wait.Until(t, "the second process is ready", func() bool { return second.Ready() == nil })
		t.Logf("taken over after %v", time.Since(down))
		if a := second.claim("ann", "1"); a.Outcome != api.Sold || !a.Replayed || a.Claim.ID != was.Claim.ID {
			t.Errorf("asked again it is %+v, was %+v", a, was)
		}
		if a := first.claim("bob", "1"); a.Outcome != api.Draining {
			t.Errorf("the first process says %+v", a)
		}
	})
}

// TestDeath cuts the first process off from everything in the middle of a race.
// The second takes over when the leases have run out, sells the rest, and has
// all that the first accepted.
func TestDeath(t *testing.T) {
	inSite(t, 1, []int64{200, 200}, func(t *testing.T, s *site) {
		first := s.serve(nil)
		second := s.process(nil)
		accepted := make(chan Answer, 400)
		var all sync.WaitGroup
		for i := range 400 {
			all.Go(func() {
				if i > 200 {
					time.Sleep(time.Duration(i) * 10 * time.Microsecond)
				}
				if a := first.claim(fmt.Sprint("buyer-", i), "key"); a.Accepted() {
					accepted <- a
				}
			})
		}
		all.Go(func() {
			first.logs.appends.close()
			first.logs.reads.close()
			first.node.close()
		})
		cut := time.Now()
		wait.Until(t, "the second process is ready", func() bool { return second.Ready() == nil })
		took := time.Since(cut)
		t.Logf("taken over after %v", took)
		if most := time.Duration(s.sale.LockTTL) + 10*time.Second; took > most {
			t.Errorf("taken over after %v, more than %v", took, most)
		}
		if a := first.claim("late", "1"); a.Outcome != api.NoQuorum && a.Outcome != api.Standby {
			t.Errorf("the first process, cut off, says %+v", a)
		}
		for i := range 400 {
			if a := second.buy(fmt.Sprint("buyer-", i), "key"); a.Outcome != api.Sold {
				t.Errorf("buyer-%d: %+v", i, a)
			}
		}
		// What hung is let go, and comes too late.
		first.logs.appends.open()
		first.logs.reads.open()
		first.node.open()
		all.Wait()
		close(accepted)
		for a := range accepted {
			if b := second.claim(a.Claim.User, "key"); b.Claim.ID != a.Claim.ID {
				t.Errorf("the first process accepted %+v, the second knows %+v", a, b)
			}
		}
		if a := saletest.Audited(t, s.logs, s.sale.Name); a.Sold != 400 {
			t.Errorf("audit: %+v", a)
		}
	})
}

// TestNoQuorum makes the lock node hang: a ttl later nothing is accepted.
func TestNoQuorum(t *testing.T) {
	inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		if a := p.claim("ann", "1"); a.Outcome != api.Sold {
			t.Fatalf("%+v", a)
		}
		p.node.close()
		time.Sleep(time.Duration(s.sale.LockTTL)) // the promise is about time
		if a := p.claim("bob", "1"); a.Outcome != api.NoQuorum {
			t.Errorf("a ttl after the node hung: %+v", a)
		}
		if p.Ready() == nil {
			t.Error("ready without a majority")
		}
		if a := p.claim("ann", "1"); a.Outcome != api.Sold && a.Outcome != api.NoQuorum {
			t.Errorf("what was accepted, asked again: %+v", a)
		}
		if n := saletest.LoadShard(t, s.logs, 0, 1).Claims(); n != 1 {
			t.Errorf("%d claims in the ledger", n)
		}
		p.node.open()
		wait.Until(t, "a unit is sold", func() bool { return p.claim("bob", "1").Outcome == api.Sold })
	})
}

// TestSaleLogUnreadable has a process that may have missed a close: it says from
// memory what was accepted, and nothing else.
func TestSaleLogUnreadable(t *testing.T) {
	inSite(t, 1, []int64{1}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		was := p.claim("ann", "1")
		if a := p.claim("ann", "2"); a.Outcome != api.LimitReached || len(a.Claims) != 1 {
			t.Errorf("a second ticket: %+v", a)
		}
		if a := p.claim("bob", "1"); a.Outcome != api.SoldOut {
			t.Errorf("after the last ticket: %+v", a)
		}
		p.logs.reads.close()
		wait.Until(t, "the process is not ready", func() bool { return p.Ready() != nil })
		for _, user := range []string{"ann", "bob"} {
			if a := p.claim(user, "2"); a.Outcome != api.NoQuorum {
				t.Errorf("%s is refused from a memory that may be old: %+v", user, a)
			}
		}
		if a := p.claim("ann", "1"); a.Outcome != api.Sold || !a.Replayed || a.Claim.ID != was.Claim.ID {
			t.Errorf("asked again: %+v, was %+v", a, was)
		}
		if _, _, no := lookupUser(t.Context(), p, "ann", api.Page{}); no != api.NoQuorum {
			t.Errorf("a user's claims are told from a memory that may be old: %q", no)
		}
		p.logs.reads.open()
		wait.Until(t, "the sale is sold out", func() bool { return p.claim("bob", "2").Outcome == api.SoldOut })
	})
}

// cutLogs reads one log no further than to its first slots.
type cutLogs struct {
	ledger.Logs
	log   string
	slots uint64
}

func (l *cutLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log != l.log {
		return l.Logs.Read(ctx, log, from, max)
	}
	if from >= l.slots {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	return l.Logs.Read(ctx, log, from, int(l.slots-from))
}

// TestHalfReadShard is a new owner that has read a shard's log only to where
// the limit was 1 and nobody had anything. It must say nothing definite.
func TestHalfReadShard(t *testing.T) {
	inSite(t, 1, []int64{9}, func(t *testing.T, s *site) {
		first := s.serve(nil)
		if a := first.claim("ann", "1"); a.Outcome != api.Sold {
			t.Fatal(a)
		}
		saletest.Replan(t, s.logs, s.sale.Name, func(p *pb.Planned) { p.Settings.PerUserLimit = 3 })
		saletest.Take(t, s.logs, s.sale.Name, 0)
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		second := s.process(func(c *Config) {
			c.Logs = &cutLogs{Logs: c.Logs, log: spec.ShardLog(saletest.UID, 0, 1), slots: 2}
		})
		wait.Until(t, "the shard is half read", func() bool {
			shards := second.machine.Shards()
			return len(shards) > 0 && shards[0].Status().Next == 2
		})
		if claims, _, outcome := lookupUser(t.Context(), second, "ann", api.Page{}); outcome == "" {
			t.Errorf("ann is told that she has %v", claims)
		}
		if st := second.Status(); st.Outcome == "" {
			t.Errorf("the status of a shard half read: %+v", st)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if a := second.Do(ctx, Request{User: "bob", Quantity: 2}); a.Outcome == api.LimitReached {
			t.Errorf("bob may have 3 and has none: %+v", a)
		}
	})
}
