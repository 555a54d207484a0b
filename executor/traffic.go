package executor

import (
	"time"

	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// How busy a process and its shards are, over some seconds. What they have done is counted
// anyway; the machine looks at the counts once a second.

// meters are a machine's.
type meters struct {
	at       time.Duration  // monotonic: when the counts were looked at last; 0: they were not
	shards   map[int]*meter // of those that run here
	requests meter
	forwards meter
}

// meter remembers a count at some moments.
type meter struct {
	at    [meterLooks]time.Duration
	count [meterLooks]uint64
	n     int // moments in all
}

// How often counts are looked at, and how many of the looks are remembered: a rate is that
// of the five seconds before the last.
const (
	meterEvery = time.Second
	meterLooks = 6
)

// look takes in a count and returns the rate a second; nil: it is too early to tell, as long
// as other rates are of more time.
func (m *meter) look(now time.Duration, count uint64) *float64 {
	m.at[m.n%meterLooks], m.count[m.n%meterLooks] = now, count
	m.n++
	if m.n < meterLooks {
		return nil
	}
	first := m.n % meterLooks
	rate := float64(count-m.count[first]) / (now - m.at[first]).Seconds()
	return &rate
}

// measure looks at what was counted since it last did, once a second.
func (m *machine) measure(now clock.Now) {
	t := m.session
	if t == nil || m.meters.at != 0 && now.Mono < m.meters.at+meterEvery {
		return
	}
	m.meters.at = now.Mono
	if m.meters.shards == nil {
		m.meters.shards = make(map[int]*meter)
	}
	for i, s := range t.running {
		if !s.Serves() {
			continue
		}
		of := m.meters.shards[i]
		if of == nil {
			of = new(meter)
			m.meters.shards[i] = of
		}
		t.totals.Measured(i, shard.Load{PerSecond: of.look(now.Mono, s.Decided()), Queue: s.Waiting(), Stuck: m.admission.stuck(now, s)})
	}
	came, passed := m.requests.look(now.Mono, m.admission.came.Load()), m.forwards.look(now.Mono, m.links.answered.Load())
	if came != nil {
		m.owner.SetTraffic(ownership.Traffic{Came: *came, Passed: *passed})
	}
}
