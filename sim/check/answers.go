package check

import (
	"slices"

	"salectl/api"
)

// named returns the claims of that id, one for each run that has one.
func (e *evidence) named(id string) []*claim {
	if e.byID == nil {
		e.byID = make(map[string][]*claim, len(e.claims))
		for _, c := range e.claims {
			e.byID[c.id()] = append(e.byID[c.id()], c)
		}
	}
	return e.byID[id]
}

// matches reports whether a claim is the one of an answer, and was stored before;
// with ack redis it may be stored later, but is of a run that was planned before.
func (c *claim) matches(answered Claim, user string, before uint64) bool {
	r := c.at.log.run
	return (c.at.Seq < before || r.ackRedis && r.planned[0].at.Seq < before) && c.user == user && answered.User == user && answered.Requested == c.requested &&
		(slices.Equal(c.units, answered.Units) || slices.Equal(c.first, answered.Units) || c.entry && len(answered.Units) == 0)
}

// granted returns the claim that an operation was given, nil if none is known. Two
// runs may have claims of one id, user and units: the key of the request distinguishes them
// apart, and without a key it is the newer one that was stored for it.
func (e *evidence) granted(o *operation) *claim {
	if o.returned == nil || !accepted(o.returned.Answer.Outcome) {
		return nil
	}
	for _, c := range slices.Backward(e.named(o.returned.Answer.Claim.ID)) {
		if (o.invoked.Key == "" || c.key == o.invoked.Key) && c.quantity() == o.invoked.Quantity &&
			c.matches(o.returned.Answer.Claim, o.invoked.User, o.returned.Seq) {
			return c
		}
	}
	return nil
}

// answers compares every claim in an answer to a client with the ledger.
func answers(e *evidence, bad fault) {
	for i, o := range e.all(ClaimInvoked) {
		if o.returned == nil {
			continue
		}
		a := &o.returned.Answer
		if !accepted(a.Outcome) {
			e.listed(i, o, a, bad)
			continue
		}
		switch c := e.granted(o); {
		case c == nil && e.forgiven(a.Claim, o.invoked.User, o.returned.Seq):
		case c == nil:
			bad("operation %d: user %q, key %q, %d units were accepted as %+v; the ledger had no such claim then",
				i, o.invoked.User, o.invoked.Key, o.invoked.Quantity, a.Claim)
		case c.entry && !c.was(string(a.Outcome), o.invoked.Seq, o.returned.Seq):
			bad("operation %d was answered %q; %v was not so then: %v", i, a.Outcome, c, c.states)
		case c.entry:
		case c.deadline == 0 && a.Outcome != api.Sold:
			bad("operation %d was answered %q; %v was sold at once", i, a.Outcome, c)
		case c.deadline != 0 && !c.was(string(a.Outcome), o.invoked.Seq, o.returned.Seq):
			bad("operation %d was answered %q; %v was not %s then: %v", i, a.Outcome, c, a.Outcome, c.states)
		}
	}
	for i, o := range e.all(ReadInvoked) {
		if o.returned != nil {
			e.listed(i, o, &o.returned.Answer, bad)
		}
	}
}

func (e *evidence) listed(i int, o *operation, a *Answer, bad fault) {
	for _, c := range a.Claims {
		known := slices.ContainsFunc(e.named(c.ID), func(have *claim) bool { return have.matches(c, o.invoked.User, o.returned.Seq) })
		if !known && !e.forgiven(c, o.invoked.User, o.returned.Seq) {
			bad("operation %d: user %q was told of %+v; the ledger had no such claim then", i, o.invoked.User, c)
		}
	}
}

// firsts reports a claim that was granted as new more than once.
func firsts(e *evidence, bad fault) {
	first := make(map[*claim]int)
	for i, o := range e.all(ClaimInvoked) {
		c := e.granted(o)
		if c == nil {
			continue
		}
		if o.returned.Answer.Replayed {
			if o.invoked.Key == "" {
				bad("operation %d has no key and was answered as the repetition of another: %v", i, c)
			}
			continue
		}
		if e.forgot(c.at.log.run, c.user) {
			continue // the node gave it again
		}
		if other, ok := first[c]; ok {
			bad("operations %d and %d were both answered as the first to get %v", other, i, c)
		}
		first[c] = i
		if c.at.Seq < o.invoked.Seq {
			bad("operation %d was answered as the first to get %v, which was stored before it was invoked", i, c)
		}
	}
}

// requests finds claims without a request, or whose requests were all answered as
// refused. A request that was sent after the claim was stored did not cause it.
func requests(e *evidence, bad fault) {
	type keyless struct {
		user     string
		quantity int64
	}
	requested := make(map[request][]*operation)
	inDoubt := make(map[keyless][]*operation)
	granted := make(map[*claim]bool)
	for _, o := range e.all(ClaimInvoked) {
		if c := e.granted(o); c != nil && (o.invoked.Seq < c.at.Seq || c.at.log.run.listed) {
			granted[c] = true
		}
		switch {
		case o.answered() && !o.ended():
		case o.invoked.Key != "":
			id := request{o.invoked.User, o.invoked.Key}
			requested[id] = append(requested[id], o)
		default:
			id := keyless{o.invoked.User, o.invoked.Quantity}
			inDoubt[id] = append(inDoubt[id], o)
		}
	}
	used := make(map[keyless]int)
	for _, c := range e.claims {
		fits := func(o *operation) bool {
			return o.invoked.Seq < c.at.Seq && o.invoked.Quantity == c.quantity()
		}
		if granted[c] || c.again || slices.ContainsFunc(requested[request{c.user, c.key}], fits) {
			continue
		}
		// Nobody knows the key of a keyless request, but each is one claim at most.
		id := keyless{c.user, c.quantity()}
		if n := used[id]; n < len(inDoubt[id]) && fits(inDoubt[id][n]) {
			used[id]++
			continue
		}
		bad("%v, %d units: no request for it was sent before, or all were told that they were refused", c, len(c.units))
	}
}
