package ledger

import "time"

// HoldTally is a histogram of the durations of ended holds.
type HoldTally struct {
	Count    uint64
	Seconds  float64                 // sum of the durations
	Within   [len(HoldBounds)]uint64 // for each of HoldBounds, the number of holds that lasted no longer
	Extended uint64                  // holds whose deadline was extended, including open ones
}

// HoldBounds are the bounds of the histogram in a HoldTally, in seconds.
var HoldBounds = [...]float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 3 * 3600, 24 * 3600}

// HoldTally returns the tally of all holds of the log.
func (h *holds) HoldTally() HoldTally { return h.tally }

// Add adds the tally of another shard.
func (h *HoldTally) Add(other HoldTally) {
	h.Count += other.Count
	h.Seconds += other.Seconds
	h.Extended += other.Extended
	for i, n := range other.Within {
		h.Within[i] += n
	}
}

// ended counts a hold that has ended.
func (h *HoldTally) ended(span HoldSpan) {
	lasted := (time.Duration(span.EndedUs-span.SinceUs) * time.Microsecond).Seconds()
	h.Count++
	h.Seconds += lasted
	for i, bound := range HoldBounds {
		if lasted <= bound {
			h.Within[i]++
		}
	}
}
