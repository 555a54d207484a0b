package process

import (
	"sync"
	"testing"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
	"salectl/spec"
)

// TestPendingBlocked gives a request up that is decided again, before and meanwhile: the context of the decision
// ends, and the request is answered once.
func TestPendingBlocked(t *testing.T) {
	for name, before := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			var answers []request.Answer
			var p *Pending
			ended := false
			m := New(Config{Me: []byte("me"), Clock: func() clock.Now {
				if p.state.Load() != pendingBlocked {
					t.Error("it is not blocked while it is decided")
				}
				cancel := p.cancel
				p.cancel = func() { ended = true; cancel() }
				p.Cancel()
				return clock.Now{}
			}})
			p = &Pending{m: m, answered: func(a request.Answer) { answers = append(answers, a) }}
			p.ticket = request.NewTicket(new(sync.Pool), request.Request{User: "ann", Key: "key", Quantity: 1}, nil, 0)
			if p.state.Store(pendingAnswered); before {
				p.Cancel()
			}
			p.DoAgain()
			p.Cancel()
			if p.Deliver(); len(answers) != 1 || answers[0].Outcome != api.Standby || !ended {
				t.Errorf("%+v, and its context has ended: %v", answers, ended)
			}
		})
	}
}

// TestLookupIsCompleted: the answer to a query of one claim has the amounts of its packets, and an entry
// without a rank is not drawn, as in the answers to claims and to queries of users.
func TestLookupIsCompleted(t *testing.T) {
	packets := new(spec.Packets)
	s := &session{packets: func() *spec.Packets { return packets }}
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
