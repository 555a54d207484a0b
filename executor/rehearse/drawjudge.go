package rehearse

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"salectl/api"
	"salectl/draw"
	"salectl/spec"
)

// The judge of a draw. Entries are accepted like claims, but without units (accept). The answers
// after the draw are compared with that here, and with the ledger in CompareDraw.

// enter records an entry. A user may have one.
func (j *judge) enter(r *record) {
	first := j.entered[r.user]
	if first == nil {
		j.entered[r.user] = r
		j.units[r.user]++
	} else {
		j.violated("%s has two entries: claim %s and claim %s", r.user, first.ID, r.ID)
	}
}

// drawn checks the answers after the draw. The plays of awards are judged already.
func (j *judge) drawn(w *drawn, records []record) {
	for i := range records {
		r := &records[i]
		if !r.accepted() && !r.later() && r.Outcome != api.LimitReached && r.Outcome != api.NotEligible {
			j.violated("%s tried to enter while the draw took entries, and received %d %s", r.key, r.status, r.Outcome)
		}
	}
	j.entrants = slices.SortedFunc(slices.Values(w.entrants), func(a, b *entrant) int { return cmp.Compare(a.key, b.key) })
	for _, e := range j.entrants {
		j.follows(e)
	}
	j.allReported(w)
}

// follows checks the sequence of answers to one buyer.
func (j *judge) follows(e *entrant) {
	key, was := j.keys[e.key], new(record)
	was.Outcome = api.Entered
	for i := range e.answers {
		r := &e.answers[i]
		switch {
		case r.later():
			continue // another answer reports the state
		case key == nil:
			if !j.unresolved && (r.Outcome.Accepted() || ended(r.Outcome)) {
				j.violated("%s received %s after the draw, and never entered", e.key, r.Outcome)
			}
			continue
		case r.ID != "" && (r.ID != key.first.ID || r.User != e.user):
			j.violated("%s has entered as claim %s, and received after the draw claim %s of %s", e.key, key.first.ID, r.ID, r.User)
			continue
		case !j.mayFollow(was, r):
			j.violated("%s, which is claim %s, received %s, and then %d %s", e.key, key.first.ID, answerText(was), r.status, answerText(r))
			return // one violation is enough
		}
		if r.Outcome == api.Sold && was.Outcome == api.Entered {
			j.sold(r.Units[0], r)
		}
		was = r
	}
}

// answerText formats an answer: its outcome, and its units if it has some.
func answerText(r *record) string {
	if len(r.Units) == 0 {
		return string(r.Outcome)
	}
	return fmt.Sprintf("%s with units %v", r.Outcome, r.Units)
}

// mayFollow reports whether the answer r may follow the answer was to the same entry.
func (j *judge) mayFollow(was, r *record) bool {
	v := j.byID[r.ID]
	switch was.Outcome {
	case api.Entered:
		switch {
		case r.Outcome == api.Entered || r.Outcome == api.NotDrawn:
			return true
		case j.c.Payment == nil:
			return r.Outcome == api.Sold && len(r.Units) == 1
		case r.Outcome == api.Expired: // the request came too late
			return v != nil && !r.ended.Wall.Before(v.claim.HeldUntil.Add(time.Duration(j.c.Payment.Grace)))
		}
		return r.Outcome == api.Held && len(r.Units) == 1
	case api.Held: // its story has ended
		return v != nil && (v.state == api.Unknown || r.Outcome == v.ending() && (r.Outcome != api.Sold || slices.Equal(r.Units, v.units)))
	case api.Sold:
		return r.Outcome == was.Outcome && slices.Equal(r.Units, was.Units)
	}
	return r.Outcome == was.Outcome
}

// ending returns the final state of a claim without further requests.
func (v *play) ending() api.Outcome {
	if v.state == api.Held { // unpaid, and past its release
		return api.Expired
	}
	return v.state
}

// allReported checks that every award was reported, and that as many buyers are still waiting as there
// are ranks left.
func (j *judge) allReported(w *drawn) {
	reported := w.awards()
	if w.missing {
		j.violated("%s notified of an award, and nothing more happened: the server reports that %s sold and %s held",
			spec.Subject(reported, "buyer", "was", "were"), spec.Subject(w.sale.Sold, "unit", "is", "are"), spec.Subject(w.sale.Held, "unit", "is", "are"))
		return
	}
	waiting := 0
	for _, e := range w.entrants {
		if last := e.last(); last != nil && last.Outcome == api.Entered {
			waiting++
		}
	}
	if left := len(w.ranks) - reported; waiting != left && !j.unresolved {
		j.violated("%s still waiting for an award, and the ranks left are %d", spec.Subject(waiting, "buyer", "was", "were"), left)
	}
}

// CompareDraw compares the answers to buyers of a draw with the ledger, and adds violations to the
// report:
//
//   - the ledger has every reported entry, with its user, and no other, and one per user;
//   - the ledger has an award for each one reported to a buyer, and no other;
//   - awards that are held until they are paid satisfy Compare;
//   - the recomputed draw in verified is correct, and no award is missing.
func (r *Report) CompareDraw(books []api.Claim, verified *draw.Report) {
	j := r.found
	has := make(map[string]*api.Claim, len(books))
	users := make(map[string]string, len(books))
	var won []api.Claim
	for i := range books {
		b := &books[i]
		has[b.ID] = b
		if j.claims[b.ID] == nil && !j.unresolved {
			j.violated("the ledger has claim %s of %s, and no answer reported its entry", b.ID, b.User)
		}
		if other := users[b.User]; other != "" {
			j.violated("the ledger has two entries of %s: claim %s and claim %s", b.User, other, b.ID)
		}
		users[b.User] = b.ID
		if awarded(b.Outcome) {
			won = append(won, *b)
		}
	}
	for _, e := range j.entrants {
		if e.claim != "" {
			j.drawBooked(e, has[e.claim])
		}
	}
	j.verified(verified, len(won))
	if j.c.Payment != nil {
		r.Compare(won)
	}
	r.setViolations()
}

// drawBooked compares one entry with the ledger.
func (j *judge) drawBooked(e *entrant, b *api.Claim) {
	last := e.last()
	if n := len(e.answers); n > 0 && e.answers[n-1].later() {
		last = nil // the state may have changed since
	}
	switch {
	case b == nil:
		j.violated("%s has entered as claim %s, and the ledger does not have it", e.key, e.claim)
	case b.User != e.user:
		j.violated("claim %s is the entry of %s, and in the ledger it is of %s", b.ID, e.user, b.User)
	case last == nil:
	case awarded(b.Outcome) != (e.won() != nil):
		j.violated("%s, which is claim %s, received %s, and in the ledger it is %s", e.key, b.ID, last.Outcome, b.Outcome)
	case j.c.Payment == nil && last.Outcome == api.Sold && !slices.Equal(last.Units, b.Units):
		j.violated("%s, which is claim %s, received the units %v, and in the ledger it has %v", e.key, b.ID, last.Units, b.Units)
	}
}

// verified checks the result of the recomputed draw.
func (j *judge) verified(v *draw.Report, won int) {
	for _, problem := range v.Problems {
		j.violated("the draw: %s", problem)
	}
	switch {
	case !v.OK && len(v.Problems) == 0:
		j.violated("the draw: it is not as it was published")
	case !v.Revealed:
		j.violated("the draw: it is not revealed")
	case v.Waiting > 0:
		j.violated("the draw: %s still to be awarded", spec.Subject(v.Waiting, "unit", "is", "are"))
	case v.Awarded != int64(won):
		j.violated("the draw: %d entries are awarded a unit, and in the ledger %d are", v.Awarded, won)
	}
}
