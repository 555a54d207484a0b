package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/spec"
)

// TestTrafficCountsOnce sends one of two processes as many claims of its own shards as of those of
// the other, before, during and after an outage of the lock nodes, in which requests are forwarded
// again and again. A request counts once when it arrives, and once as forwarded when it is answered:
// in the outage the forwarded ones of five seconds may have arrived before these.
func TestTrafficCountsOnce(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{9, 9, 9, 9}, func(c *cluster) {
		a, b := c.start("a", nil), c.start("b", nil)
		defer b.stop()
		defer a.stop()
		all := []*clusterProcess{a, b}
		shared(all...)
		var users [2][]string // of shards of a, of b
		for i := 0; len(users[0]) < 20 || len(users[1]) < 20; i++ {
			user, of := fmt.Sprint("user-", i), 0
			if !a.owns(spec.HomeShard(user, 4)) {
				of = 1
			}
			users[of] = append(users[of], user)
		}
		var stopped atomic.Bool
		var buyers sync.WaitGroup
		for i := range 20 {
			for _, of := range users {
				buyers.Go(func() {
					for !stopped.Load() {
						a.claim(of[i])
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
		}
		samples, maxShare := 0, 0.0
		watch := func(d time.Duration) {
			for range d / (100 * time.Millisecond) {
				time.Sleep(100 * time.Millisecond)
				for _, m := range a.Status().Processes {
					if m.Self && m.Requests != nil && *m.Requests > 0 {
						samples++
						maxShare = max(maxShare, *m.Forwarded / *m.Requests)
					}
				}
			}
		}
		watch(10 * time.Second)
		if maxShare < 0.4 || maxShare > 0.6 {
			t.Errorf("without an outage the process reports that it forwards at most %.2f of its requests, want about half", maxShare)
		}
		gates := func(set func(*gate)) {
			for _, m := range all {
				for _, n := range m.nodes[:3] {
					set(&n.gate)
				}
			}
		}
		gates((*gate).close)
		watch(10 * time.Second)
		gates((*gate).open)
		shared(all...)
		watch(10 * time.Second)
		stopped.Store(true)
		buyers.Wait()
		if samples < 200 || maxShare > 1.5 {
			t.Errorf("%d samples of the forwarded share with a maximum of %.2f, want 200 or more with at most 1.50", samples, maxShare)
		}
	})
}
