package process

import (
	"testing"

	"salectl/api"
	"salectl/executor/request"
	"salectl/spec"
)

// TestPendingBlocked gives a blocked request up, before and after Block: the context of its caller
// ends, and it is answered once, with what the caller found.
func TestPendingBlocked(t *testing.T) {
	for _, before := range []bool{false, true} {
		var answers []request.Answer
		p := new(Machine).NewPending(func(a request.Answer) { answers = append(answers, a) })
		if p.state.Store(pendingAnswered); before {
			p.GiveUp()
		}
		ctx, finish := p.Block()
		if (ctx.Err() != nil) != before {
			t.Errorf("given up before: %v: %v", before, ctx.Err())
		}
		if p.GiveUp(); ctx.Err() == nil {
			t.Error("it was given up, and its caller goes on")
		}
		finish(request.Answer{Outcome: api.Overloaded})
		p.GiveUp()
		if p.Deliver(); len(answers) != 1 || answers[0].Outcome != api.Overloaded {
			t.Errorf("given up before: %v: %+v", before, answers)
		}
	}
}

// TestLookupIsCompleted: the answer to a query of one claim has the amounts of its packets, and an entry
// without a rank is not drawn, as in the answers to claims and to queries of users.
func TestLookupIsCompleted(t *testing.T) {
	packets := new(spec.Packets)
	s := &session{redPackets: redPackets{packets: func() *spec.Packets { return packets }}}
	s.ranks.Store(&ranks{has: map[request.ClaimID]bool{{Slot: 1}: true}})
	for name, c := range map[string]struct {
		answer  request.Answer
		packets bool
		outcome api.Outcome
		state   api.Outcome
	}{
		"a claim":               {request.Answer{Claim: request.Claim{User: "ann", State: api.Sold}}, true, "", api.Sold},
		"an entry with a rank":  {request.Answer{Claim: request.Claim{User: "ann", ID: request.ClaimID{Slot: 1}, State: api.Entered}}, true, "", api.Entered},
		"an entry without":      {request.Answer{Claim: request.Claim{User: "ann", ID: request.ClaimID{Slot: 2}, State: api.Entered}}, true, "", api.NotDrawn},
		"a claim that it makes": {request.Answer{Outcome: api.Entered, Claim: request.Claim{User: "ann", ID: request.ClaimID{Slot: 2}, State: api.Entered}}, false, api.NotDrawn, api.NotDrawn},
		"no claim":              {request.Answer{Outcome: api.NoSuchClaim}, false, api.NoSuchClaim, ""},
	} {
		a := c.answer
		s.completeAnswer(&a)
		if (a.Claim.Packets == packets) != c.packets || a.Outcome != c.outcome || a.Claim.State != c.state {
			t.Errorf("%s: %q, %q, packets %v", name, a.Outcome, a.Claim.State, a.Claim.Packets != nil)
		}
	}
}
