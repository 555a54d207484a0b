package executor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
)

// The terms of the sale.
const (
	holdFor = time.Minute
	grace   = 10 * time.Second
)

// settles asks for a claim to be settled, and fails the test unless the outcome is want.
func (m *clusterProcess) settles(a Answer, how api.How, payment string, want api.Outcome) {
	m.c.t.Helper()
	ctx, cancel := context.WithTimeout(m.c.t.Context(), 5*time.Second)
	defer cancel()
	got := settle(ctx, m, Settlement{Claim: a.Claim.ID, How: how, Settlement: api.Settlement{Payment: payment}})
	if got.Outcome != want {
		m.c.t.Fatalf("%s: %+v, want %s", how, got, want)
	}
}

// TestMetricsOfHolds tells what became of holds, and the same after a takeover.
func TestMetricsOfHolds(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{20}, func(c *cluster) {
		m := c.serve("first", nil)
		families := func(m *clusterProcess) map[string]*dto.MetricFamily {
			registry := prometheus.NewRegistry()
			registry.MustRegister(m.Collectors()...)
			all, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			byName := map[string]*dto.MetricFamily{}
			for _, f := range all {
				byName[f.GetName()] = f
			}
			return byName
		}
		if families(m)["salectl_sale_open_holds"] != nil {
			t.Error("a sale that sells at once has metrics of holds")
		}
		saletest.Replan(t, c.logs, c.sale.Name, func(p *pb.Planned) {
			p.Settings.Payment = &pb.Payment{HoldForUs: holdFor.Microseconds(), GraceUs: grace.Microseconds(),
				ExtendByUs: holdFor.Microseconds(), Late: pb.Payment_RESELL}
		})
		m.within(5*time.Second, "on the new generation", func() bool { return m.Status().Generation == 2 })
		held := map[string]Answer{}
		for i := range 7 {
			user := fmt.Sprint("buyer-", i)
			if held[user] = m.claim(user); held[user].Outcome != api.Held {
				t.Fatalf("%s: %+v", user, held[user])
			}
		}
		time.Sleep(holdFor / 4)
		m.settles(held["buyer-0"], api.Confirm, "p0", api.Sold)
		m.settles(held["buyer-0"], api.Confirm, "other", api.NotHeld)
		m.settles(held["buyer-1"], api.Cancel, "", api.Cancelled)
		m.settles(held["buyer-2"], api.Extend, "", api.Held)
		m.settles(held["buyer-3"], api.Extend, "", api.Held)
		m.settles(held["buyer-4"], api.Confirm, "p4", api.Sold)
		synctest.Wait()
		tell := func(m *clusterProcess, when string, want map[string]float64, lasted float64) {
			t.Helper()
			for name, n := range want {
				family, label := "salectl_sale_settled_claims_total", name
				if strings.HasPrefix(name, "salectl_") {
					family, label = name, ""
				}
				if got := m.metric(family, label); got != n {
					t.Errorf("%s: %s is %v, want %v", when, name, got, n)
				}
			}
			h := families(m)["salectl_hold_seconds"].GetMetric()[0].GetHistogram()
			if sum := h.GetSampleSum(); math.Abs(sum-lasted) > 1 {
				t.Errorf("%s: holds lasted %v s together, want %v", when, sum, lasted)
			}
		}
		tell(m, "while some are held", map[string]float64{
			"salectl_sale_open_holds": 4, "salectl_sale_held_units": 4, "confirmed": 2, "cancelled": 1, "salectl_extended_holds": 2, "expired": 0,
			"salectl_sale_refunds_due_total": 1, "salectl_hold_seconds": 3,
		}, 3*holdFor.Seconds()/4)
		if got, want := m.metric("salectl_sale_next_release_timestamp_seconds", ""), held["buyer-5"].Claim.HeldUntil.Add(grace); math.Abs(got-float64(want.UnixMilli())/1000) > .01 {
			t.Errorf("the next release is told as %v, and is at %v", got, want)
		}
		time.Sleep(holdFor + 2*grace) // buyers 5 and 6 have expired
		m.settles(held["buyer-5"], api.Confirm, "p5", api.Sold)
		m.settles(held["buyer-3"], api.Confirm, "p3", api.Sold)
		m.settles(held["buyer-4"], api.Refund, "", api.Refunded)
		m.settles(held["buyer-4"], api.Return, "p4", api.Returned)
		synctest.Wait()
		final := map[string]float64{
			"salectl_sale_open_holds": 1, "salectl_sale_held_units": 1, "confirmed": 3, "cancelled": 1, "salectl_extended_holds": 2, "expired": 2,
			"refunded": 1, "resold": 1, "salectl_sale_refunds_due_total": 2, "salectl_sale_refunds_returned_total": 1, "salectl_hold_seconds": 6,
		}
		// Three for a quarter of a hold, two for all of it and the grace, one for all that
		// has passed.
		lasted := 3*holdFor/4 + 2*(holdFor+grace) + (holdFor/4 + holdFor + 2*grace)
		tell(m, "at last", final, lasted.Seconds())
		m.stop()
		second := c.serve("second", nil)
		defer second.stop()
		tell(second, "after a takeover", final, lasted.Seconds())
	})
}

// TestMetricsOfHoldsOfPeers has each process tell of the holds of all shards.
func TestMetricsOfHoldsOfPeers(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{10, 10}, func(c *cluster) {
		saletest.Replan(t, c.logs, c.sale.Name, func(p *pb.Planned) {
			p.Settings.Payment = &pb.Payment{HoldForUs: holdFor.Microseconds(), GraceUs: grace.Microseconds(), Late: pb.Payment_REFUSE}
		})
		first, second := c.start("first", nil), c.start("second", nil)
		defer first.stop()
		defer second.stop()
		shared(first, second)
		var release time.Time
		for i, user := range append(c.homes(0, 3), c.homes(1, 4)...) {
			a := first.claim(user)
			if a.Outcome != api.Held {
				t.Fatalf("%s: %+v", user, a)
			}
			if i == 0 {
				release = a.Claim.HeldUntil.Add(grace)
			}
			first.settles(a, api.Extend, "", api.NoExtension)
		}
		for _, m := range []*clusterProcess{first, second} {
			m.within(10*time.Second, "told of all holds", func() bool { return m.shows("salectl_sale_open_holds", "", 7) })
			m.tells("of all shards", told{
				"salectl_sale_held_units": 7, "salectl_sale_settled_claims_total expired": 0, "salectl_sale_refunds_due_total": 0,
				"salectl_sale_next_release_timestamp_seconds": float64(release.UnixMilli()) / 1000,
			})
		}
		time.Sleep(2 * (holdFor + grace))
		for _, m := range []*clusterProcess{first, second} {
			m.within(10*time.Second, "told of all releases", func() bool { return m.shows("salectl_sale_settled_claims_total", "expired", 7) })
			m.tells("when all have expired", told{"salectl_sale_open_holds": 0, "salectl_sale_available_units": 20}, "salectl_sale_next_release_timestamp_seconds")
		}
		if a, b := first.metric("salectl_hold_seconds", ""), second.metric("salectl_hold_seconds", ""); a+b != 7 || a == 0 || b == 0 {
			t.Errorf("%v and %v holds have ended", a, b)
		}
	})
}
