package httpd

import (
	"context"

	"salectl/api"
	"salectl/executor"
)

// fake is a sale whose every answer a test chooses. A nil function answers with
// nothing.
type fake struct {
	name    string
	claim   func(context.Context, executor.Request) executor.Answer
	decline func(executor.Request, api.Outcome) executor.Answer
	settle  func(context.Context, executor.Settlement) executor.Answer
	user    func(string) ([]executor.Claim, api.Outcome)
	// Look-ups that are asked for pages; nil: user and find.
	page     func(string, api.Page) ([]executor.Claim, string, api.Outcome)
	findPage func(executor.ClaimID, api.Page) (executor.Claim, api.Outcome)

	find   func(executor.ClaimID) (executor.Claim, api.Outcome)
	status func() executor.Status
	ready  func() error
	place  executor.Place
}

var _ executor.Service = (*fake)(nil)

func (f *fake) Sale() string { return f.name }

func (f *fake) Do(ctx context.Context, r executor.Request) executor.Answer {
	switch {
	case r.Settle != nil:
		return f.settle(ctx, *r.Settle)
	case r.Query == nil:
		return f.claim(ctx, r)
	case r.Query.User == "":
		claim, why := f.findClaim(r.Query.Claim, r.Query.Page)
		return executor.Answer{Claim: claim, Outcome: why}
	}
	claims, next, why := f.claimsOf(r.Query.User, r.Query.Page)
	return executor.Answer{Claims: claims, Next: next, Outcome: why}
}

func (f *fake) Begin(r executor.Request, answered func(executor.Answer)) (giveUp func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer cancel(); answered(f.Do(ctx, r)) }()
	return cancel
}

func (f *fake) Place(user string) executor.Place { return f.place }

func (f *fake) PlaceOf(int) executor.Place { return f.place }

func (f *fake) Decline(r executor.Request, why api.Outcome) executor.Answer {
	if f.decline == nil {
		return executor.Answer{Outcome: why}
	}
	return f.decline(r, why)
}

func (f *fake) claimsOf(user string, p api.Page) (claims []executor.Claim, next string, why api.Outcome) {
	if f.page != nil {
		return f.page(user, p)
	}
	claims, why = f.user(user)
	return claims, "", why
}

func (f *fake) findClaim(id executor.ClaimID, p api.Page) (executor.Claim, api.Outcome) {
	if f.findPage != nil {
		return f.findPage(id, p)
	}
	return f.find(id)
}

func (f *fake) Status() executor.Status {
	if f.status == nil {
		return executor.Status{}
	}
	return f.status()
}

func (f *fake) Ready() error {
	if f.ready == nil {
		return nil
	}
	return f.ready()
}
