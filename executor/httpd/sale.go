package httpd

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/events"
	"salectl/executor/payments"
)

// sale is a sale that a Server serves. It is an executor.Service that reports payments which bought
// nothing, whoever confirms them, and a stream.Sale.
type sale struct {
	executor.Service
	*saleMetrics
	name    string
	log     *slog.Logger
	feed    *events.Sale      // nil: nobody can follow the sale
	checker *payments.Checker // nil: there is none
	webhook *payments.Webhook // nil: there is none
	places  atomic.Pointer[places]
	removed atomic.Bool
}

// Removed reports whether the server no longer serves the sale.
func (s *sale) Removed() bool { return s.removed.Load() }

// Do answers a request.
func (s *sale) Do(ctx context.Context, r executor.Request) executor.Answer {
	a := s.Service.Do(ctx, r)
	if r.Settle != nil {
		return s.reportUnrecorded(r.Settle.Claim.String(), r.Settle, a)
	}
	return a
}

// Begin begins to answer a request.
func (s *sale) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	if r.Settle == nil || r.Settle.How != api.Confirm {
		return s.Service.Begin(r, answered)
	}
	return s.Service.Begin(r, func(a executor.Answer) { answered(s.reportUnrecorded(r.Settle.Claim.String(), r.Settle, a)) })
}

// reportUnrecorded logs, and adds to the answer, that a payment is in no ledger, since the sale has ended
// or has no such claim: nothing else remembers that it must be paid back.
func (s *sale) reportUnrecorded(claim string, x *executor.Settlement, a executor.Answer) executor.Answer {
	if x.How == api.Confirm && a.Claim.User == "" && a.Outcome.Row().Retry == api.Final {
		a.Message = cmp.Or(strings.TrimSuffix(a.Message, "."), strings.TrimSuffix(a.Outcome.Row().Detail, ".")) + ". The payment bought nothing, and no ledger has it: pay it back."
		s.log.Warn("a payment bought nothing, and the ledger does not have it: pay it back", "sale", s.name, "claim", claim,
			"payment", x.Payment, "outcome", a.Outcome)
	}
	return a
}

// clockOff reports whether this process knows that its clock is wrong.
func (s *sale) clockOff() bool {
	e, ok := s.Service.(interface{ ClockOff() time.Duration })
	return ok && e.ClockOff() != 0
}
