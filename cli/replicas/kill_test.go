package replicas

import (
	"syscall"
	"testing"
	"time"
)

const killTTL = 2 * time.Second

// A process that dies takes nothing with it: users of its shards wait for others, and all
// others go on.
func TestKill(t *testing.T) {
	kill(t, cluster, 100)
}

func kill(t testing.TB, where store, rate int) (back, before, after time.Duration) {
	s := apply(t, where, terms{stock: 1_000_000, shards: 12, ttl: killTTL})
	all := s.three()
	crowds := []*crowd{s.come("http", rate), s.come("stream", rate)}
	span := func(from, to time.Time, of func(*asked) bool) (waits []time.Duration) {
		for _, c := range crowds {
			waits = append(waits, c.waits(from, to, of)...)
		}
		return sorted(waits)
	}
	began := time.Now()
	for _, c := range crowds {
		c.some(rate)
	}
	its := all[0].shards()
	of := func(a *asked) bool { return its[a.shard] }
	others := func(a *asked) bool { return !its[a.shard] }
	killed := time.Now()
	all[0].kill()
	s.settled()
	for _, c := range crowds {
		c.some(rate)
	}
	all[0].start()
	all[0].ready()
	s.settled()
	for _, c := range crowds {
		c.some(rate)
		c.leave()
		c.failedOnlyOn(its)
	}
	s.books(crowds...)
	back = quantile(span(killed.Add(-time.Second), killed.Add(killTTL+5*time.Second), of), 1)
	before = quantile(span(began, killed, others), .99)
	after = quantile(span(killed, killed.Add(2*time.Second), others), .99)
	t.Logf("its %d shards were back after %v (ttl %v); of the others p99 %v before, %v in the 2 s after", len(its), back.Round(time.Millisecond), killTTL,
		before.Round(100*time.Microsecond), after.Round(100*time.Microsecond))
	return back, before, after
}

// A process that is stopped for longer than its leases last, and then goes on, has sold
// nothing meanwhile that others have sold too.
func TestPauseOnACluster(t *testing.T) {
	s, crowds, its := pause(t, cluster, func(s *sale) {
		for _, r := range s.all[1:] {
			s.eventually(func() error { return r.ownsAll(s.all[1:]) })
		}
		s.note("the two others own all shards")
	})
	for _, c := range crowds {
		c.failedOnlyOn(its, s.all[0])
	}
	s.books(crowds...)
}

// On one machine a process that is stopped may have the store's lock, so that all wait
// until it goes on.
func TestPause(t *testing.T) {
	figures(t) // it is all waiting
	// Nobody can be asked when its leases have run out, if it has the store's lock.
	s, crowds, _ := pause(t, embedded, func(*sale) { time.Sleep(2 * pauseTTL) })
	s.books(crowds...)
}

// pauseTTL is longer than killTTL: on a busy machine a process that is not stopped may renew its leases
// two seconds late, and then it refuses claims, too.
const pauseTTL = 6 * time.Second

// pause stops the first of three processes until others have had the time to take over.
func pause(t testing.TB, where store, until func(*sale)) (s *sale, crowds []*crowd, its map[int]bool) {
	const rate = 80
	s = apply(t, where, terms{stock: 1_000_000, shards: 12, ttl: pauseTTL})
	all := s.three()
	crowds = []*crowd{s.come("http", rate), s.come("stream", rate)}
	for _, c := range crowds {
		c.some(rate)
	}
	its = all[0].shards()
	for _, c := range crowds {
		c.ask(all[1], all[2])
	}
	all[0].signal(syscall.SIGSTOP)
	until(s)
	for _, c := range crowds {
		c.ask(all...) // the process is asked the moment it goes on
	}
	all[0].signal(syscall.SIGCONT)
	s.settled()
	for _, c := range crowds {
		c.some(rate)
		c.leave()
	}
	return s, crowds, its
}
