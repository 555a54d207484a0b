package payments

import (
	"container/heap"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// schedule says about which claim the service is to be asked next. It has no clock of its
// own: all times are monotonic, those of the ledger are converted by the clock.Now that
// comes with them.
type schedule struct {
	interval, timeout time.Duration
	jitter            func() float64 // from 0 to below 1

	watches map[executor.ClaimID]*watch
	turns   [ranks]turns
}

// rank is why it is a watch's turn. Of those that are due, a lower one comes first.
type rank int

const (
	lastLook   rank = iota // between deadline and release
	regular                // an interval after the one before
	afterwards             // the claim has expired or was cancelled, and a payment is owed back
	ranks
)

// watch is one claim about which the service is asked.
type watch struct {
	id       executor.ClaimID
	release  time.Duration
	answered time.Duration // when the service has last said something of it, or it began to be watched
	failures int           // requests in a row that got no answer
	asking   bool          // one of the goroutines has it
	over     bool          // the last look is done; the hold may still be extended
	verdict  verdict       // that the ledger does not have yet
	numbers  [ranks]int    // turns of other numbers are void
}

// turn is when a watch is due.
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

// Within which time a hold is asked about first, and how long before its release the last
// answer has to be there, for the ledger to have it in time.
const (
	firstWithin  = time.Second
	beforeEnd    = 500 * time.Millisecond
	longestPause = time.Minute
	leastPause   = 200 * time.Millisecond
)

// askedAfter is for how long behind its release a claim is asked about whose payment
// nobody could tell of.
const askedAfter = 10 * time.Minute

func newSchedule(jitter func() float64) *schedule {
	return &schedule{jitter: jitter, watches: make(map[executor.ClaimID]*watch)}
}

// part is a random part of a duration.
func (s *schedule) part(d time.Duration) time.Duration { return time.Duration(s.jitter() * float64(d)) }

// add begins to watch a claim: a hold that was just made soon, and what was found after a
// takeover within an interval, so that the service is not asked about all at once.
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

// hold takes in the deadline of a hold, and sets its last look.
func (s *schedule) hold(now clock.Now, w *watch, h executor.Hold) {
	deadline, release := now.Mono+h.HeldUntil.Sub(now.Wall), now.Mono+h.Release.Sub(now.Wall)
	// The clock that the ledger's times are converted by may be corrected a little.
	if (release - w.release).Abs() < beforeEnd {
		return
	}
	w.release, w.over = release, false
	s.next(lastLook, w, min(deadline+s.part((release-deadline)/2), release-s.timeout-beforeEnd))
}

// cancelled takes in that a hold was cancelled, and says whether it is its turn all the same.
// Its payment may be under way, but what it buys is nothing: whoever can still be sold
// something comes first, and it is asked about twice, soon and behind what was its release.
// To go on every interval would let a buyer who claims and cancels, again and again, have
// the service asked about more and more claims.
func (s *schedule) cancelled(now clock.Now, w *watch, r rank, release time.Time) bool {
	w.release = now.Mono + release.Sub(now.Wall)
	if r == afterwards || w.verdict.how != "" {
		return true
	}
	w.asking, w.over = false, true
	s.next(afterwards, w, now.Mono)
	return false
}

// next gives a watch its next turn of a rank, in place of the one that it had.
func (s *schedule) next(r rank, w *watch, at time.Duration) {
	w.numbers[r]++
	heap.Push(&s.turns[r], turn{at, w, w.numbers[r]})
}

// take returns a watch that is due, if any is, and why.
func (s *schedule) take(now time.Duration) (*watch, rank) {
	for r := range ranks {
		for s.tidy(r); len(s.turns[r]) > 0 && s.turns[r][0].at <= now; s.tidy(r) {
			w := heap.Pop(&s.turns[r]).(turn).watch
			if w.asking {
				s.next(r, w, now+leastPause)
				continue
			}
			w.asking = true
			w.numbers[regular]++
			return w, r
		}
	}
	return nil, 0
}

// tidy takes void turns from the top of a heap.
func (s *schedule) tidy(r rank) {
	for t := &s.turns[r]; len(*t) > 0; heap.Pop(t) {
		first := (*t)[0]
		if s.watches[first.watch.id] == first.watch && first.number == first.watch.numbers[r] && !(r == lastLook && first.watch.over) {
			return
		}
	}
}

// wake is when the next watch is due, 0 if none is.
func (s *schedule) wake() time.Duration {
	var first time.Duration
	for r := range ranks {
		if s.tidy(r); len(s.turns[r]) > 0 && (first == 0 || s.turns[r][0].at < first) {
			first = max(s.turns[r][0].at, 1)
		}
	}
	return first
}

// pending says that the service has answered, and that the answer settles nothing. expired
// says that the claim was so when the service was asked, or its release had passed.
func (s *schedule) pending(now time.Duration, w *watch, r rank, expired bool) {
	w.asking, w.failures, w.answered = false, 0, now
	switch {
	case expired:
		s.remove(w)
	case r == lastLook || w.over:
		s.end(now, w)
	default:
		s.next(regular, w, now+s.interval-s.interval/10+s.part(s.interval/5))
	}
}

// failed says that the service has given no answer, or that the ledger has not taken one.
func (s *schedule) failed(now time.Duration, w *watch, expired bool) {
	w.asking = false
	w.failures++
	pause := s.interval
	for i := 1; i < w.failures && pause < longestPause; i++ {
		pause *= 2
	}
	pause = min(pause, max(longestPause, s.interval))
	r := regular
	switch left := w.release - now; {
	case w.verdict.how != "": // the ledger is asked, which has its answers soon
		pause = min(pause, time.Second<<min(w.failures, 4))
	case expired && left < -askedAfter:
		s.remove(w)
		return
	case expired || w.over:
		r = afterwards
	case left > 0:
		pause = min(pause, max(left/4, leastPause))
	}
	s.next(r, w, now+pause/2+s.part(pause/2))
}

// end says that all has been asked of a watch before its release. The service is asked once
// more behind that: a payment that it takes so late buys nothing, or another unit, and has to
// stand in the ledger.
func (s *schedule) end(now time.Duration, w *watch) {
	w.asking, w.over, w.answered = false, true, max(w.release, now)
	pause := min(s.interval, firstWithin)
	s.next(afterwards, w, max(w.release, now)+pause+s.part(pause))
}

// remove ends a watch.
func (s *schedule) remove(w *watch) { delete(s.watches, w.id) }
