package replicas

import (
	"testing"
	"time"
)

// calmTTL is that of sales in which nobody dies: it gives a busy machine time, which is no
// subject of the tests. The figures have a usual one.
const calmTTL = 10 * time.Second

// Processes that are started anew one after the other fail no claim.
func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	rolling(t, embedded, 1, 40, calmTTL)
}

func TestRollingRestartsOnACluster(t *testing.T) {
	t.Parallel()
	rolling(t, cluster, 1, 40, calmTTL)
}

func rolling(t testing.TB, where store, rounds, rate int, ttl time.Duration) {
	began := time.Now()
	s := apply(t, where, terms{stock: 1_000_000, shards: 12, ttl: ttl})
	all := s.three()
	crowds := []*crowd{s.come("http", rate), s.come("stream", rate)}
	for _, c := range crowds {
		c.some(rate)
	}
	for round := range rounds {
		for _, r := range all {
			from := time.Now()
			s.note("round %d", round+1)
			r.stop()
			gone := time.Now()
			r.start()
			r.ready()
			s.settled()
			for _, c := range crowds {
				c.some(rate / 4)
				s.note("%s restarts: gone in %v, back in %v; over %s %s", r.name, gone.Sub(from).Round(time.Millisecond),
					time.Since(gone).Round(time.Millisecond), c.over, summary(c.waits(from, time.Now(), nil)))
				s.note("the slowest: %s", c.slowest(from, time.Now()))
			}
		}
	}
	for _, c := range crowds {
		c.leave()
		c.wellTold()
		t.Logf("%d restarts; over %s %s; the slowest: %s", rounds*len(all), c.over, summary(c.waits(began, time.Now(), nil)), c.slowest(began, time.Now()))
	}
	s.books(crowds...)
}
