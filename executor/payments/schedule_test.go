package payments

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// at is an instant of the tests here: so long after their beginning.
func at(d time.Duration) clock.Now {
	return clock.Now{Mono: time.Hour + d, Wall: time.Unix(1_000_000, 0).Add(d)}
}

// held is a hold with a deadline and a release so long after the beginning.
func held(index int, deadline, release time.Duration) executor.Hold {
	return executor.Hold{
		Claim:   executor.Claim{State: api.Held, ID: executor.ClaimID{Slot: 1, Index: index}, User: "ada", HeldUntil: at(deadline).Wall},
		Release: at(release).Wall,
	}
}

func newTestSchedule(jitter float64) *schedule {
	s := newSchedule(func() float64 { return jitter })
	s.interval, s.timeout = 5*time.Second, 3*time.Second
	return s
}

// due returns when a schedule has something to do next, from the beginning on.
func due(s *schedule) time.Duration { return s.wake() - time.Hour }

func TestFirstTurn(t *testing.T) {
	for name, c := range map[string]struct {
		jitter float64
		found  bool
		want   time.Duration
	}{
		"made just now":         {0, false, 0},
		"made just now, latest": {0.999, false, 999 * time.Millisecond},
		"found":                 {0, true, 0},
		"found, latest":         {0.999, true, 4995 * time.Millisecond},
	} {
		s := newTestSchedule(c.jitter)
		s.add(at(0), held(1, time.Minute, 2*time.Minute), c.found)
		if got := due(s); got != c.want {
			t.Errorf("%s: queried after %v, want %v", name, got, c.want)
		}
	}
}

// A claim is queried every interval, give or take a tenth, and later after failures,
// but never so late that its last answer would be missed.
func TestPauses(t *testing.T) {
	s := newTestSchedule(0)
	s.add(at(0), held(1, 10*time.Minute, 11*time.Minute), false)
	w, last := s.take(at(0).Mono)
	if w == nil || last != regular {
		t.Fatalf("got %v, %v", w, last)
	}
	if again, _ := s.take(at(0).Mono); again != nil {
		t.Error("it is queried twice at a time")
	}
	s.pending(at(0).Mono, w, regular, false)
	if got := due(s); got != 4500*time.Millisecond {
		t.Errorf("after an answer it is queried again in %v", got)
	}
	now := 5 * time.Second
	for _, want := range []time.Duration{2500, 5000, 10_000, 20_000, 30_000, 30_000} {
		w, _ = s.take(at(now).Mono)
		s.failed(at(now).Mono, w, false)
		if got := due(s) - now; got != want*time.Millisecond {
			t.Errorf("after %d failures it is queried again in %v, want %vms", w.failures, got, int64(want))
		}
		now += time.Minute
	}
	w, _ = s.take(at(now).Mono)
	s.pending(at(now).Mono, w, regular, false)
	if w.failures != 0 {
		t.Error("an answer does not end the failures")
	}
	near := 10*time.Minute + 58*time.Second // two seconds before the release
	w, _ = s.take(at(near).Mono)
	w.failures = 9
	s.failed(at(near).Mono, w, false)
	s.tidy(regular)
	if got := s.turns[regular][0].at - at(near).Mono; got != 250*time.Millisecond {
		t.Errorf("two seconds before the release it is queried again in %v", got)
	}
}

// What the ledger has not taken yet is sent to it soon again.
func TestPauseOfVerdict(t *testing.T) {
	s := newTestSchedule(0)
	s.interval = 10 * time.Minute
	s.add(at(0), held(1, time.Hour, time.Hour), false)
	w, _ := s.take(at(0).Mono)
	w.verdict = Event{How: api.Confirm}
	s.failed(at(0).Mono, w, false)
	if got := due(s); got != time.Second {
		t.Errorf("again in %v", got)
	}
}

// The last query lies between the deadline and the release, and ends before that. It comes
// before all others that are due.
func TestLastLook(t *testing.T) {
	for name, c := range map[string]struct {
		jitter            float64
		deadline, release time.Duration
		want              time.Duration
	}{
		"at the deadline": {0, 10 * time.Second, 30 * time.Second, 10 * time.Second},
		"in the grace":    {0.9, 10 * time.Second, 30 * time.Second, 19 * time.Second},
		"a short grace":   {0, 10 * time.Second, 11 * time.Second, 7500 * time.Millisecond},
		"no grace":        {0.5, 10 * time.Second, 10 * time.Second, 6500 * time.Millisecond},
	} {
		s := newTestSchedule(c.jitter)
		s.add(at(0), held(1, c.deadline, c.release), false)
		if got := s.turns[lastQuery][0].at - time.Hour; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	s := newTestSchedule(0)
	for i := range 5 {
		s.add(at(0), held(i, time.Duration(10-i)*time.Second, 30*time.Second), false)
	}
	for i := range 5 { // all are due in both ways
		w, last := s.take(at(20 * time.Second).Mono)
		if w == nil || last != lastQuery || w.id.Index != 4-i {
			t.Fatalf("turn %d: %+v, %v", i, w, last)
		}
	}
	if w, _ := s.take(at(20 * time.Second).Mono); w != nil {
		t.Errorf("there is one more: %+v", w)
	}
}

// After its last query a watch waits for its release; if the hold was extended meanwhile, it
// goes on.
func TestAfterTheLastLook(t *testing.T) {
	s := newTestSchedule(0)
	h := held(1, 10*time.Second, 20*time.Second)
	s.add(at(0), h, false)
	w, _ := s.take(at(0).Mono)
	if busy, _ := s.take(at(10 * time.Second).Mono); busy != nil {
		t.Error("a last query while a request is under way")
	}
	s.pending(at(10*time.Second).Mono, w, regular, false)
	w, last := s.take(at(11 * time.Second).Mono)
	if last != lastQuery {
		t.Fatal("the last query is left out")
	}
	s.pending(at(11*time.Second).Mono, w, lastQuery, false)
	if got := due(s); got != 21*time.Second || !w.over {
		t.Errorf("next in %v, %+v", got, w)
	}
	w, last = s.take(at(21 * time.Second).Mono)
	if last != afterwards {
		t.Errorf("it is queried as %v", last)
	}
	s.hold(at(21*time.Second), w, h)
	if !w.over {
		t.Error("the same hold begins anew")
	}
	s.hold(at(21*time.Second), w, held(1, 60*time.Second, 70*time.Second))
	if w.over {
		t.Error("an extended hold is not queried any more")
	}
	s.pending(at(21*time.Second).Mono, w, afterwards, false)
	if w, last := s.take(at(61 * time.Second).Mono); w == nil || last != lastQuery {
		t.Errorf("the last query after the extension: %+v, %v", w, last)
	}
	s.remove(w)
	if w, _ := s.take(at(time.Hour).Mono); w != nil {
		t.Errorf("a watch that has ended is due: %+v", w)
	}
}

// A claim that was cancelled is queried soon, behind all that may still be sold, and
// once behind its release, which an extension has moved since its query.
func TestAfterACancellation(t *testing.T) {
	s := newTestSchedule(0)
	s.add(at(0), held(1, 10*time.Second, 12*time.Second), false)
	s.add(at(0), held(2, time.Hour, time.Hour), false)
	w, r := s.take(at(0).Mono)
	if w.id.Index != 1 || s.cancelled(at(0), w, r, at(22*time.Second).Wall) {
		t.Fatalf("%+v is queried at once", w)
	}
	if w, r := s.take(at(0).Mono); w == nil || w.id.Index != 2 || r != regular {
		t.Fatalf("first: %+v, %v", w, r)
	}
	for i, answered := range []time.Duration{time.Second, 23 * time.Second} {
		w, r := s.take(at(answered).Mono)
		if w == nil || w.id.Index != 1 || r != afterwards || !s.cancelled(at(answered), w, r, at(22*time.Second).Wall) {
			t.Fatalf("query %d: %+v, %v", i, w, r)
		}
		s.failed(at(answered).Mono, w, i > 0)
		if w, r = s.take(at(answered + 5*time.Second).Mono); w == nil || w.id.Index != 1 || r != afterwards {
			t.Fatalf("query %d, again: %+v, %v", i, w, r)
		}
		s.pending(at(answered).Mono, w, r, i > 0)
		if got := due(s); i == 0 && got != 23*time.Second {
			t.Errorf("after the first query it is queried again in %v", got)
		}
	}
	if s.watches[w.id] != nil {
		t.Error("it is queried for ever")
	}
}

// A claim that has expired is queried once; where nobody answers, for a while, and
// behind all others.
func TestAfterTheRelease(t *testing.T) {
	s := newTestSchedule(0)
	h := held(1, -20*time.Second, -10*time.Second)
	h.State = api.Expired
	s.add(at(0), h, true)
	s.add(at(0), held(2, time.Hour, time.Hour), false)
	if w, r := s.take(at(0).Mono); w == nil || w.id.Index != 2 || r != regular {
		t.Fatalf("first: %+v, %v", w, r)
	}
	w, r := s.take(at(0).Mono)
	if w == nil || w.id.Index != 1 || r != afterwards {
		t.Fatalf("then: %+v, %v", w, r)
	}
	s.failed(at(time.Second).Mono, w, true)
	if w, r := s.take(at(time.Minute).Mono); w == nil || r != afterwards {
		t.Fatalf("again: %+v, %v", w, r)
	}
	s.failed(at(queriedAfter).Mono, w, true)
	if s.watches[h.ID] != nil {
		t.Error("it is queried for ever")
	}
	s.add(at(0), h, true)
	w, _ = s.take(at(0).Mono)
	s.pending(at(0).Mono, w, afterwards, true)
	if s.watches[h.ID] != nil {
		t.Error("an answer does not end it")
	}
}
