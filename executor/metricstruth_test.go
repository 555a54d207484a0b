package executor

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/spec"
)

// TestMetricsTellTheTruth holds what is told of each shard against the ledger, after
// a run in which units have moved.
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
		registry := prometheus.NewRegistry()
		registry.MustRegister(m.Collectors()...)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		told := make(map[string]float64) // name and shard
		for _, f := range families {
			for _, one := range f.GetMetric() {
				shard := ""
				for _, l := range one.GetLabel() {
					if l.GetName() == "shard" || l.GetName() == "outcome" || l.GetName() == "event" {
						shard = l.GetValue()
					}
				}
				told[f.GetName()+" "+shard] = one.GetGauge().GetValue() + one.GetCounter().GetValue()
			}
		}
		var sold, available, commits float64
		for _, s := range m.Status().Shards {
			log, bytes := fmt.Sprint(s.Shard), float64(0)
			_, entries, err := c.logs.Read(t.Context(), spec.ShardLog(saletest.UID, s.Shard, 3), 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				bytes += float64(len(e))
			}
			sold += told["salectl_sold_units "+log]
			available += told["salectl_available_units "+log]
			commits += float64(len(entries) - 1) // without the planner's
			for name, want := range map[string]float64{
				"salectl_sold_units": float64(s.Sold), "salectl_available_units": float64(s.Available),
				"salectl_shard_bytes": bytes, "salectl_owner": 1, "salectl_stalled": 0, "salectl_queue_depth": 0,
			} {
				if _, is := told[name+" "+log]; !is || told[name+" "+log] != want {
					t.Errorf("%s of shard %s is %v, want %v", name, log, told[name+" "+log], want)
				}
			}
		}
		audit := saletest.Audited(t, c.logs, c.sale.Name)
		if sold != 27 || available != 13 || sold != float64(audit.Sold) {
			t.Errorf("%v units are told to be sold and %v to be left, and the ledger has %d and 13", sold, available, audit.Sold)
		}
		if got := told["salectl_appends_total committed"]; got != commits {
			t.Errorf("%v appends are told, and the logs have %v commits", got, commits)
		}
		if told["salectl_tenures_total begun"] != 3 || told["salectl_stalled_shards "] != 0 {
			t.Errorf("tenures and stalls: %v", told)
		}
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
			waitFor(t, func() bool { return p.told(name) == n })
			if got := p.told(name); got != n {
				t.Errorf("%s %s is %v, want %v", when, name, got, n)
			}
		}
	}
	told("at first", map[string]float64{
		"salectl_list_on": 2, "salectl_list_fills_total": 2, "salectl_undrained_grabs": 0, "salectl_grab_seconds": 0, "salectl_sold_units": 0,
	})
	p.logs.appends.close()
	for i := range 7 {
		if a := p.claim(fmt.Sprint("user-", i), "key"); a.Outcome != api.Sold {
			t.Fatalf("user-%d: %+v", i, a)
		}
	}
	told("while the ledger stalls", map[string]float64{"salectl_undrained_grabs": 7, "salectl_grab_seconds": 7, "salectl_sold_units": 0})
	p.logs.appends.open()
	told("when it is back", map[string]float64{
		"salectl_undrained_grabs": 0, "salectl_sold_units": 7, "salectl_list_on": 2, "salectl_list_fills_total": 2, "salectl_void_grabs_total": 0,
	})
	// Each of them has the name that the node gave it with, and no other.
	for slot := range uint64(20) {
		for index := range 8 {
			for shard := range 2 {
				if c, no := p.Find(ClaimID{Shard: shard, Slot: slot, Index: index}); no != api.NoSuchClaim {
					t.Errorf("a claim is found by its place in the log: %+v, %q", c, no)
				}
			}
		}
	}
}
