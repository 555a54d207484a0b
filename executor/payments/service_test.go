package payments

import (
	"context"

	"salectl/api"
	"salectl/executor"
)

func lookupUser(ctx context.Context, s executor.Service, user string, p api.Page) (claims []executor.Claim, next string, why api.Outcome) {
	a := s.Do(ctx, executor.Request{Query: &executor.Query{User: user, Page: p}})
	return a.Claims, a.Next, a.Outcome
}

func settle(ctx context.Context, s executor.Service, x executor.Settlement) executor.Answer {
	return s.Do(ctx, executor.Request{Settle: &x})
}
