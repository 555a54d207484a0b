package payments

import (
	"container/heap"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// schedule orders the watches by the time of their next query. It has no clock: all its times are
// monotonic. It converts the ledger's times with the clock.Now of each call.
type schedule struct {
	interval, timeout time.Duration
	jitter            func() float64 // returns values in [0, 1)

	watches map[executor.ClaimID]*watch
	turns   [ranks]turns
}

// rank is the reason for a turn of a watch. Of the watches that are due, the lowest rank is first.
type rank int

const (
	lastQuery  rank = iota // between deadline and release
	regular                // an interval after the previous query
	afterwards             // the claim is expired or cancelled, and a payment must be refunded
	ranks
)

// watch is a claim about which the service is queried.
type watch struct {
	id       executor.ClaimID
	release  time.Duration
	answered time.Duration // time of the service's last answer about it, or of the start of the watch
	failures int           // failed attempts in a row, to query the service or to settle
	inFlight bool          // an attempt is under way
	over     bool          // the last query before the release is done; the hold may still be extended
	verdict  Event         // not in the ledger yet
	numbers  [ranks]int    // by rank: number of the valid turn; others are void
}

// turn is the time at which a watch is due.
type turn struct {
	at     time.Duration
	watch  *watch
	number int
}

// turns is a heap.
type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].at < t[j].at }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(turn)) }

func (t *turns) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = turn{}
	*t = old[:len(old)-1]
	return last
}

// Delay of the first query about a new hold, and the margin before its release in which the ledger
// can still record the last answer.
const (
	firstWithin  = time.Second
	beforeEnd    = 500 * time.Millisecond
	longestPause = time.Minute
	leastPause   = 200 * time.Millisecond
)

// queriedAfter is how long after its release the service is queried about a claim whose payment is unknown.
const queriedAfter = 10 * time.Minute

func newSchedule(jitter func() float64) *schedule {
	return &schedule{jitter: jitter, watches: make(map[executor.ClaimID]*watch)}
}

// part returns a random part of a duration.
func (s *schedule) part(d time.Duration) time.Duration { return time.Duration(s.jitter() * float64(d)) }

// add starts a watch. The first query about a new hold comes soon. A hold found after a takeover
// waits up to an interval, to spread the load on the service.
func (s *schedule) add(now clock.Now, h executor.Hold, found bool) {
	w := &watch{id: h.ID, answered: now.Mono}
	s.watches[h.ID] = w
	if h.State == api.Expired || h.State == api.Cancelled {
		w.over, w.release = true, now.Mono+h.Release.Sub(now.Wall)
		s.next(afterwards, w, now.Mono+s.part(s.interval))
		return
	}
	s.hold(now, w, h)
	within := min(firstWithin, s.interval)
	if found {
		within = s.interval
	}
	s.next(regular, w, now.Mono+s.part(within))
}

// hold updates the deadline of a hold and schedules the last query before its release.
func (s *schedule) hold(now clock.Now, w *watch, h executor.Hold) {
	deadline, release := now.Mono+h.HeldUntil.Sub(now.Wall), now.Mono+h.Release.Sub(now.Wall)
	// The clock that converts the ledger's times may be corrected slightly.
	if (release - w.release).Abs() < beforeEnd {
		return
	}
	w.release, w.over = release, false
	s.next(lastQuery, w, min(deadline+s.part((release-deadline)/2), release-s.timeout-beforeEnd))
}

// cancelled records that a hold was cancelled, and reports whether its turn continues. Its payment
// may be under way, but buys nothing: claims that can still be sold come first. The service is
// queried about it twice, soon and after its former release. With a query every interval, a buyer
// who claims and cancels repeatedly would make the service answer for more and more claims.
func (s *schedule) cancelled(now clock.Now, w *watch, r rank, release time.Time) bool {
	w.release = now.Mono + release.Sub(now.Wall)
	if r == afterwards || w.verdict.How != "" {
		return true
	}
	w.inFlight, w.over = false, true
	s.next(afterwards, w, now.Mono)
	return false
}

// next schedules the next turn of a watch in a rank and voids the previous one.
func (s *schedule) next(r rank, w *watch, at time.Duration) {
	w.numbers[r]++
	heap.Push(&s.turns[r], turn{at, w, w.numbers[r]})
}

// take returns a watch that is due and the rank of its turn, or nil.
func (s *schedule) take(now time.Duration) (*watch, rank) {
	for r := range ranks {
		for s.tidy(r); len(s.turns[r]) > 0 && s.turns[r][0].at <= now; s.tidy(r) {
			w := heap.Pop(&s.turns[r]).(turn).watch
			if w.inFlight {
				s.next(r, w, now+leastPause)
				continue
			}
			w.inFlight = true
			w.numbers[regular]++
			return w, r
		}
	}
	return nil, 0
}

// tidy removes void turns from the top of a heap.
func (s *schedule) tidy(r rank) {
	for t := &s.turns[r]; len(*t) > 0; heap.Pop(t) {
		first := (*t)[0]
		if s.watches[first.watch.id] == first.watch && first.number == first.watch.numbers[r] && !(r == lastQuery && first.watch.over) {
			return
		}
	}
}

// wake returns the time of the next turn, or 0 if there is none.
func (s *schedule) wake() time.Duration {
	var first time.Duration
	for r := range ranks {
		if s.tidy(r); len(s.turns[r]) > 0 && (first == 0 || s.turns[r][0].at < first) {
			first = max(s.turns[r][0].at, 1)
		}
	}
	return first
}

// pending records an answer that settles nothing. expired reports that at the start of the turn the
// claim had expired or its release had passed.
func (s *schedule) pending(now time.Duration, w *watch, r rank, expired bool) {
	w.inFlight, w.failures, w.answered = false, 0, now
	switch {
	case expired:
		s.remove(w)
	case r == lastQuery || w.over:
		s.end(now, w)
	default:
		s.next(regular, w, now+s.interval-s.interval/10+s.part(s.interval/5))
	}
}

// failed records that the service has not answered, or that the ledger has not recorded a settlement.
func (s *schedule) failed(now time.Duration, w *watch, expired bool) {
	w.inFlight = false
	w.failures++
	pause := s.interval
	for i := 1; i < w.failures && pause < longestPause; i++ {
		pause *= 2
	}
	pause = min(pause, max(longestPause, s.interval))
	r := regular
	switch left := w.release - now; {
	case w.verdict.How != "": // the ledger is queried, which soon has its answers
		pause = min(pause, time.Second<<min(w.failures, 4))
	case expired && left < -queriedAfter:
		s.remove(w)
		return
	case expired || w.over:
		r = afterwards
	case left > 0:
		pause = min(pause, max(left/4, leastPause))
	}
	s.next(r, w, now+pause/2+s.part(pause/2))
}

// end records that no further query comes before the release. The service is queried once more after
// it: a payment that it accepts so late buys nothing, or another unit, and must be in the ledger.
func (s *schedule) end(now time.Duration, w *watch) {
	w.inFlight, w.over, w.answered = false, true, max(w.release, now)
	pause := min(s.interval, firstWithin)
	s.next(afterwards, w, max(w.release, now)+pause+s.part(pause))
}

// remove ends a watch.
func (s *schedule) remove(w *watch) { delete(s.watches, w.id) }
