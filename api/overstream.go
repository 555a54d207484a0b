package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"salectl/api/streampb"
)

// Requests over a stream, with results in the form of HTTP/1.1.

// sendOver is post over a stream, with the answer in a.next.
func (a *submission) sendOver(ctx context.Context, s *server) (err error) {
	c := newCall()
	defer c.free()
	c.answer = a.next
	if a.settles != nil {
		c.how = How(a.settles.How)
		c.message = &streampb.Request{Kind: &streampb.Request_Settle{Settle: a.settles}}
	} else {
		c.setClaim(&a.claim)
	}
	sent, err := s.link.roundTrip(ctx, c)
	if sent {
		a.sent.Store(true)
	}
	return s.result(a.next, err)
}

// result returns the error of a request over a stream, and may replace its answer. Both are those of
// the same request over HTTP.
func (s *server) result(a *Answer, err error) error {
	switch foreign, is := errors.AsType[*UnexpectedError](err); {
	case is && foreign.problem.Outcome != "": // the server has opened no stream
		problem := foreign.problem
		*a = Answer{
			Outcome: problem.Outcome, Status: foreign.StatusCode, Server: s.base, decoded: &problem,
			RetryAfter: max(foreign.RetryAfter, problem.Outcome.Row().RetryAfter),
		}
		return nil
	case err == nil && a.Outcome == "" && a.decoded != nil: // it has not processed the request, such as for want of a right
		status := fmt.Sprintf("%d %s", a.decoded.Status, a.decoded.Title)
		err = &UnexpectedError{Server: s.base, StatusCode: a.decoded.Status, Status: status, Detail: a.decoded.Detail, problem: *a.decoded}
	case err == nil:
		return nil
	}
	*a = Answer{}
	return err
}

// queryOver looks up claims over a stream, at the first server that can answer.
func (c *Client) queryOver(ctx context.Context, shard func(shards int) int, q *streampb.Query, p Page) (claims []Claim, next string, err error) {
	q.Before, q.Limit = p.Before, uint32(p.Limit)
	r := &streampb.Request{Kind: &streampb.Request_Query{Query: q}}
	err = c.inTurn(ctx, c.first(shard), func(s *server) error {
		call, answer := newCall(), Answer{}
		defer call.free()
		call.message, call.answer = r, &answer
		_, err := s.link.roundTrip(ctx, call)
		if err = s.result(&answer, err); err != nil {
			return err
		}
		if answer.Outcome != "" || answer.decoded != nil {
			return new(answer.Problem())
		}
		claims, next = call.claims, call.next
		return nil
	})
	return claims, next, err
}

// answerOf stores an answer in a.
func (c *Client) answerOf(a *Answer, m *streampb.Answer, call *call) {
	if m.Outcome == "" { // of a query
		if call.claims, call.next = c.claimsOf(m.Claims), m.Next; m.Claim != nil {
			call.claims = c.claimsOf([]*streampb.Claim{m.Claim})
		}
		return
	}
	row := Outcome(m.Outcome).row()
	a.Outcome, a.Status, a.RetryAfter = row.Outcome, row.Status, max(time.Duration(m.RetryAfterNs), row.RetryAfter)
	if a.RetryAfter == 0 {
		a.RetryAfter = time.Second
	}
	settled := call.how != ""
	if done := !settled && row.Outcome.Accepted() || settled && row.Outcome == call.how.Done(); done {
		c.claimOf(&a.Claim, m.Claim, row.Outcome, call.claim.User)
		if a.Replayed = m.Replayed && !settled; m.Replayed || settled {
			a.Status = http.StatusOK
		}
		return
	}
	if m.Message == "" && m.Rule == "" && m.OpensAtNs == 0 && m.ServerTimeNs == 0 && len(m.Claims) == 0 && m.Claim == nil && !m.RefundDue {
		return
	}
	p := row.Problem()
	if m.Message != "" {
		p.Detail = m.Message
	}
	p.Rule, p.Reason, p.RefundDue = m.Rule, m.Reason, m.RefundDue
	p.OpensAt, p.ServerTime = TimeOf(m.OpensAtNs), TimeOf(m.ServerTimeNs)
	p.Claims, p.Count = c.claimsOf(m.Claims), int(m.Count)
	if m.Claim != nil && len(p.Claims) == 0 {
		p.Claims = c.claimsOf([]*streampb.Claim{m.Claim})
	}
	a.decoded = &p
}

func (c *Client) claimsOf(all []*streampb.Claim) []Claim {
	if len(all) == 0 {
		return nil
	}
	claims := make([]Claim, len(all))
	for i, m := range all {
		c.claimOf(&claims[i], m, Outcome(m.State), "")
	}
	return claims
}

// claimOf stores a claim in a. user is the likely value of its user.
func (c *Client) claimOf(a *Claim, m *streampb.Claim, outcome Outcome, user string) {
	a.Outcome, a.Sale, a.User = outcome, c.cfg.Sale, m.GetUser()
	if a.User == user {
		a.User = user // so that the other can be freed
	}
	a.ID = ClaimIDOf(m.GetId()).String()
	a.Units = append(make([]int64, 0, len(m.GetUnits())), m.GetUnits()...)
	a.Requested, a.At, a.HeldUntil = m.GetRequested(), TimeOf(m.GetAtNs()), TimeOf(m.GetHeldUntilNs())
	if p := m.GetPackets(); p != nil {
		a.Currency = p.Currency
		for _, minor := range p.Amounts {
			a.Amounts = append(a.Amounts, amountText(minor, int(p.Scale)))
		}
	}
	a.Undelivered = m.GetUndelivered()
	for _, p := range m.GetPayloads() {
		a.Payloads = append(a.Payloads, payloadOf(p))
	}
	if b := m.GetBooks(); b != nil {
		a.Books = BooksOf(b)
	}
}

// BooksOf returns the books in a message.
func BooksOf(m *streampb.Books) Books {
	b := Books{
		SettledAt: TimeOf(m.SettledAtNs), Who: m.Who, Why: m.Why, Payment: m.Payment, Extended: m.Extended, Retired: m.Retired,
		RefundDue: m.RefundsDue, RefundsDue: int(m.RefundCount), RefundDueNext: m.Next,
	}
	for _, r := range m.Returned {
		b.Returned = append(b.Returned, PaymentReturn{r.Payment, TimeOf(r.AtNs), r.Who, r.Why})
	}
	return b
}

// payloadOf returns a unit's payload by attribute names.
func payloadOf(m *streampb.Payload) map[string]string {
	p := make(map[string]string, len(m.GetNames()))
	for i, name := range m.GetNames()[:min(len(m.GetNames()), len(m.GetValues()))] {
		p[name] = m.GetValues()[i]
	}
	return p
}

// amountText formats minor units as a decimal: 37 is 0.37 with two decimals.
func amountText(minor int64, scale int) string {
	sign, digits := "", strconv.FormatInt(minor, 10)
	if minor < 0 {
		sign, digits = "-", digits[1:]
	}
	if scale <= 0 {
		return sign + digits
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// TimeOf returns the time of a message: nanoseconds since 1970, or 0 for none.
func TimeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
