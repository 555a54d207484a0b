package executor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestMetricsTellTheTruth holds what is told of the sale and of its shards against the
// ledger, after a run in which units have moved.
func TestMetricsTellTheTruth(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{30, 1, 9}, func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		for i := range 27 {
			m.sells(fmt.Sprint("buyer-", i))
		}
		for range 3 {
			m.claim("buyer-0") // again: nothing more is sold
		}
		synctest.Wait() // a shard counts a commit when its claims have been answered
		var bytes, largest, commits int
		for shard := range 3 {
			_, entries, err := c.logs.Read(t.Context(), spec.ShardLog(saletest.UID, shard, 3), 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			one := 0
			for _, e := range entries {
				one += len(e)
			}
			bytes, largest, commits = bytes+one, max(largest, one), commits+len(entries)-1 // without the planner's
		}
		if audit := saletest.Audited(t, c.logs, c.sale.Name); audit.Sold != 27 {
			t.Fatalf("the ledger has sold %d", audit.Sold)
		}
		m.tells("after some claims", told{
			"salectl_sale_stock_units": 40, "salectl_sale_sold_units": 27, "salectl_sale_available_units": 13,
			"salectl_sale_held_units": 0, "salectl_sale_moving_units": 0, "salectl_sale_user_limit_units": 1,
			"salectl_sale_shards": 3, "salectl_sale_generation": 1, "salectl_sale_sold_out": 0,
			"salectl_sale_phase open": 1, "salectl_sale_phase unknown": 0, "salectl_sale_info " + saletest.UID: 1,
			"salectl_owned_shards": 3, "salectl_stalled_shards": 0, "salectl_queue_depth": 0, "salectl_queue_depth_max": 0,
			"salectl_log_bytes": float64(bytes), "salectl_log_bytes_max": float64(largest),
			"salectl_appends_total committed": float64(commits), "salectl_shard_sessions_total begun": 3,
			"salectl_ledger_up": 1, "salectl_lock_quorum": 1, "salectl_clock_offset_seconds": 0,
		}, "salectl_stalled_since_timestamp_seconds", "salectl_sale_opens_timestamp_seconds", "salectl_sale_open_holds", "salectl_lists on")
		for i := range 13 {
			m.sells(fmt.Sprint("late-", i))
		}
		m.tells("at the end", told{
			"salectl_sale_sold_units": 40, "salectl_sale_available_units": 0, "salectl_sale_sold_out": 1, "salectl_sale_phase open": 1,
		})
	})
}

// told is what metrics are to say, by name and label as scrape has them.
type told map[string]float64

// tells fails the test unless a process tells what it is to, and nothing of what it cannot
// know.
func (m *clusterProcess) tells(when string, want told, absent ...string) {
	m.c.t.Helper()
	got := scrape(m.c.t, m.Executor)
	for name, n := range want {
		if v, is := got[name]; !is || v != n {
			m.c.t.Errorf("%s, %s is %v (%v), want %v", when, name, v, is, n)
		}
	}
	for _, name := range absent {
		if v, is := got[name]; is {
			m.c.t.Errorf("%s, %s is told to be %v, and nobody can know it", when, name, v)
		}
	}
}

// unknowable is what a process cannot tell that neither owns the shards nor hears of them.
var unknowable = []string{
	"salectl_sale_stock_units", "salectl_sale_sold_units", "salectl_sale_available_units", "salectl_sale_held_units",
	"salectl_sale_moving_units", "salectl_sale_sold_out",
}

// TestMetricsBeforeAnythingIsKnown tells no zeros of what nobody has read or asked yet.
func TestMetricsBeforeAnythingIsKnown(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{30, 1, 9}, func(c *cluster) {
		m := &clusterProcess{c: c, Executor: New(Config{Logs: c.logs, Sale: c.sale.Name})}
		m.tells("at first", told{"salectl_sale_phase unknown": 1, "salectl_sale_phase open": 0, "salectl_owned_shards": 0},
			append(unknowable, "salectl_ledger_up", "salectl_ledger_read_timestamp_seconds", "salectl_lock_quorum",
				"salectl_sale_user_limit_units", "salectl_sale_shards")...)
	})
}

// TestMetricsInAnOutage has the store, and then the lock nodes, answer no more.
func TestMetricsInAnOutage(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{30, 1, 9}, func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		m.sells("ann", "bob")
		synctest.Wait()

		m.store.all.close()
		m.later("carl") // nobody knows what becomes of it
		time.Sleep(shard.StallAfter + time.Second)
		m.tells("while the store is away", told{
			"salectl_ledger_up": 0, "salectl_lock_quorum": 1, "salectl_stalled_shards": 1, "salectl_sale_sold_units": 2, "salectl_sale_stock_units": 40,
		})
		time.Sleep(20 * time.Second) // the sale's log is to be read at times
		m.tells("while it is away for long", told{
			"salectl_ledger_up": 0, "salectl_sale_phase stalled": 1, "salectl_sale_phase open": 0, "salectl_sale_sold_units": 2, "salectl_sale_user_limit_units": 1,
			"salectl_problems ledger_unread": 1, "salectl_problems shards_stalled": 1, "salectl_problems quorum_lost": 0,
		})
		if m.log.count("the sale's log cannot be read") != 1 {
			t.Errorf("its log:\n%s", m.log)
		}
		time.Sleep(2 * time.Minute) // the shard in doubt is given up
		m.tells("when the process has given up", told{"salectl_ledger_up": 0, "salectl_sale_phase unknown": 1}, unknowable...)
		m.store.all.open()
		m.within(time.Minute, "ready", func() bool { return m.Ready() == nil })
		m.tells("when it is back", told{"salectl_ledger_up": 1, "salectl_sale_phase open": 1, "salectl_sale_stock_units": 40})

		for _, n := range m.nodes[1:4] {
			n.close()
		}
		m.within(30*time.Second, "without a lease", func() bool { return m.shows("salectl_owned_shards", "", 0) })
		m.within(5*time.Second, "told of the quorum", func() bool { return m.shows("salectl_lock_quorum", "", 0) })
		m.within(2*time.Second, "with its problems", func() bool { return m.shows("salectl_problems", "node_down", 3) })
		m.tells("without a majority", told{
			"salectl_lock_quorum": 0, "salectl_problems quorum_lost": 1, "salectl_problems node_down": 3, "salectl_problems ledger_unread": 0, "salectl_ledger_up": 1, "salectl_sale_phase stalled": 1, "salectl_sale_phase open": 0,
			"salectl_node_up node0": 1, "salectl_node_up node1": 0, "salectl_sale_user_limit_units": 1, "salectl_sale_shards": 3,
		}, unknowable...)
		for _, n := range m.nodes[1:4] {
			n.open()
		}
		m.within(time.Minute, "ready", func() bool { return m.Ready() == nil })
		m.tells("with a majority again", told{"salectl_lock_quorum": 1, "salectl_sale_phase open": 1, "salectl_sale_stock_units": 40})
		m.within(2*time.Second, "without a problem", func() bool { return m.shows("salectl_problems", "quorum_lost", 0) })
		for _, k := range []*status.Kind{status.LedgerUnread, status.Quorum} {
			if m.log.count(k.Began) != 1 || m.log.count(k.Ended) != 1 {
				t.Errorf("%s in its log:\n%s", k.Name, m.log)
			}
		}
	})
}

// TestMetricsOfSeveralProcesses has each tell the same of the sale, and each of its own
// shards.
func TestMetricsOfSeveralProcesses(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{30, 1, 9, 5}, func(c *cluster) {
		first, second := c.start("first", nil), c.start("second", nil)
		defer second.stop()
		shared(first, second)
		for i := range 20 {
			first.sells(fmt.Sprint("buyer-", i))
		}
		sale := told{"salectl_sale_stock_units": 45, "salectl_sale_phase open": 1}
		for _, m := range []*clusterProcess{first, second} {
			m.within(10*time.Second, "up to date", func() bool { return m.shows("salectl_sale_sold_units", "", 20) })
			m.tells("of both", sale)
			m.tells("of itself", told{"salectl_owned_shards": 2, "salectl_members serving": 2, "salectl_links_up": 1, "salectl_misplaced_shards": 0})
		}
		first.stop()
		shared(second)
		second.tells("alone", sale)
		if n := second.metric("salectl_moves_total", "taken"); n == 0 {
			t.Error("it has taken no shard")
		}
		second.tells("alone", told{"salectl_sale_sold_units": 20, "salectl_owned_shards": 4})
		first.tells("when it has ended", told{"salectl_owned_shards": 0}, unknowable...)
	})
}

// TestMetricsOfLists tells how many lists give, what the ledger lacks of them while it
// stalls, how often they were filled, and that the nodes were asked.
func TestMetricsOfLists(t *testing.T) {
	t.Parallel()
	s := newListSite(t, spec.AckRedis, 2, nil, 30, 30)
	p := s.serve()
	p.awaitLists()
	told := func(when string, want map[string]float64) {
		t.Helper()
		for name, n := range want {
			wait.Until(t, when+": "+name, func() bool { return p.told(name) == n })
			if got := p.told(name); got != n {
				t.Errorf("%s %s is %v, want %v", when, name, got, n)
			}
		}
	}
	told("at first", map[string]float64{
		"salectl_lists": 2, "salectl_list_fills_total": 2, "salectl_undrained_grabs": 0, "salectl_grab_seconds": 0, "salectl_sale_sold_units": 0,
	})
	p.logs.appends.close()
	for i := range 7 {
		if a := p.claim(fmt.Sprint("user-", i), "key"); a.Outcome != api.Sold {
			t.Fatalf("user-%d: %+v", i, a)
		}
	}
	told("while the ledger stalls", map[string]float64{"salectl_undrained_grabs": 7, "salectl_sale_sold_units": 0})
	// A call that got no reply in time was repeated.
	wait.Until(t, "a call for each claim: salectl_grab_seconds", func() bool { return p.told("salectl_grab_seconds") >= 7 })
	p.logs.appends.open()
	told("when it is back", map[string]float64{
		"salectl_undrained_grabs": 0, "salectl_sale_sold_units": 7, "salectl_lists": 2, "salectl_list_fills_total": 2, "salectl_void_grabs_total": 0,
	})
	// Each of them has the name that the node gave it with, and no other.
	for slot := range uint64(20) {
		for index := range 8 {
			for shard := range 2 {
				if c, no := lookupClaim(t.Context(), p, ClaimID{Shard: shard, Slot: slot, Index: index}, api.Page{}); no != api.NoSuchClaim {
					t.Errorf("a claim is found by its place in the log: %+v, %q", c, no)
				}
			}
		}
	}
}
