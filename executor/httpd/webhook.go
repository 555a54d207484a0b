package httpd

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
	"salectl/executor/payments"
)

// paymentPath is the path of a payment service's messages, below that of the sale.
const paymentPath = "/webhooks/payment"

// Labels of messages in addition to outcomes of claims. ignored: the message concerns no claim.
// rejected: it is not from the payment service, or is not understood.
const (
	ignored  api.Outcome = "ignored"
	rejected api.Outcome = "rejected"
)

// postWebhook handles POST /v1/sales/{sale}/webhooks/payment, signed and without a token.
func (target target) postWebhook(w http.ResponseWriter, r *http.Request) (label api.Outcome, _ *wire.Problem) {
	sale := target.sale
	event, err := target.readEvent(r)
	switch {
	case err != nil:
		return "", sale.rejectWebhook(err)
	case event.How == "":
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: ignored, Sale: sale.name})
		return ignored, nil
	}
	a := target.settle(r.Context(), event.Claim, event.How, event.Settlement)
	return sale.answerWebhook(w, r, &event, &a)
}

// readEvent reads a message and verifies its signature. Until then its sender is unknown, so its
// memory is limited.
func (target target) readEvent(r *http.Request) (none payments.Event, _ error) {
	if target.sale.webhook == nil {
		return none, payments.ErrNoWebhook
	}
	if !target.unsigned.TryTake(bytesOfMessage) {
		return none, errUnsigned
	}
	defer target.unsigned.Add(-bytesOfMessage)
	switch body, f := readBody(r, nil, payments.MaxEvent, target.unsigned); f {
	case nil:
		return target.sale.webhook.Read(target.config.Clock().Wall, r.Header, body)
	case crowded:
		return none, errUnsigned
	default:
		return none, f
	}
}

const (
	maxUnsigned    = 8 << 20 // bytes of messages with unverified signatures
	bytesOfMessage = 8 << 10 // approximate size of a message beyond its body
)

// errUnsigned reports that too many messages are being read.
var errUnsigned = &payments.Rejection{Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
	Detail: "Too many messages are being processed; this one was not processed. Send it again."}

// answerWebhook reports the result of the settlement. A sender treats 2xx as done, and repeats a
// message after any other answer. So a final result is 200, even if the message has changed
// nothing, and an unknown result is 503.
func (sale *sale) answerWebhook(w http.ResponseWriter, r *http.Request, event *payments.Event, answer *executor.Answer) (label api.Outcome, _ *wire.Problem) {
	if answer.Outcome.Row().Retry != api.Final || answer.Claim.User == "" {
		return "", sale.webhookRefusal(answer)
	}
	if answer.RefundDue {
		sale.log.With(wire.LogAttrs(w, r)...).Warn("a payment bought nothing and is owed back", "sale", sale.name, "claim", event.Claim,
			"payment", event.Payment, "outcome", answer.Outcome)
	}
	wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: answer.Outcome, Sale: sale.name, Claim: event.Claim, RefundDue: answer.RefundDue})
	return outcomeLabel(answer), nil
}

// webhookRefusal returns the problem of a message without a final result, or about no claim or no sale.
func (sale *sale) webhookRefusal(answer *executor.Answer) *wire.Problem {
	if answer.Outcome.Row().Retry == api.Final {
		return wire.Refusal(sale.name, sale.clock, answer)
	}
	p := wire.ProblemOf(answer.Outcome)
	p.Status, p.RetryAfter = http.StatusServiceUnavailable, max(answer.RetryAfter, p.RetryAfter, time.Second)
	p.Detail = "This message was not processed, or its result is unknown. Repeat it: it takes effect once."
	return p
}

// rejectWebhook returns the problem of a message that is not accepted.
func (sale *sale) rejectWebhook(err error) *wire.Problem {
	rejection, is := errors.AsType[*payments.Rejection](err)
	malformed, ok := errors.AsType[*wire.Problem](err)
	own, _ := sale.Service.(interface{ ClockOff() time.Duration })
	switch {
	case ok:
		return wire.NewProblem(malformed.Status, malformed.Detail) // without an outcome: the sender's protocol has none
	case !is: // payments.ErrAway. Without an outcome, the process has just begun to serve.
		return sale.webhookRefusal(&executor.Answer{Outcome: cmp.Or(sale.Status().Outcome, api.Standby)})
	case rejection.Clock && own != nil && own.ClockOff() != 0:
		return wire.Unavailable(payments.UnreadyRetry, "The clock of this server is wrong, so it cannot verify the age of the message. Repeat it later, or at another process of the sale.")
	}
	p := wire.NewProblem(rejection.Status, rejection.Detail)
	p.RetryAfter = rejection.RetryAfter
	return p
}
