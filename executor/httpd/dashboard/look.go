package dashboard

import (
	"salectl/api"
	"salectl/spec"
)

// Look is the state of a sale at one time, as known to a process.
type Look struct {
	// View is the sale as returned by GET /v1/sales/{sale}. With Away it contains no units, phase
	// and hours.
	View  *api.Sale
	About spec.About
	// Away is the reason why the process does not know the state of the whole sale; "": it does.
	Away api.Outcome
	// Unready is the reason why the process is not ready, as reported by /readyz; "": it is ready.
	Unready string
	// Shards are all shards, or the known ones. Empty means that nothing is known.
	Shards []Shard
	// Answers counts this process's answers to claims since its start, by outcome.
	Answers map[api.Outcome]uint64
	// Took is the distribution of the durations of Answers.
	Took Histogram
}

// Shard is the state of one shard.
type Shard struct {
	Shard     int
	Known     bool   // the state of its units is known
	Owner     string // an address; "": no known owner
	Available int64
	Held      int64
	Sold      int64
	InFlight  int64
	Entries   int64    // of a draw
	Load      *float64 // decided requests per second; nil: unknown
	Waiting   int
	Busy      bool // its load is far above that of the others
	Stalled   bool // its log cannot be read or written
	NoLease   bool // its owner, or last owner, must not write to it now
	Moving    bool // it is moving to another process
}

// Histogram counts durations. Bounds are in seconds, ascending. Each of Counts counts the durations
// up to its bound and above the previous one; the last counts those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []uint64
}

// since returns the counts added after before, an earlier state of the same histogram.
func (h Histogram) since(before Histogram) Histogram {
	if len(before.Counts) != len(h.Counts) {
		return h
	}
	d := Histogram{Bounds: h.Bounds, Counts: make([]uint64, len(h.Counts))}
	for i, n := range h.Counts {
		d.Counts[i] = n - before.Counts[i]
	}
	return d
}

// quantile returns the duration, in seconds, that a share q of all did not exceed. It interpolates
// within a bucket. Durations above the last bound count as the last bound. It reports false if the
// histogram is empty.
func (h Histogram) quantile(q float64) (seconds float64, ok bool) {
	total := uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 || len(h.Bounds) == 0 {
		return 0, false
	}
	rank, below := q*float64(total), 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		if below+n >= rank && n > 0 {
			from := 0.0
			if i > 0 {
				from = h.Bounds[i-1]
			}
			return from + (bound-from)*(rank-below)/n, true
		}
		below += n
	}
	return h.Bounds[len(h.Bounds)-1], true
}
