package request

import (
	"cmp"
	"slices"
	"time"

	"salectl/api"
	"salectl/api/streampb"
)

// Answers, claims and settlements in the form of a stream's messages.
// Each conversion has an inverse, so that a process can forward what another one has decided.

// ToStream puts an answer into m, whose parts are used again. It sets no place.
func (a *Answer) ToStream(m *streampb.Answer) {
	m.Outcome, m.Replayed, m.RefundDue = string(a.Outcome), a.Replayed, a.RefundDue
	m.OtherRules, m.Elsewhere = a.OtherRules, a.Elsewhere
	m.Rule, m.Reason, m.Message = a.Rule, a.Reason, a.Message
	m.OpensAtNs, m.RetryAfterNs = toNs(a.OpensAt), int64(a.RetryAfter)
	if a.Claim.User == "" {
		m.Claim = nil
	} else {
		if m.Claim == nil {
			m.Claim = new(streampb.Claim)
		}
		a.Claim.ToStream(m.Claim)
	}
	m.Claims, m.Count, m.Next = nil, uint32(a.Count), a.Next
	for i := range a.Claims {
		claim := new(streampb.Claim)
		a.Claims[i].ToStream(claim)
		m.Claims = append(m.Claims, claim)
	}
}

// AnswerOf returns the answer of a message. It is the inverse of ToStream.
func AnswerOf(m *streampb.Answer) Answer {
	a := Answer{
		Outcome: api.Outcome(m.GetOutcome()), Claim: claimOf(m.GetClaim()), Count: int(m.GetCount()), Next: m.GetNext(),
		Replayed: m.GetReplayed(), RefundDue: m.GetRefundDue(), OtherRules: m.GetOtherRules(), Elsewhere: m.GetElsewhere(),
		Rule: m.GetRule(), Reason: m.GetReason(), Message: m.GetMessage(),
		OpensAt: api.TimeOf(m.GetOpensAtNs()), RetryAfter: time.Duration(m.GetRetryAfterNs()),
	}
	for _, claim := range m.GetClaims() {
		a.Claims = append(a.Claims, claimOf(claim))
	}
	return a
}

// ToStream puts a claim into m, whose parts are used again. The units are still the claim's.
func (c *Claim) ToStream(m *streampb.Claim) {
	if m.Id == nil {
		m.Id = new(streampb.ClaimID)
	}
	c.ID.Put(m.Id)
	m.User, m.Units, m.Requested, m.State = c.User, c.Units, c.Requested, string(c.State)
	m.AtNs, m.HeldUntilNs, m.Books, m.Packets = toNs(c.At), toNs(c.HeldUntil), nil, nil
	m.Payloads, m.Undelivered = m.Payloads[:0], c.Undelivered
	for _, p := range c.Payloads {
		m.Payloads = append(m.Payloads, &streampb.Payload{Names: p.Columns, Values: p.Values})
	}
	if b := c.Books; b != nil {
		m.Books = &streampb.Books{
			SettledAtNs: toNs(b.SettledAt), Who: b.Who, Why: b.Why, Payment: b.Payment,
			Extended: b.Extended, Retired: b.Retired, RefundsDue: b.RefundDue, RefundCount: uint32(b.RefundsDue), Next: b.RefundDueNext,
		}
		for _, r := range b.Returned {
			m.Books.Returned = append(m.Books.Returned, &streampb.Returned{Payment: r.Payment, AtNs: toNs(r.At), Who: r.Who, Why: r.Why})
		}
	}
	if p := c.Packets; p != nil {
		m.Packets = &streampb.Packets{Currency: p.Currency, Scale: uint32(p.Scale)}
		for _, unit := range c.Units {
			m.Packets.Amounts = append(m.Packets.Amounts, p.Amount(unit))
		}
	}
}

// claimOf returns the claim of a message. It is the inverse of ToStream, without what the process that answers
// adds itself: packets and payloads.
func claimOf(m *streampb.Claim) Claim {
	c := Claim{
		ID: api.ClaimIDOf(m.GetId()), User: m.GetUser(), Requested: m.GetRequested(), State: api.Outcome(m.GetState()),
		Units: append([]int64(nil), m.GetUnits()...), At: api.TimeOf(m.GetAtNs()), HeldUntil: api.TimeOf(m.GetHeldUntilNs()),
	}
	if b := m.GetBooks(); b != nil {
		books := api.BooksOf(b)
		c.Books = &books
	}
	return c
}

// RequestOf returns the request of a message. It reports false if the message has none.
func RequestOf(m *streampb.Request) (r Request, ok bool) {
	switch kind := m.GetKind().(type) {
	case *streampb.Request_Claim:
		r.User, r.Key, r.Quantity = kind.Claim.GetUser(), kind.Claim.GetKey(), cmp.Or(kind.Claim.GetQuantity(), 1)
		// The message is decoded again into the same slices.
		r.Units, r.Names = slices.Clone(kind.Claim.GetUnits()), slices.Clone(kind.Claim.GetNames())
		r.Adjacent = kind.Claim.GetAdjacent()
	case *streampb.Request_Settle:
		x := SettlementOf(kind.Settle)
		r.Settle = &x
	case *streampb.Request_Query:
		m := kind.Query
		r.Query = &Query{User: m.GetUser(), Claim: api.ClaimIDOf(m.GetClaim()), Page: api.Page{Before: m.GetBefore(), Limit: int(m.GetLimit())}}
	default:
		return r, false
	}
	return r, true
}

// ToStream returns the message that requests a settlement.
func (x *Settlement) ToStream() *streampb.Settlement {
	return &streampb.Settlement{
		Claim: x.Claim.ToStream(), How: string(x.How),
		Payment: x.Payment, Who: x.Who, Reason: x.Reason, Retire: x.Retire,
	}
}

// SettlementOf returns the settlement of a message. It is the inverse of ToStream.
func SettlementOf(m *streampb.Settlement) Settlement {
	return Settlement{
		Claim: api.ClaimIDOf(m.GetClaim()), How: api.How(m.GetHow()),
		Settlement: api.Settlement{Payment: m.GetPayment(), Who: m.GetWho(), Reason: m.GetReason(), Retire: m.GetRetire()},
	}
}

// toNs is the inverse of api.TimeOf.
func toNs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
