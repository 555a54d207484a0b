package httpd

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/events"
	"salectl/executor/payments"
)

// sale is a sale that a Server serves. It is a stream.Sale, and an executor.Service that reports
// unrecorded payments from every source.
type sale struct {
	executor.Service
	*saleMetrics
	name    string
	clock   clock.Clock
	log     *slog.Logger
	feed    *events.Sale                                   // nil: the sale cannot be followed
	checker *payments.Checker                              // nil: none
	webhook *payments.Webhook                              // nil: none
	places  atomic.Pointer[[]atomic.Pointer[placeHeaders]] // by shard
	removed atomic.Bool
}

// Removed reports whether the server no longer serves the sale.
func (sale *sale) Removed() bool { return sale.removed.Load() }

// Do answers a request.
func (sale *sale) Do(ctx context.Context, r executor.Request) executor.Answer {
	a := sale.Service.Do(ctx, r)
	if r.Settle != nil {
		return sale.reportUnrecorded(r.Settle.Claim.String(), r.Settle, a)
	}
	return a
}

// Begin starts to answer a request.
func (sale *sale) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	if r.Settle == nil || r.Settle.How != api.Confirm {
		return sale.Service.Begin(r, answered)
	}
	return sale.Service.Begin(r, func(a executor.Answer) { answered(sale.reportUnrecorded(r.Settle.Claim.String(), r.Settle, a)) })
}

// reportUnrecorded logs a payment that no ledger records, and adds this to the answer. The sale has
// ended or has no such claim, so no other record shows that the payment must be paid back.
func (sale *sale) reportUnrecorded(claim string, x *executor.Settlement, a executor.Answer) executor.Answer {
	if x.How == api.Confirm && a.Claim.User == "" && a.Outcome.Row().Retry == api.Final {
		a.Message = cmp.Or(strings.TrimSuffix(a.Message, "."), strings.TrimSuffix(a.Outcome.Row().Detail, ".")) + ". The payment bought nothing, and no ledger has it: pay it back."
		sale.log.Warn("a payment bought nothing, and the ledger does not have it: pay it back", "sale", sale.name, "claim", claim,
			"payment", x.Payment, "outcome", a.Outcome)
	}
	return a
}

// placeHeaders caches the headers with a shard and its owner, to save an allocation per response.
type placeHeaders struct {
	shard, owner []string // of api.ShardHeader and api.OwnerHeader
}

// setPlace sets the headers with the shard and owner of a request, if they are known.
func (sale *sale) setPlace(header http.Header, place executor.Place) {
	if place.Shards <= 0 || place.Shard < 0 || place.Shard >= place.Shards {
		return
	}
	all := sale.places.Load()
	if all == nil || len(*all) != place.Shards {
		all = new(make([]atomic.Pointer[placeHeaders], place.Shards))
		sale.places.Store(all)
	}
	one := (*all)[place.Shard].Load()
	if one == nil || one.owner[0] != place.Owner {
		one = &placeHeaders{[]string{strconv.Itoa(place.Shard) + "/" + strconv.Itoa(place.Shards)}, []string{place.Owner}}
		(*all)[place.Shard].Store(one)
	}
	header[api.ShardHeader] = one.shard
	if place.Owner != "" {
		header[api.OwnerHeader] = one.owner
	}
}
