package peers_test

import (
	"context"

	"salectl/api"
	"salectl/executor"
)

func lookupUser(ctx context.Context, s executor.Service, user string, p api.Page) (claims []executor.Claim, next string, why api.Outcome) {
	a := s.Do(ctx, executor.Request{Query: &executor.Query{User: user, Page: p}})
	return a.Claims, a.Next, a.Outcome
}

func lookupClaim(ctx context.Context, s executor.Service, id executor.ClaimID, p api.Page) (executor.Claim, api.Outcome) {
	a := s.Do(ctx, executor.Request{Query: &executor.Query{Claim: id, Page: p}})
	return a.Claim, a.Outcome
}

func settle(ctx context.Context, s executor.Service, x executor.Settlement) executor.Answer {
	return s.Do(ctx, executor.Request{Settle: &x})
}
