package replicas

import "testing"

// Processes that come and go in good order fail no claim.
func TestScale(t *testing.T) {
	t.Parallel()
	const rate = 40
	s := apply(t, embedded, terms{stock: 1_000_000, shards: 12, ttl: calmTTL})
	s.add()
	s.settled()
	s.all[0].ready()
	crowds := []*crowd{s.come("http", rate), s.come("stream", rate)}
	for _, c := range crowds {
		c.some(rate)
	}
	for range 4 { // at once
		s.add()
	}
	s.settled()
	for _, c := range crowds {
		c.ask(s.all...)
		c.some(rate)
	}
	for _, r := range s.all[:3] {
		r.stop()
	}
	s.settled()
	for _, c := range crowds {
		c.some(rate)
		c.leave()
		c.wellTold()
	}
	s.books(crowds...)
}
