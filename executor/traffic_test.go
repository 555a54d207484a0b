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
		var over atomic.Bool
		var buyers sync.WaitGroup
		for i := range 20 {
			for _, of := range users {
				buyers.Go(func() {
					for !over.Load() {
						a.claim(of[i])
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
		}
		told, most := 0, 0.0
		watch := func(d time.Duration) {
			for range d / (100 * time.Millisecond) {
				time.Sleep(100 * time.Millisecond)
				for _, m := range a.Status().Processes {
					if m.Self && m.Requests != nil && *m.Requests > 0 {
						told++
						most = max(most, *m.Forwarded / *m.Requests)
					}
				}
			}
		}
		watch(10 * time.Second)
		if most < 0.4 || most > 0.6 {
			t.Errorf("while all is well it tells that it passes on %.2f of its requests", most)
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
		over.Store(true)
		buyers.Wait()
		if told < 200 || most > 1.5 {
			t.Errorf("it has told %d times what it passes on, and at most %.2f of its requests", told, most)
		}
	})
}
