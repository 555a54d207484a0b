package payments

import (
	"container/heap"
	"time"

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
	asks    turns // by interval
	lasts   turns // between deadline and release; those that are due come before all others
}

// watch is one hold about which the service is asked.
type watch struct {
	id       executor.ClaimID
	deadline time.Duration
	release  time.Duration
	answered time.Duration // when the service has last said something of it, or it began to be watched
	failures int           // requests in a row that got no answer
	asking   bool          // one of the goroutines has it
	over     bool          // the last look is done: it is kept until its release, for it may be extended
	verdict  verdict       // that the ledger does not have yet

	// Turns of other numbers than these are void.
	ask, last int
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

func newSchedule(jitter func() float64) *schedule {
	return &schedule{jitter: jitter, watches: make(map[executor.ClaimID]*watch)}
}

// part is a random part of a duration.
func (s *schedule) part(d time.Duration) time.Duration { return time.Duration(s.jitter() * float64(d)) }

// add begins to watch a hold: one that was just made soon, one that was found after a
// takeover within an interval, so that the service is not asked about all at once.
func (s *schedule) add(now clock.Now, h executor.Hold, found bool) {
	w := &watch{id: h.ID, answered: now.Mono}
	s.watches[h.ID] = w
	s.hold(now, w, h)
	within := min(firstWithin, s.interval)
	if found {
		within = s.interval
	}
	s.next(w, now.Mono+s.part(within))
}

// hold takes in the deadline of a hold, and sets its last turn.
func (s *schedule) hold(now clock.Now, w *watch, h executor.Hold) {
	deadline, release := now.Mono+h.HeldUntil.Sub(now.Wall), now.Mono+h.Release.Sub(now.Wall)
	// The clock that the ledger's times are converted by may be corrected a little.
	if (release - w.release).Abs() < beforeEnd {
		return
	}
	w.deadline, w.release, w.over = deadline, release, false
	at := min(deadline+s.part((release-deadline)/2), release-s.timeout-beforeEnd)
	w.last++
	heap.Push(&s.lasts, turn{at, w, w.last})
}

// next gives a watch its next turn, in place of the one that it had.
func (s *schedule) next(w *watch, at time.Duration) {
	w.ask++
	heap.Push(&s.asks, turn{at, w, w.ask})
}

// take returns a watch that is due, if any is. last says that it is its last look.
func (s *schedule) take(now time.Duration) (w *watch, last bool) {
	s.tidy()
	for len(s.lasts) > 0 && s.lasts[0].at <= now {
		t := heap.Pop(&s.lasts).(turn)
		if !t.watch.asking {
			t.watch.ask++
			t.watch.asking = true
			return t.watch, true
		}
		heap.Push(&s.lasts, turn{now + leastPause, t.watch, t.number})
		s.tidy()
	}
	if len(s.asks) == 0 || s.asks[0].at > now {
		return nil, false
	}
	t := heap.Pop(&s.asks).(turn)
	t.watch.asking = true
	return t.watch, false
}

// tidy takes void turns from the tops of the heaps.
func (s *schedule) tidy() {
	for len(s.lasts) > 0 && (!s.has(s.lasts[0]) || s.lasts[0].number != s.lasts[0].watch.last || s.lasts[0].watch.over) {
		heap.Pop(&s.lasts)
	}
	for len(s.asks) > 0 && (!s.has(s.asks[0]) || s.asks[0].number != s.asks[0].watch.ask) {
		heap.Pop(&s.asks)
	}
}

func (s *schedule) has(t turn) bool { return s.watches[t.watch.id] == t.watch }

// wake is when the next watch is due, 0 if none is.
func (s *schedule) wake() time.Duration {
	s.tidy()
	var first time.Duration
	for _, t := range []turns{s.lasts, s.asks} {
		if len(t) > 0 && (first == 0 || t[0].at < first) {
			first = max(t[0].at, 1)
		}
	}
	return first
}

// pending says that the service has answered, and that the answer settles nothing.
func (s *schedule) pending(now time.Duration, w *watch, last bool) {
	w.asking, w.failures, w.answered = false, 0, now
	if last {
		s.end(now, w)
		return
	}
	s.next(w, now+s.interval-s.interval/10+s.part(s.interval/5))
}

// failed says that the service has given no answer, or that the ledger has not taken one.
func (s *schedule) failed(now time.Duration, w *watch) {
	w.asking = false
	w.failures++
	pause := s.interval
	for i := 1; i < w.failures && pause < longestPause; i++ {
		pause *= 2
	}
	pause = min(pause, max(longestPause, s.interval))
	if w.verdict.how != "" { // the ledger is asked, which has its answers soon
		pause = min(pause, time.Second<<min(w.failures, 4))
	}
	if left := w.release - now; left > 0 {
		pause = min(pause, max(left/4, leastPause))
	}
	s.next(w, now+pause/2+s.part(pause/2))
}

// end says that all has been asked of a watch before its release.
func (s *schedule) end(now time.Duration, w *watch) {
	w.asking, w.over = false, true
	s.next(w, max(w.release, now)+beforeEnd)
}

// remove ends a watch.
func (s *schedule) remove(w *watch) { delete(s.watches, w.id) }
