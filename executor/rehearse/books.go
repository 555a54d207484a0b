package rehearse

import (
	"slices"

	"salectl/api"
)

// Compare compares the answers to buyers of a sale with payment with the claims of the ledger at the
// end, as a look-up has them, and adds violations to the report:
//
//   - the ledger has every accepted claim, with its user and units, and no other;
//   - each claim is in the state reported to its buyer, or in that after its release;
//   - every reported payment has either bought its claim or is owed back.
//
// A missing answer permits either state.
func (r *Report) Compare(books []api.Claim) {
	j := r.found
	has := make(map[string]*api.Claim, len(books))
	for i := range books {
		b := &books[i]
		has[b.ID] = b
		if j.byID[b.ID] == nil && !j.unresolved {
			j.violated("the ledger has claim %s of %s, and nobody was told of it", b.ID, b.User)
		}
	}
	for _, v := range j.plays {
		if b := has[v.claim.ID]; b != nil {
			j.booked(v, b)
		} else {
			j.violated("%s was given claim %s, and the ledger does not have it", v.key, v.claim.ID)
		}
	}
	r.tell()
}

// booked compares one claim with the ledger.
func (j *judge) booked(v *play, b *api.Claim) {
	if b.User != v.claim.User || len(b.Units) != len(v.claim.Units) || !slices.Equal(b.Units, v.units) && v.state != api.Unknown {
		j.violated("claim %s is %s's with the units %v, and in the ledger it is %s's with %v", b.ID, v.claim.User, v.units, b.User, b.Units)
	}
	want := v.state
	if want == api.Held { // unpaid, and past its release
		want = api.Expired
	}
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
		case bought && owed:
			j.violated("payment %s has bought claim %s, and is owed back all the same", s.payment, b.ID)
		case !bought && !owed && !open:
			j.violated("payment %s for claim %s has bought nothing, and is not owed back", s.payment, b.ID)
		case !open && v.state != api.Unknown && bought != (v.paid == s.payment):
			j.violated("payment %s for claim %s was told otherwise: in the ledger %q has bought it", s.payment, b.ID, b.Payment)
		}
	}
}
