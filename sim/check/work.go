package check

import (
	"slices"
	"time"

	"salectl/api"
)

// mostUnowned is how long a shard may be without a lease, from the end of one, by the
// reckoning of whoever had it, to the begin of the next.
const mostUnowned = time.Second

// owned finds shards without an owner in a Calm: a planned hand-over takes no time to
// speak of, and of a process that was killed the leases run out and are won by others.
func owned(e *evidence, bad fault) {
	for _, what := range e.h.Unmoved {
		bad("%s", what)
	}
	for _, calm := range e.h.Calm {
		r := e.runAt(calm.From)
		if r == nil {
			continue
		}
		for shard := range r.shards {
			had := calm.From
			for _, l := range e.h.Leases { // in order of their begin
				switch {
				case l.UID != r.uid || l.Shard != shard || l.From > calm.To:
					continue
				case e.h.unowned(had, l.From):
					bad("shard %d of run %s had no owner from %v to %v", shard, r.uid, had, l.From)
				}
				had = max(had, l.To)
			}
			if e.h.unowned(had, calm.To) {
				bad("shard %d of run %s had no owner from %v on", shard, r.uid, had)
			}
		}
	}
}

// unowned reports whether a time without a lease is too long.
func (h *History) unowned(from, to time.Duration) bool {
	return to > from+mostUnowned && !slices.ContainsFunc(h.Strikes, func(s Strike) bool { return from <= s.To && to <= s.To && to >= s.From })
}

// runAt is the run that was applied last at a time, nil if it was sealed or there is none.
func (e *evidence) runAt(at time.Duration) (now *run) {
	for _, r := range e.runs {
		if len(r.completed) > 0 && r.completed[0].at.At <= at {
			now = r
		}
	}
	if now != nil && now.sealedAt != nil && now.sealedAt.At <= at {
		return nil
	}
	return now
}

// continuity finds claims that failed in a Calm, without a Strike: those that are
// to be made again, or were never answered. A list refuses claims while the ledger lacks as
// many as it may, and rules while their data is not known: neither is for want of an owner.
func continuity(e *evidence, bad fault) {
	for i, o := range e.all(ClaimInvoked) {
		if o.returned == nil || o.returned.Answer.Outcome != Lost && o.returned.Answer.Outcome.Row().Retry != api.Again {
			continue
		}
		from, to, outcome := o.invoked.At, o.returned.At, o.returned.Answer.Outcome
		if outcome == api.NotChecked || outcome == api.Overloaded && slices.ContainsFunc(e.runs, func(r *run) bool { return r.listed }) {
			continue
		}
		if slices.ContainsFunc(e.h.Calm, func(c Calm) bool { return c.From <= from && from < c.To }) &&
			!slices.ContainsFunc(e.h.Strikes, func(s Strike) bool { return from <= s.To && s.From <= to }) {
			bad("operation %d, from %v to %v, was answered %q while there was only planned work", i, from, to, outcome)
		}
	}
}
