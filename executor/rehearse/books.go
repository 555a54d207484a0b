package rehearse

import (
	"slices"

	"salectl/api"
)

// Booked is a claim as the ledger has it when all is over.
type Booked struct {
	ID, User  string
	State     api.Outcome
	Units     []int64
	Payment   string   // that bought it
	RefundDue []string // payments that bought nothing
}

// Compare holds what buyers of a sale with payment were told against the books, and adds
// what is wrong to the report:
//
//   - the books have every claim that was accepted, with its user and units, and no other;
//   - each is in the state that its buyer was told of, or that its release led to;
//   - every payment that was told of has bought its claim or is owed back, and none both.
//
// Where an answer is missing, either may be.
func (r *Report) Compare(books []Booked) {
	j := r.found
	has := make(map[string]*Booked, len(books))
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

// booked holds one claim against the books.
func (j *judge) booked(v *play, b *Booked) {
	if b.User != v.claim.User || len(b.Units) != len(v.claim.Units) || !slices.Equal(b.Units, v.units) && v.state != api.Unknown {
		j.violated("claim %s is %s's with the units %v, and in the ledger it is %s's with %v", b.ID, v.claim.User, v.units, b.User, b.Units)
	}
	want := v.state
	if want == api.Held { // nobody paid, and its release is past
		want = api.Expired
	}
	if want != api.Unknown && b.State != want {
		j.violated("claim %s of %s is %s, and in the ledger it is %s", b.ID, v.key, want, b.State)
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
