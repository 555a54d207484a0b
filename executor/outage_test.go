package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/quorum"
)

// TestProcessesInTrouble has three processes share two shards, so that one owns none, while
// what all rest on fails, or what one of them does: each says which part it is, and that
// nothing can be sold where that is so.
func TestProcessesInTrouble(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		all := []*clusterProcess{c.start("a", nil), c.start("b", nil), c.start("c", nil)}
		for _, m := range all {
			defer m.stop()
		}
		shared(all...)
		// say waits until all say the reason for which the first shards cannot be sold from.
		say := func(when, reason string, cannot int) {
			c.t.Helper()
			for _, m := range all {
				m.within(10*time.Second, when+" saying "+reason, func() bool {
					why, status := m.Ready(), m.Status()
					for i, s := range status.Shards {
						if (i < cannot) != (s.NoLease || s.Stuck != "" || s.Stall != nil) {
							return false
						}
					}
					return status.Sells == (cannot < 2) && (why == nil && reason == "" || why != nil && reason != "" && strings.HasPrefix(why.Error(), reason))
				})
			}
		}
		say("while all is well", "", 0)

		for _, m := range all {
			for _, n := range m.nodes[:3] {
				n.close()
			}
		}
		say("without a majority", "lock nodes: no majority of the lock nodes votes: node0 is down since ", 2)
		time.Sleep(2 * quorum.DefaultTTL) // also when nobody has said for a ttl that it owns them
		say("still without a majority", "lock nodes: no majority of the lock nodes votes: node0 is down since ", 2)
		for _, m := range all {
			for _, n := range m.nodes[:3] {
				n.open()
			}
		}
		shared(all...)
		say("with all of them", "", 0)

		for _, m := range all {
			m.store.all.close()
		}
		say("without the store", "ledger: ", 2)
		for user := range 4 {
			if x := all[0].claim(fmt.Sprint("user-", user)); x.Outcome != api.NoQuorum && x.Outcome != api.Unknown {
				c.t.Errorf("without the store a user hears %+v", x)
			}
		}
		for _, m := range all {
			m.store.all.open()
		}
		shared(all...)
		say("with the store", "", 0)

		owner := all[slices.IndexFunc(all, func(m *clusterProcess) bool { return m.owns(0) })]
		owner.store.all.close()
		say("where an owner has no store", "ledger: ", 1)
		owner.store.all.open()
		shared(all...)
		say("where it has", "", 0)
	})
}

// TestStandbyInTrouble takes the majority of the lock nodes away from two processes that own
// shards and one on standby, which asks for no lease itself: it says what they say.
func TestStandbyInTrouble(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		owners := []*clusterProcess{c.start("a", nil), c.start("b", nil)}
		standby := c.start("c", nil)
		all := append(slices.Clone(owners), standby)
		for _, m := range all {
			defer m.stop()
		}
		shared(all...)
		if _, err := standby.StandBy(c.t.Context(), false); err != nil {
			c.t.Fatal(err)
		}
		shared(all...)
		for round := range 2 {
			for _, m := range all {
				for _, n := range m.nodes[:3] {
					n.close()
				}
			}
			for _, m := range owners {
				m.within(10*time.Second, "without its leases", func() bool { return !m.Status().Sells })
			}
			const reason = "lock nodes: no majority of the lock nodes votes: node0 is down since "
			standby.within(time.Second, "saying why", func() bool {
				why := standby.Ready()
				return why != nil && strings.HasPrefix(why.Error(), reason)
			})
			if s := standby.Status(); s.Sells || s.Outcome != "" && s.Outcome != api.NoQuorum {
				c.t.Errorf("without a majority the standby says that it sells (%v), or is away: %q", s.Sells, s.Outcome)
			}
			if x := standby.claim(fmt.Sprint("user-", round)); x.Outcome != api.NoQuorum {
				c.t.Errorf("without a majority a claim at the standby hears %+v", x)
			}
			if _, _, why := lookupUser(c.t.Context(), standby, "nobody", api.Page{}); why != api.NoQuorum {
				c.t.Errorf("without a majority who asks the standby for a user's claims hears %q", why)
			}
			c.totals.cut(standby.cfg.Address)
			if _, _, why := lookupUser(c.t.Context(), standby, "nobody", api.Page{}); why != api.NoQuorum {
				c.t.Errorf("without a majority and links who asks the standby for a user's claims hears %q", why)
			}
			c.totals.join(standby.cfg.Address, standby.Executor, &standby.links)
			for _, m := range all {
				for _, n := range m.nodes[:3] {
					n.open()
				}
			}
			shared(all...)
			standby.within(time.Second, "told of each node that it is up", func() bool { // it asks each now and then
				return !slices.ContainsFunc(standby.Status().Nodes, func(n NodeStatus) bool { return !n.Up })
			})
			standby.sells(fmt.Sprint("user-", round))
		}
	})
}

// TestAllOnStandby has the last process die that owns shards: the others, which are on standby,
// say why nothing is sold and what ends it.
func TestAllOnStandby(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		a, b, last := c.start("a", nil), c.start("b", nil), c.start("c", nil)
		defer a.stop()
		defer b.stop()
		defer last.stop()
		shared(a, b, last)
		idle := []*clusterProcess{a, b}
		standBy := func(m *clusterProcess, undo bool) {
			if _, err := m.StandBy(c.t.Context(), undo); err != nil {
				c.t.Fatal(err)
			}
		}
		for _, m := range idle {
			standBy(m, false)
		}
		last.within(10*time.Second, "owning all", func() bool { return last.shows("salectl_owned_shards", "", 2) })
		shared(a, b, last)
		last.cut()
		const why = "all 2 processes are on standby"
		for _, m := range idle {
			m.within(15*time.Second, "saying why", func() bool {
				said := m.Ready()
				return said != nil && strings.HasPrefix(said.Error(), "standby: "+why+": run 'salectl drain --undo ")
			})
			m.within(15*time.Second, "stalled", func() bool { return m.shows("salectl_sale_phase", "stalled", 1) })
			if x := m.claim("ann"); x.Outcome != api.Standby || x.Message != why {
				c.t.Errorf("a claim hears %+v", x)
			}
			time.Sleep(5 * reportEvery)
			if n := m.log.count(why); n != 1 {
				c.t.Errorf("the log says %d times why nothing is sold:\n%s", n, m.log)
			}
		}
		standBy(a, true)
		shared(a, b)
		a.sells("ann")
		b.within(time.Second+reportEvery, "told that it sells again", func() bool {
			return b.log.count("have an owner again") == 1 && b.shows("salectl_sale_phase", "open", 1)
		})
		last.heal()
	})
}
