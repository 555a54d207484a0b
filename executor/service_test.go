package executor

import (
	"context"

	"salectl/api"
)

func lookupUser(ctx context.Context, s Service, user string, p api.Page) (claims []Claim, next string, why api.Outcome) {
	a := s.Do(ctx, Request{Query: &Query{User: user, Page: p}})
	return a.Claims, a.Next, a.Outcome
}

func lookupClaim(ctx context.Context, s Service, id ClaimID, p api.Page) (Claim, api.Outcome) {
	a := s.Do(ctx, Request{Query: &Query{Claim: id, Page: p}})
	return a.Claim, a.Outcome
}

func settle(ctx context.Context, s Service, x Settlement) Answer {
	return s.Do(ctx, Request{Settle: &x})
}
