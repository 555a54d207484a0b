package dashboard

import (
	"salectl/api"
)

// Look is what a process knows of a sale at a moment.
type Look struct {
	// View is the sale as GET /v1/sales/{sale} tells it. With Away it says nothing of units,
	// phase and hours.
	View *api.Sale
	// Away is why the process cannot tell of the whole sale; "": it can.
	Away api.Outcome
	// Unready is why the process is not ready, as /readyz tells it; "": it is.
	Unready string
	// Shards are all of them, or those that are known to be. None: nothing is known.
	Shards []Shard
	// Answers are those that this process has given to claims since it began, by outcome.
	Answers map[api.Outcome]uint64
	// Took is how long they took.
	Took Histogram
}

// Shard is one shard.
type Shard struct {
	Shard     int
	Known     bool   // how its units stand
	Owner     string // an address; "": nobody is known to own it
	Available int64
	Held      int64
	Sold      int64
	InFlight  int64
	Entries   int64    // of a draw
	Load      *float64 // requests decided a second; nil: it is not known
	Waiting   int
	Busy      bool // it decides on far more than the others
	Stalled   bool // its log cannot be read or written
	NoLease   bool // its owner, or who was that last, may not write to it now
	Moving    bool // it is on its way to another process
}

// Histogram counts durations. Bounds are in seconds, ascending; Counts has one more, each
// the count of those up to its bound and above the bound before it.
type Histogram struct {
	Bounds []float64
	Counts []uint64
}

// since returns what was counted after before, a look at the same histogram.
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

// quantile returns the duration, in seconds, that a share q of all did not exceed: exact
// to a bucket, and within it by interpolation. What is above the last bound counts as the
// last bound. false: nothing was counted.
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
