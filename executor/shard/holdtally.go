package shard

import (
	"sync"
	"time"
)

// HoldTally counts the holds of a shard that have ended, by their duration.
type HoldTally struct {
	Count    uint64
	Seconds  float64  // all of them together
	Within   []uint64 // for each of HoldBounds, how many lasted no longer
	Extended uint64   // holds that got a later deadline, also of those that are open
}

// HoldBounds are the bounds of a HoldTally, in seconds.
var HoldBounds = []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 3 * 3600, 24 * 3600}

// holdTally adds up the holds of the ledger, each once. It begins with the log's first, so that after a
// takeover it includes earlier ones.
type holdTally struct {
	mu   sync.Mutex
	sum  HoldTally // of the holds that have ended; of those, Extended too
	next int       // the first of the ledger's holds that was not read
	open []int     // those that were, and were held or may yet be
}

// tallyAtOnce bounds how many holds are read at a time while the shard waits.
const tallyAtOnce = 4096

// Holds returns the tally. It adds the holds that have ended since its last call.
func (s *Shard) Holds() HoldTally {
	t := &s.holds
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum.Within == nil {
		t.sum.Within = make([]uint64, len(HoldBounds))
	}
	look, open, extended := t.open, t.open[:0], uint64(0)
	for {
		s.state.RLock()
		all := s.seq.state.HoldRecords()
		for n := 0; n < tallyAtOnce && (len(look) > 0 || t.next < all); n++ {
			i := t.next
			if len(look) > 0 {
				i, look = look[0], look[1:]
			} else {
				t.next++
			}
			span, ok := s.seq.state.HoldOf(i)
			switch {
			case span.Entry:
				open = append(open, i)
			case !ok:
			case span.EndedUs != 0:
				t.sum.add(time.Duration(span.EndedUs-span.SinceUs)*time.Microsecond, span.Extended)
			default:
				open = append(open, i)
				if span.Extended {
					extended++
				}
			}
		}
		done := len(look) == 0 && t.next >= all
		s.state.RUnlock()
		if done {
			break
		}
	}
	t.open = open
	sum := t.sum
	sum.Within = append([]uint64(nil), t.sum.Within...)
	sum.Extended += extended
	return sum
}

// Add adds the holds of another shard.
func (h *HoldTally) Add(other HoldTally) {
	h.Count += other.Count
	h.Seconds += other.Seconds
	h.Extended += other.Extended
	if h.Within == nil {
		h.Within = make([]uint64, len(HoldBounds))
	}
	for i, n := range other.Within {
		h.Within[i] += n
	}
}

func (h *HoldTally) add(lasted time.Duration, extended bool) {
	h.Count++
	h.Seconds += lasted.Seconds()
	for i, bound := range HoldBounds {
		if lasted.Seconds() <= bound {
			h.Within[i]++
		}
	}
	if extended {
		h.Extended++
	}
}
