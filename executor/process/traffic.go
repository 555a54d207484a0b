package process

import (
	"math"
	"time"

	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// The rates of requests of a process and its shards, over some seconds. The machine samples their
// counts once a second.

// traffic is the last samples of the counts of a session.
type traffic struct {
	sampledAt time.Duration // monotonic: of all; 0: there are none
	decided   []meter       // requests by shard; empty where no machine runs here
	requests  meter         // of clients
	forwards  meter         // requests that peers have answered
}

// meter has the last samples of a count.
type meter struct {
	at    [meterSamples]time.Duration
	count [meterSamples]uint64
	n     int // samples in all
}

// How often counts are sampled, and how many samples are kept: a rate is that of the five seconds
// before the last.
const (
	meterEvery   = time.Second
	meterSamples = 6
)

// sample adds a count and returns the rate a second, in tenths; nil: there are too few samples.
func (m *meter) sample(now time.Duration, count uint64) *float64 {
	m.at[m.n%meterSamples], m.count[m.n%meterSamples] = now, count
	m.n++
	if m.n < meterSamples {
		return nil
	}
	first := m.n % meterSamples
	rate := math.Round(float64(count-m.count[first])/(now-m.at[first]).Seconds()*10) / 10
	return &rate
}

// measure samples all counts, once a second.
func (m *Machine) measure(now clock.Now) {
	t := m.session
	if t == nil || t.sampledAt != 0 && now.Mono < t.sampledAt+meterEvery {
		return
	}
	t.sampledAt = now.Mono
	for i, s := range t.running {
		if s.Serves() {
			rate := t.decided[i].sample(now.Mono, s.Decided())
			t.totals.Measured(i, shard.Load{PerSecond: rate, Queue: s.Waiting(), Stuck: m.stuck(now, s)})
		}
	}
	came, passed := t.requests.sample(now.Mono, m.requestCount.Load()), t.forwards.sample(now.Mono, m.links.Answered.Load())
	if came != nil {
		m.Ownership.SetTraffic(ownership.Traffic{Came: *came, Passed: *passed})
	}
}
