package rehearse

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"salectl/api"
	"salectl/spec"
)

// The judge of held claims. All times that it compares are of this machine: the server's times in its
// answers, and those of the buyers' requests. The server decides a request at any time between its
// sending and its answer. If the release of a hold lies between the two, either answer is correct.

// slack is the tolerance for requests sent after the time of their commit: a commit has the time of
// its start.
const slack = 50 * time.Millisecond

// stands is the state of a claim, as reported to its buyer.
type stands struct {
	state   api.Outcome // Held, Sold, Expired, Cancelled, Refunded; Unknown after a missing answer
	release time.Time   // time of the release of the hold
	paid    string      // payment that bought the claim
	owed    []string    // payments owed back
	open    []string    // payments with unknown result
	late    bool        // it was bought, or may have been, after its release
	since   time.Time   // of a late claim: time from which it certainly has its units
	units   []int64     // its current or last units
	has     []possession
}

// possession is a period in which units certainly belonged to a claim.
type possession struct {
	*play
	units    []int64
	from, to time.Time // to is zero if the period has no end
}

func (p possession) holds(t time.Time) bool {
	return !t.Before(p.from) && (p.to.IsZero() || t.Before(p.to))
}

// follow checks the answers to all requests about a claim, in order.
func (j *judge) follow(v *play) {
	v.stands = stands{state: api.Held, release: v.claim.HeldUntil.Add(time.Duration(j.c.Payment.Grace)), units: v.claim.Units}
	first := possession{play: v, units: v.claim.Units, from: v.claim.At}
	for i := range v.steps {
		s := &v.steps[i]
		if s.later() {
			v.state = api.Unknown
			j.unresolved = true
		}
		if v.state == api.Unknown {
			if s.payment != "" && !slices.Contains(v.open, s.payment) {
				v.open = append(v.open, s.payment)
			}
			continue
		}
		j.answered(v, s)
		if (s.how == api.Cancel || s.how == api.Refund) && s.Outcome == s.how.Done() && first.to.IsZero() {
			first.to = s.began.Wall.Add(-slack)
		}
	}
	switch {
	case v.late:
		bought := possession{play: v, units: v.units, from: v.since}
		if !first.to.IsZero() {
			bought.to = first.to
		}
		first.to = v.release
		v.has = append(v.has, bought)
	case first.to.IsZero() && (v.state == api.Held || v.state == api.Expired || v.state == api.Unknown):
		first.to = v.release
	}
	if v.state == api.Unknown {
		first.to = first.from // it may have been cancelled at once
	}
	v.has = append(v.has, first)
}

// answered checks one answer and updates the state.
func (j *judge) answered(v *play, s *step) {
	over := !s.ended.Wall.Before(v.release) // the hold may have ended
	switch {
	case s.Outcome == api.Expired && v.state == api.Held:
		if !over {
			j.violated("claim %s of %s has expired at %s, and was to be held until %s", v.claim.ID, v.key, clockText(s.ended.Wall), clockText(v.release))
		}
		v.state = api.Expired
		j.owes(v, s)
	case s.how == api.Confirm:
		j.confirmed(v, s, over)
	case s.how == api.Extend && v.state == api.Held && s.Outcome == api.Held:
		until := v.release.Add(time.Duration(j.c.Payment.ExtendBy))
		if got := s.HeldUntil.Add(time.Duration(j.c.Payment.Grace)); !got.Equal(until) {
			j.violated("claim %s of %s is extended until %s, and %s was promised", v.claim.ID, v.key, clockText(got), clockText(until))
		}
		v.release = until
	case s.how == api.Cancel && v.state == api.Held && s.Outcome == api.Cancelled,
		s.how == api.Refund && v.state == api.Sold && s.Outcome == api.Refunded:
		v.state = s.Outcome
	case v.state == api.Expired && s.Outcome == api.Expired:
	default:
		j.wrong(v, s)
	}
}

// confirmed checks the answer to a payment.
func (j *judge) confirmed(v *play, s *step, over bool) {
	switch {
	case s.Outcome == api.Sold && (v.state == api.Held || j.mayResell(v, s)):
		late := !s.began.Wall.Before(v.release.Add(slack)) // the hold had ended
		same := slices.Equal(s.Units, v.units)
		if late && j.c.Payment.Late == spec.LateRefuse {
			j.violated("claim %s of %s was to be released at %s, and is sold for a payment of %s", v.claim.ID, v.key, clockText(v.release), clockText(s.began.Wall))
		}
		if !same && (!over || len(s.Units) != len(v.units)) {
			j.violated("claim %s of %s had the units %v, and has %v when it is paid", v.claim.ID, v.key, v.units, s.Units)
		}
		v.state, v.paid, v.units, v.late = api.Sold, s.payment, s.Units, over
		v.since = s.ended.Wall
	case s.Outcome == api.Sold && v.state == api.Sold && s.payment == v.paid && slices.Equal(s.Units, v.units):
	case s.Outcome == api.NotHeld && v.state == api.Sold && s.payment != v.paid,
		s.Outcome == api.Expired && v.state == api.Expired:
		j.owes(v, s)
	default:
		j.wrong(v, s)
	}
}

// mayResell reports whether a late payment may still buy a claim.
func (j *judge) mayResell(v *play, s *step) bool {
	return v.state == api.Expired && j.c.Payment.Late == spec.LateResell && !slices.Contains(v.owed, s.payment)
}

// owes records a payment that bought nothing, which the answer must report.
func (j *judge) owes(v *play, s *step) {
	switch {
	case s.payment == "":
	case !s.refundDue:
		j.violated("payment %s of claim %s bought nothing (%s), but no answer reports it as owed back", s.payment, v.claim.ID, s.Outcome)
	case !slices.Contains(v.owed, s.payment):
		v.owed = append(v.owed, s.payment)
	}
}

func (j *judge) wrong(v *play, s *step) {
	refund := ""
	if s.refundDue {
		refund = ", the payment is owed back"
	}
	j.violated("claim %s of %s is %s (paid by %q), and to %s %s the answer is %d %s%s",
		v.claim.ID, v.key, v.state, v.paid, s.how, s.payment, s.status, s.Outcome, refund)
	v.state = api.Unknown // report one violation only
}

// hold records an accepted claim. A claim without a story stays held until its release.
func (j *judge) hold(r *record) {
	if r.status == http.StatusCreated && r.Outcome != api.Held {
		j.violated("%s was given claim %s as %s, and claims are held until they are paid", r.key, r.ID, r.Outcome)
	}
	j.units[r.user] += int64(len(r.Units))
	if j.byID[r.ID] == nil {
		v := &play{key: r.key, claim: r.Claim}
		j.byID[r.ID], j.plays = v, append(j.plays, v)
		j.follow(v)
	}
}

// sameUnits reports whether two answers to one request name the same units. A claim that was paid
// late may have other units since.
func (j *judge) sameUnits(a, b *record) bool {
	if slices.Equal(a.Units, b.Units) {
		return true
	}
	v := j.byID[a.ID]
	return v != nil && v.late && (slices.Equal(a.Units, v.units) || slices.Equal(b.Units, v.units))
}

// hasEnded reports whether an accepted claim may have ended in the state that a later answer to its
// request reports.
func (j *judge) hasEnded(first, r *record) bool {
	v := j.byID[first.ID]
	if v == nil {
		return false
	}
	requested := func(how api.How) bool {
		return slices.ContainsFunc(v.steps, func(s step) bool { return s.how == how && s.began.Mono < r.ended.Mono })
	}
	switch r.Outcome {
	case api.Expired:
		return v.state != api.Refunded && !r.ended.Wall.Before(v.claim.HeldUntil.Add(time.Duration(j.c.Payment.Grace)))
	case api.Cancelled:
		return requested(api.Cancel)
	case api.Refunded:
		return requested(api.Refund)
	}
	return false
}

// tooEarly checks that all units may have been sold when a buyer was answered sold_out. Refunds return
// units, so that later claims may be accepted again.
func (j *judge) tooEarly(r *record) {
	if j.c.Payment == nil || j.unresolved {
		return
	}
	if sold := j.soldBy(r.ended.Wall); sold < j.c.Stock {
		j.violated("%s received sold_out, but only %d of %d units can have been sold by then", r.key, sold, j.c.Stock)
	}
}

// held checks all possessions together: no unit belonged to two claims at once, and no user had
// more than the limit at any time.
func (j *judge) held() {
	units, users := map[int64][]possession{}, map[string][]possession{}
	for _, v := range j.plays {
		for _, had := range v.has {
			users[v.claim.User] = append(users[v.claim.User], had)
			for _, unit := range had.units {
				units[unit] = append(units[unit], had)
			}
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		all := units[unit]
		slices.SortStableFunc(all, func(a, b possession) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if a.play == b.play {
				continue // bought after its release
			}
			j.reused++
			if a.holds(b.from) {
				j.violated("unit %d was %s's in claim %s until %s, and was given to %s in claim %s at %s",
					unit, a.key, a.claim.ID, end(a.to), b.key, b.claim.ID, clockText(b.from))
			}
		}
		if last := all[len(all)-1]; last.to.IsZero() {
			j.owners[unit] = nil
		} else if last.state != api.Unknown {
			j.free = append(j.free, unit)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		j.limit(user, users[user])
	}
}

func (j *judge) limit(user string, all []possession) {
	for _, at := range all {
		had := int64(0)
		for _, p := range all {
			if p.holds(at.from) {
				had += int64(len(p.units))
			}
		}
		if had > j.c.PerUserLimit {
			j.violated("%s has %s, the limit is %d", user, spec.Count(had, "unit"), j.c.PerUserLimit)
			return
		}
	}
}

// soldBy counts the units that may have been sold by a time: those with a payment begun by then.
func (j *judge) soldBy(t time.Time) int64 {
	if j.payAt == nil {
		j.payAt = j.firstPaid()
	}
	n, _ := slices.BinarySearchFunc(j.payAt, t.Add(1), time.Time.Compare)
	return int64(n)
}

// firstPaid returns, in order, the time of the first payment begun for each unit.
func (j *judge) firstPaid() []time.Time {
	first := map[int64]time.Time{}
	for _, v := range j.plays {
		for _, s := range v.steps {
			if s.how != api.Confirm {
				continue
			}
			for _, unit := range slices.Concat(v.claim.Units, v.units) {
				if t, is := first[unit]; !is || s.began.Wall.Before(t) {
					first[unit] = s.began.Wall
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(first), time.Time.Compare)
}

func end(t time.Time) string {
	if t.IsZero() {
		return "the end"
	}
	return clockText(t)
}

// clockText formats a time of day in UTC with microseconds.
func clockText(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// Compare compares the answers to buyers of a sale with payment with the claims of the ledger at the
// end, as queries return them, and adds violations to the report:
//
//   - the ledger has every accepted claim, with its user and units, and no other;
//   - each claim is in the state reported to its buyer, or in that after its release;
//   - every reported payment has either bought its claim or is owed back; that of a refunded claim
//     is both.
//
// A missing answer permits either state.
func (r *Report) Compare(books []api.Claim) {
	j := r.found
	has := make(map[string]*api.Claim, len(books))
	for i := range books {
		b := &books[i]
		has[b.ID] = b
		if j.byID[b.ID] == nil && !j.unresolved {
			j.violated("the ledger has claim %s of %s, but no answer reported it", b.ID, b.User)
		}
	}
	for _, v := range j.plays {
		if b := has[v.claim.ID]; b != nil {
			j.booked(v, b)
		} else {
			j.violated("%s received claim %s, but the ledger does not have it", v.key, v.claim.ID)
		}
	}
	r.setViolations()
}

// booked compares one claim with the ledger.
func (j *judge) booked(v *play, b *api.Claim) {
	if b.User != v.claim.User || len(b.Units) != len(v.claim.Units) || !slices.Equal(b.Units, v.units) && v.state != api.Unknown {
		j.violated("claim %s is %s's with the units %v, and in the ledger it is %s's with %v", b.ID, v.claim.User, v.units, b.User, b.Units)
	}
	want := v.ending()
	if want != api.Unknown && b.Outcome != want {
		j.violated("claim %s of %s is %s, and in the ledger it is %s", b.ID, v.key, want, b.Outcome)
	}
	for _, s := range v.steps {
		if s.payment == "" {
			continue
		}
		bought, owed := b.Payment == s.payment, slices.Contains(b.RefundDue, s.payment)
		open := slices.Contains(v.open, s.payment)
		switch {
		case bought && b.Outcome == api.Refunded && !owed:
			j.violated("claim %s is refunded, but its payment %s is not owed back", b.ID, s.payment)
		case bought && owed && b.Outcome != api.Refunded:
			j.violated("payment %s has bought claim %s, and is owed back all the same", s.payment, b.ID)
		case !bought && !owed && !open:
			j.violated("payment %s for claim %s has bought nothing, and is not owed back", s.payment, b.ID)
		case !open && v.state != api.Unknown && bought != (v.paid == s.payment):
			j.violated("payment %s for claim %s had another answer: in the ledger %q has bought it", s.payment, b.ID, b.Payment)
		}
	}
}
