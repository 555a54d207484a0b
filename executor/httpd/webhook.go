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

// paymentWebhook is what follows /webhooks/ in the path of a payment service's messages.
const paymentWebhook = "payment"

// Outcomes of messages beside those of claims: ignored concerns no claim; rejected was not sent by the payment
// service, or is not understood.
const (
	ignored  api.Outcome = "ignored"
	rejected api.Outcome = "rejected"
)

// postWebhook answers POST /v1/sales/{sale}/webhooks/payment. Its sender has no token, but signs messages.
func (server *Server) postWebhook(w http.ResponseWriter, r *http.Request, sale *sale) {
	began := server.config.Clock().Mono
	label := server.webhook(w, r, sale)
	sale.countWebhook(label, server.config.Clock().Mono-began)
	wire.RecordOutcome(w, label)
}

// webhook answers one message and returns its label in metrics.
func (server *Server) webhook(w http.ResponseWriter, r *http.Request, sale *sale) api.Outcome {
	if sale.webhook == nil {
		return sale.rejectWebhook(w, r, payments.ErrNoWebhook)
	}
	event, f, err := server.readEvent(r, sale)
	switch {
	case f != nil:
		wire.WriteBadRequest(w, f)
		return rejected
	case err != nil:
		return sale.rejectWebhook(w, r, err)
	case event.How == "":
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: ignored, Sale: sale.name})
		return ignored
	}
	a := server.settleAnswer(r.Context(), sale, event.Claim, event.How, event.Settlement)
	return sale.answerWebhook(w, r, &event, &a)
}

// readEvent reads a message and checks its signature. Until then anybody may have sent it, and it counts for
// the memory that it takes.
func (server *Server) readEvent(r *http.Request, sale *sale) (payments.Event, *wire.Fault, error) {
	if !server.unsigned.TryTake(bytesOfMessage) {
		return payments.Event{}, nil, errUnsigned
	}
	defer server.unsigned.Add(-bytesOfMessage)
	body, f := readBody(r, nil, payments.MaxEvent, server.unsigned)
	switch {
	case f == crowded:
		return payments.Event{}, nil, errUnsigned
	case f != nil:
		return payments.Event{}, f, nil
	}
	event, err := sale.webhook.Read(server.config.Clock().Wall, r.Header, body)
	return event, nil, err
}

const (
	maxUnsigned    = 8 << 20 // bytes of messages whose signatures are not checked yet
	bytesOfMessage = 8 << 10 // about what a message takes beside its body
)

// errUnsigned means that too many messages are being read.
var errUnsigned = errors.New("too many messages are read")

// answerWebhook answers with what became of the claim. A sender takes 2xx for done, and sends a message with
// any other answer again. So what is final is 200, whether the message has done it or not, and what has no
// answer yet is 503.
func (sale *sale) answerWebhook(w http.ResponseWriter, r *http.Request, event *payments.Event, answer *executor.Answer) api.Outcome {
	switch row := answer.Outcome.Row(); {
	case row.Retry != api.Final:
		p := wire.ProblemOf(answer.Outcome)
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, max(answer.RetryAfter, p.RetryAfter, time.Second)
		p.Detail = "This message was not carried out, or nobody knows yet. Send it again: it is carried out once."
		p.Write(w)
	case answer.Claim.User == "": // there is no such claim, or no such sale
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
	var rejection *payments.Rejection
	switch {
	case errors.As(err, &rejection) && rejection.Clock && sale.clockOff():
		wire.WriteUnavailable(w, unreadyRetry, "This server knows that its clock is wrong, and cannot tell how old the message is. Send it again, here later or to another process of the sale.")
	case errors.As(err, &rejection):
		wire.NewProblem(rejection.Status, rejection.Detail).Write(w)
	case errors.Is(err, errUnsigned):
		wire.WriteUnavailable(w, time.Second, "Too many messages are being read; this one was not looked at. Send it again.")
	case errors.Is(err, payments.ErrNoWebhook):
		wire.NewProblem(http.StatusNotFound, "This sale takes no webhooks: its file has no payment.webhook.").Write(w)
	case errors.Is(err, payments.ErrAway):
		// Without an outcome it has just begun to serve.
		return sale.answerWebhook(w, r, &payments.Event{}, &executor.Answer{Outcome: cmp.Or(sale.Status().Away, api.Standby)})
	default:
		wire.WriteUnavailable(w, unreadyRetry, "This server cannot read messages of the payment service now; its log says why. Send it again later.")
	}
	return rejected
}

// unreadyRetry is when to send a message again to a server that lacks a key.
const unreadyRetry = time.Minute
