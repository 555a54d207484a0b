package executor

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// changed waits until all shards have the newest generation.
func (s *listSite) changed() {
	s.t.Helper()
	newest := saletest.LoadSale(s.t, s.logs, s.sale.Name).Generation()
	for shard := range s.sale.LockCount {
		wait.Until(s.t, fmt.Sprintf("shard %d has generation %d", shard, newest), func() bool {
			return saletest.LoadShard(s.t, s.logs, shard, s.sale.LockCount).Generation == newest
		})
	}
}

// limit is how many units all shards have been given, less those removed.
func (s *listSite) limit() (units int64) {
	for shard := range s.sale.LockCount {
		units += saletest.LoadShard(s.t, s.logs, shard, s.sale.LockCount).Limit
	}
	return units
}

// phases checks that no log has a claim between a generation that pauses or closes
// the sale and the next, and returns how many such generations it met.
func (s *listSite) phases() (off int) {
	s.t.Helper()
	for shard := range s.sale.LockCount {
		log := spec.ShardLog(saletest.UID, shard, s.sale.LockCount)
		phase := pb.Phase_OPEN
		for slot := uint64(0); ; {
			_, entries, err := s.logs.Read(s.t.Context(), log, slot, 1000)
			if err != nil {
				s.t.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			for _, entry := range entries {
				c := new(pb.Commit)
				if err := proto.Unmarshal(entry, c); err != nil {
					s.t.Fatal(err)
				}
				for _, op := range c.GetOps() {
					if g := op.GetGeneration(); g != nil {
						if phase = g.GetSettings().GetPhase(); phase != pb.Phase_OPEN {
							off++
						}
					}
					if op.GetClaim() != nil && phase != pb.Phase_OPEN {
						s.t.Errorf("shard %d, slot %d: a claim while the sale is %v", shard, slot, phase)
					}
				}
				slot++
			}
		}
	}
	return off
}

// TestListsGenerations changes the sale in the middle of a race: more units, fewer,
// a pause, more while it is paused, and in the end it is closed before all is sold.
func TestListsGenerations(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, 600, 0, 600, 600)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		stop := c.watchLedger()
		defer stop()
		c.begin(4000, 40)
		phase := func(phase pb.Phase) {
			saletest.Replan(t, s.logs, "site", func(p *pb.Planned) { p.Settings.Phase = phase })
			s.changed()
		}

		c.at(15, func() {
			saletest.Replan(t, s.logs, "site", func(p *pb.Planned) { saletest.Deal(p, 0, 150); saletest.Deal(p, 1, 200) })
			s.changed()
		})
		c.at(30, func() {
			saletest.Replan(t, s.logs, "site", func(p *pb.Planned) { p.Shards[2].Remove = 50; p.Shards[3].Remove = 100 })
			s.changed()
		})

		c.at(40, func() { phase(pb.Phase_PAUSED) })
		paused := int64(len(c.inLedger()))
		c.kept() // with ack redis too: all that was granted is in the ledger before the pause
		for i := range 20 {
			switch a := p.claim(fmt.Sprint("paused-", i), "key"); {
			case a.Outcome == api.NoQuorum, a.Outcome == api.Standby: // the machine is slow
			case a.Outcome != api.Paused || a.RetryAfter == 0:
				t.Errorf("while it is paused: %+v", a)
			}
		}
		saletest.Replan(t, s.logs, "site", func(p *pb.Planned) { saletest.Deal(p, 1, 50); p.Shards[0].Remove = 25 })
		s.changed()
		if sold := c.sold(); sold > paused { // who was answered unknown may learn of a claim from before the pause
			t.Errorf("%d have a unit while the sale is paused, and the ledger had %d claims then", sold, paused)
		}
		phase(pb.Phase_OPEN)
		c.at(60, func() { phase(pb.Phase_CLOSED) })
		c.stock = s.limit()
		c.kept()
		c.end()
		stop()
		if a := p.claim("closed", "key"); a.Outcome != api.Closed {
			t.Errorf("after it is closed: %+v", a)
		}
		if n := s.phases(); n < 3*4 {
			t.Errorf("the logs have %d generations that are not open", n)
		}
		c.askAgain()
		c.kept()
		a := saletest.Audited(t, s.logs, "site")
		if in := len(c.inLedger()); int64(in) != a.Sold || a.Sold+a.Available != c.stock || a.Stock != c.stock {
			t.Errorf("audit: %+v, %d claims, stock %d", a, in, c.stock)
		}
		t.Logf("stock %d, sold %d", c.stock, a.Sold)
	})
}

// TestListsRaised sells out, and sells what is added then to those who were told
// that all is sold.
func TestListsRaised(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, nil, 50, 30, 0)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		c.begin(200, 20)
		c.end()
		if n := c.count(api.SoldOut); c.sold() != 80 || n == 0 {
			t.Fatalf("%d sold, %d told that all is", c.sold(), n)
		}
		saletest.Replan(t, s.logs, "site", func(p *pb.Planned) { saletest.Deal(p, 2, 40) })
		s.changed()
		c.stock = 120
		c.settle()
	})
}

// TestListsHours is a sale with hours. It is by the clock of the process, which may be
// off by less than a ttl, that nothing is sold before it opens, and nothing after it is
// closed; the node's decides nothing.
func TestListsHours(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": time.Second, "behind": -time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opens, closes time.Time
			s := listSiteAt(t, spec.AckLedger, []string{startRedis(t).Addr()}, func(_ *spec.Sale, settings *pb.Settings) {
				opens = time.Now().Add(3 * time.Second)
				closes = opens.Add(3 * time.Second)
				settings.OpensAtUs, settings.ClosesAtUs = opens.UnixMicro(), closes.UnixMicro()
			}, 100_000)
			p := s.site.serve(func(c *Config) {
				c.Nodes, c.Lists = s.connect()
				right := clock.System()
				c.Clock = func() clock.Now {
					now := right()
					now.Wall = now.Wall.Add(off)
					return now
				}
			})
			outcomes, n := make(map[api.Outcome]int), 0
			wait.UntilNil(t, "closed by the clock of the node too", func() error {
				n++
				before := time.Now().Add(off)
				a := p.claim(fmt.Sprint("user-", n), "key")
				after := time.Now().Add(off)
				outcomes[a.Outcome]++
				switch {
				case a.Outcome == api.NoQuorum, a.Outcome == api.Standby, a.Outcome == api.Unknown: // the machine is slow
				case after.Before(opens) && a.Outcome != api.NotOpen,
					!before.Before(opens) && after.Before(closes) && a.Outcome != api.Sold,
					!before.Before(closes) && a.Outcome != api.Closed:
					t.Errorf("asked from %v to %v after it opens: %+v", before.Sub(opens), after.Sub(opens), a)
				case a.Outcome == api.NotOpen && (a.RetryAfter < opens.Sub(after) || a.RetryAfter > opens.Sub(before)):
					t.Errorf("asked from %v to %v after it opens, it is to be asked again in %v", before.Sub(opens), after.Sub(opens), a.RetryAfter)
				}
				if a.Outcome == api.Sold && (a.Claim.At.Before(opens) || !a.Claim.At.Before(closes)) {
					t.Errorf("sold at %v after it opens", a.Claim.At.Sub(opens))
				}
				if time.Now().Before(closes.Add(2*off.Abs())) || outcomes[api.Closed] < 3 {
					return fmt.Errorf("outcomes %v", outcomes)
				}
				return nil
			})
			t.Logf("outcomes %v", outcomes)
			if outcomes[api.NotOpen] == 0 {
				t.Log("the machine was too slow to ask before it opened")
			}
			if n := p.voids(); n != 0 {
				t.Errorf("the node gave %v that the ledger refused", n)
			}
			if a := saletest.Audited(t, s.logs, "site"); a.Sold != int64(outcomes[api.Sold]) {
				t.Errorf("audit: %+v, outcomes %v", a, outcomes)
			}
		})
	}
}
