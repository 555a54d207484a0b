package httpd

import (
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

// ignored is how an event is answered and counted that says nothing of a claim, and rejected
// how one is counted that is none of the payment service's, or is not understood.
const (
	ignored  api.Outcome = "ignored"
	rejected api.Outcome = "rejected"
)

// postWebhook answers POST /v1/sales/{sale}/webhooks/payment. Its sender has no token: the
// signature says who it is.
func (s *Server) postWebhook(w http.ResponseWriter, r *http.Request, sale *sale) {
	began := s.config.Clock().Mono
	label := s.webhook(w, r, sale)
	sale.countWebhook(label, s.config.Clock().Mono-began)
	wire.Note(w, label)
}

// webhook answers one message and returns its label in metrics.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request, sale *sale) api.Outcome {
	if sale.webhook == nil {
		return s.rejectWebhook(w, r, sale, payments.ErrNoWebhook)
	}
	event, f, err := s.readEvent(r, sale)
	switch {
	case f != nil:
		wire.WriteBadRequest(w, f)
		return rejected
	case err != nil:
		return s.rejectWebhook(w, r, sale, err)
	case event.How == "":
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: ignored, Sale: sale.name})
		return ignored
	}
	a := s.settleAnswer(r.Context(), sale, event.Claim, event.How, event.Settlement)
	return s.answerWebhook(w, r, sale, &event, &a)
}

// readEvent reads a message, and checks its signature. Until then it may be anybody's, and counts
// for the memory that it takes.
func (s *Server) readEvent(r *http.Request, sale *sale) (payments.Event, *wire.Fault, error) {
	if !s.unsigned.TryTake(bytesOfMessage) {
		return payments.Event{}, nil, errUnsigned
	}
	defer s.unsigned.Add(-bytesOfMessage)
	body, f := readBody(r, nil, payments.MaxEvent, s.unsigned)
	switch {
	case f == crowded:
		return payments.Event{}, nil, errUnsigned
	case f != nil:
		return payments.Event{}, f, nil
	}
	event, err := sale.webhook.Read(s.config.Clock().Wall, r.Header, body)
	return event, nil, err
}

// maxUnsigned bounds the memory of messages whose signatures are not checked yet, and
// bytesOfMessage is about what one takes beside its body.
const (
	maxUnsigned    = 8 << 20
	bytesOfMessage = 8 << 10
)

// errUnsigned says that too many messages are read at a time.
var errUnsigned = errors.New("too many messages are read")

// answerWebhook answers with what became of the claim. A sender takes 2xx for done, and
// sends a message with any other answer again. So what is for good is 200, whether the
// message has done it or not; what has no answer yet is 503.
func (s *Server) answerWebhook(w http.ResponseWriter, r *http.Request, sale *sale, event *payments.Event, a *executor.Answer) api.Outcome {
	switch row := a.Outcome.Row(); {
	case row.Retry != api.Final:
		p := wire.ProblemOf(a.Outcome)
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, max(a.RetryAfter, p.RetryAfter, time.Second)
		p.Detail = "This message was not carried out, or nobody knows yet. Send it again: it is carried out once."
		p.Write(w)
	case a.Claim.User == "": // there is no such claim, or no such sale
		wire.Refuse(w, sale.name, s.config.Clock, a)
	default:
		if a.RefundDue {
			s.config.Log.With(wire.LogAttrs(w, r)...).Warn("a payment bought nothing and is owed back", "sale", sale.name, "claim", event.Claim,
				"payment", event.Payment, "outcome", a.Outcome)
		}
		wire.WriteJSON(w, http.StatusOK, api.WebhookAnswer{Outcome: a.Outcome, Sale: sale.name, Claim: event.Claim, RefundDue: a.RefundDue})
		if a.Replayed {
			return api.Replayed
		}
	}
	return a.Outcome
}

// rejectWebhook answers a message that is not taken.
func (s *Server) rejectWebhook(w http.ResponseWriter, r *http.Request, sale *sale, err error) api.Outcome {
	var rejection *payments.Rejection
	switch {
	case errors.As(err, &rejection) && rejection.Clock && sale.clockOff():
		wire.WriteUnavailable(w, unreadyRetry, "This server knows that its clock is wrong, and cannot tell how old the message is. Send it again, here later or to another process of the sale.")
		return rejected
	case errors.As(err, &rejection):
		wire.NewProblem(rejection.Status, rejection.Detail).Write(w)
		return rejected
	case errors.Is(err, errUnsigned):
		wire.WriteUnavailable(w, time.Second, "Too many messages are being read; this one was not looked at. Send it again.")
		return rejected
	case errors.Is(err, payments.ErrNoWebhook):
		wire.NewProblem(http.StatusNotFound, "This sale takes no webhooks: its file has no payment.webhook.").Write(w)
		return rejected
	case errors.Is(err, payments.ErrAway):
		a := executor.Answer{Outcome: sale.Status().Away}
		if a.Outcome == "" { // it has just begun to serve
			a.Outcome = api.Standby
		}
		return s.answerWebhook(w, r, sale, &payments.Event{}, &a)
	}
	wire.WriteUnavailable(w, unreadyRetry, "This server cannot read messages of the payment service now; its log says why. Send it again later.")
	return rejected
}

// unreadyRetry is when to send a message again to a server that lacks a key.
const unreadyRetry = time.Minute
