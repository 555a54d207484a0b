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
func (server *Server) postWebhook(w http.ResponseWriter, r *http.Request, t target) (label api.Outcome) {
	sale := t.sale
	event, err := server.readEvent(r, sale)
	switch {
	case err != nil:
		return sale.rejectWebhook(w, r, err)
	case event.How == "":
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: ignored, Sale: sale.name})
		return ignored
	}
	a := server.settle(r.Context(), sale, event.Claim, event.How, event.Settlement)
	return sale.answerWebhook(w, r, &event, &a)
}

// readEvent reads a message and verifies its signature. Until then its sender is unknown, so its
// memory is limited.
func (server *Server) readEvent(r *http.Request, sale *sale) (none payments.Event, _ error) {
	if sale.webhook == nil {
		return none, payments.ErrNoWebhook
	}
	if !server.unsigned.TryTake(bytesOfMessage) {
		return none, errUnsigned
	}
	defer server.unsigned.Add(-bytesOfMessage)
	switch body, f := readBody(r, nil, payments.MaxEvent, server.unsigned); f {
	case nil:
		return sale.webhook.Read(server.config.Clock().Wall, r.Header, body)
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
func (sale *sale) answerWebhook(w http.ResponseWriter, r *http.Request, event *payments.Event, answer *executor.Answer) api.Outcome {
	switch row := answer.Outcome.Row(); {
	case row.Retry != api.Final:
		p := wire.ProblemOf(answer.Outcome)
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, max(answer.RetryAfter, p.RetryAfter, time.Second)
		p.Detail = "This message was not processed, or its result is unknown. Repeat it: it takes effect once."
		p.Write(w)
	case answer.Claim.User == "": // no such claim, or no such sale
		sale.refuse(w, answer)
	default:
		if answer.RefundDue {
			sale.log.With(wire.LogAttrs(w, r)...).Warn("a payment bought nothing and is owed back", "sale", sale.name, "claim", event.Claim,
				"payment", event.Payment, "outcome", answer.Outcome)
		}
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: answer.Outcome, Sale: sale.name, Claim: event.Claim, RefundDue: answer.RefundDue})
		if answer.Replayed {
			return api.Replayed
		}
	}
	return answer.Outcome
}

// rejectWebhook answers a message that is not accepted.
func (sale *sale) rejectWebhook(w http.ResponseWriter, r *http.Request, err error) api.Outcome {
	rejection, is := errors.AsType[*payments.Rejection](err)
	malformed, ok := errors.AsType[*wire.Problem](err)
	own, _ := sale.Service.(interface{ ClockOff() time.Duration })
	switch {
	case ok:
		malformed.Write(w)
	case !is: // payments.ErrAway. Without an outcome, the process has just begun to serve.
		return sale.answerWebhook(w, r, &payments.Event{}, &executor.Answer{Outcome: cmp.Or(sale.Status().Outcome, api.Standby)})
	case rejection.Clock && own != nil && own.ClockOff() != 0:
		wire.Unavailable(payments.UnreadyRetry, "The clock of this server is wrong, so it cannot verify the age of the message. Repeat it later, or at another process of the sale.").Write(w)
	default:
		p := wire.NewProblem(rejection.Status, rejection.Detail)
		p.RetryAfter = rejection.RetryAfter
		p.Write(w)
	}
	return rejected
}
