package api

import (
	"context"
	"errors"
	"fmt"

	"salectl/api/streampb"
)

// sendOver is post over a stream, with the answer in a.next.
func (a *asking) sendOver(ctx context.Context, s *server) (err error) {
	c := newCall()
	defer c.free()
	c.answer = a.next
	if a.settles != nil {
		c.how = How(a.settles.How)
		c.asks = &streampb.Request{Asks: &streampb.Request_Settle{Settle: a.settles}}
	} else {
		c.asksFor(&a.claim)
	}
	sent, err := s.link.ask(ctx, c)
	if sent {
		a.sent.Store(true)
	}
	return s.result(a.next, err)
}

// result returns the error of a request over a stream, and sets its answer, as the same request over HTTP
// has them.
func (s *server) result(a *Answer, err error) error {
	switch foreign, is := errors.AsType[*UnexpectedError](err); {
	case is && foreign.said.Outcome != "": // the server has opened no stream
		said := foreign.said
		*a = Answer{
			Outcome: said.Outcome, Status: foreign.StatusCode, Server: s.base, said: &said,
			RetryAfter: max(foreign.RetryAfter, said.Outcome.Row().RetryAfter),
		}
		return nil
	case err == nil && a.Outcome == "" && a.said != nil: // it has not processed the request, such as for want of a right
		status := fmt.Sprintf("%d %s", a.said.Status, a.said.Title)
		err = &UnexpectedError{Server: s.base, StatusCode: a.said.Status, Status: status, Detail: a.said.Detail, said: *a.said}
	case err == nil:
		return nil
	}
	*a = Answer{}
	return err
}

// lookOver looks up claims over a stream, at the first server that can answer.
func (c *Client) lookOver(ctx context.Context, shard func(shards int) int, q *streampb.Query, p Page) (claims []Claim, next string, err error) {
	q.Before, q.Limit = p.Before, uint32(p.Limit)
	r := &streampb.Request{Asks: &streampb.Request_Query{Query: q}}
	err = c.inTurn(ctx, c.first(shard), func(s *server) error {
		asks, answer := newCall(), Answer{}
		defer asks.free()
		asks.asks, asks.answer = r, &answer
		_, err := s.link.ask(ctx, asks)
		if err = s.result(&answer, err); err != nil {
			return err
		}
		if answer.Outcome != "" || answer.said != nil {
			return new(answer.Problem())
		}
		claims, next = asks.claims, asks.next
		return nil
	})
	return claims, next, err
}
