package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/ledger"
	"salectl/executor/shard"
)

// shareMetrics are those of the shards of this process: the sum and, where a sum would hide one that is
// far behind the others, the worst.
type shareMetrics struct {
	owned, stalled, stalledSince *prometheus.Desc
	queue, longestQueue          *prometheus.Desc
	bytes, largestLog            *prometheus.Desc
	lists, undrained             *prometheus.Desc
	extended, lasted             *prometheus.Desc
}

func newShareMetrics(describe describing) shareMetrics {
	return shareMetrics{
		owned:        describe("salectl_owned_shards", "Shards that this process may append to."),
		stalled:      describe("salectl_stalled_shards", "Shards for which the store does not answer, or not clearly."),
		stalledSince: describe("salectl_stalled_since_timestamp_seconds", "When the shard began to stall that has stalled for longest; no value while none does."),
		queue:        describe("salectl_queue_depth", "Requests that wait on shards of this process."),
		longestQueue: describe("salectl_queue_depth_max", "Those on the shard on which the most wait."),
		bytes:        describe("salectl_log_bytes", "Size of the logs of this process's shards."),
		largestLog:   describe("salectl_log_bytes_max", "Size of the largest of them."),
		lists:        describe("salectl_lists", "Lists of this process's shards, by state: on, those that give units, and off.", "state"),
		undrained:    describe("salectl_undrained_grabs", "Grabs that lists gave and the logs do not have yet."),
		extended:     describe("salectl_extended_holds", "Holds of this process's shards that got a later deadline, also those that have ended."),
		lasted:       describe("salectl_hold_seconds", "From a claim to the end of its hold, of all holds of this process's shards since the sale began."),
	}
}

// collect sends the metrics of the shards of this process.
func (m *shareMetrics) collect(all []*shard.Shard, to sink) {
	var v shardSums
	for _, s := range all {
		v.add(s)
	}
	to.gauge(m.owned, float64(v.owned))
	to.gauge(m.stalled, float64(v.stalled))
	to.time(m.stalledSince, v.stalledSince)
	to.gauge(m.queue, float64(v.queue))
	to.gauge(m.longestQueue, float64(v.longestQueue))
	to.gauge(m.bytes, float64(v.bytes))
	to.gauge(m.largestLog, float64(v.largestLog))
	if v.listed {
		to.gauge(m.lists, float64(v.on), "on")
		to.gauge(m.lists, float64(v.off), "off")
		to.gauge(m.undrained, float64(v.undrained))
	}
	if v.paid {
		to.gauge(m.extended, float64(v.holds.Extended))
		to <- prometheus.MustNewConstHistogram(m.lasted, v.holds.Count, v.holds.Seconds, v.within())
	}
}

// shardSums adds up the values of shards.
type shardSums struct {
	owned, stalled      int
	stalledSince        time.Time
	queue, longestQueue int
	bytes, largestLog   int64
	listed              bool
	on, off             int
	undrained           int64
	paid                bool
	holds               ledger.HoldTally
}

func (v *shardSums) add(of *shard.Shard) {
	s := of.Status()
	if s.Owned {
		v.owned++
	}
	if stall := s.Stall; stall != nil {
		v.stalled++
		if v.stalledSince.IsZero() || stall.Since.Before(v.stalledSince) {
			v.stalledSince = stall.Since
		}
	}
	v.queue, v.longestQueue = v.queue+s.Queue, max(v.longestQueue, s.Queue)
	v.bytes, v.largestLog = v.bytes+s.Bytes, max(v.largestLog, s.Bytes)
	if s.Listed {
		v.listed = true
		if s.ListOn {
			v.on++
		} else {
			v.off++
		}
		v.undrained += s.Undrained
	}
	if s.Paid {
		v.paid = true
		v.holds.Add(of.Holds())
	}
}

// within returns how many holds lasted no longer than each bound.
func (v *shardSums) within() map[float64]uint64 {
	buckets := make(map[float64]uint64, len(ledger.HoldBounds))
	for i, bound := range ledger.HoldBounds {
		buckets[bound] = v.holds.Within[i]
	}
	return buckets
}
