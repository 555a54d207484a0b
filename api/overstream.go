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
	if err == nil {
		err = notTaken(s, a.next)
	}
	if err != nil {
		*a.next, err = refused(s, err)
	}
	return err
}

// notTaken returns the error of a request that the server has not processed, such as for want
// of a right. It equals that of the same request over HTTP.
func notTaken(s *server, a *Answer) error {
	if a.Outcome != "" || a.said == nil {
		return nil
	}
	return &UnexpectedError{Server: s.base, StatusCode: a.said.Status, Status: fmt.Sprintf("%d %s", a.said.Status, a.said.Title), Detail: a.said.Detail, said: *a.said}
}

// refused returns the answer of a server that opened no stream, if its problem document has an
// outcome.
func refused(s *server, err error) (Answer, error) {
	foreign, is := errors.AsType[*UnexpectedError](err)
	if !is || foreign.said.Outcome == "" {
		return Answer{}, err
	}
	said := foreign.said
	row := said.Outcome.Row()
	return Answer{Outcome: said.Outcome, Status: foreign.StatusCode, Server: s.base, RetryAfter: max(foreign.RetryAfter, row.RetryAfter), said: &said}, nil
}

// lookOver looks up claims over a stream, at the first server that can answer.
func (c *Client) lookOver(ctx context.Context, shard func(shards int) int, q *streampb.Query, p Page) (claims []Claim, next string, err error) {
	q.Before, q.Limit = p.Before, uint32(p.Limit)
	r := &streampb.Request{Asks: &streampb.Request_Query{Query: q}}
	err = c.inTurn(ctx, c.first(shard), func(s *server) (err error) {
		claims, next, err = c.lookAtOver(ctx, s, r)
		return err
	})
	return claims, next, err
}

func (c *Client) lookAtOver(ctx context.Context, s *server, r *streampb.Request) (claims []Claim, next string, err error) {
	asks := newCall()
	defer asks.free()
	var answer Answer
	asks.asks, asks.answer = r, &answer
	_, err = s.link.ask(ctx, asks)
	if err == nil {
		err = notTaken(s, &answer)
	}
	if err != nil {
		if answer, err = refused(s, err); err != nil {
			return nil, "", err
		}
	}
	if answer.Outcome != "" || answer.said != nil {
		problem := answer.Problem()
		return nil, "", &problem
	}
	return asks.claims, asks.next, nil
}
