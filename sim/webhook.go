package sim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// payEvent is a webhook of the payment service.
type payEvent struct {
	kind string // paid or failed
	*bill
	payment *payment // of paid
	id      string
	keys    [][]byte // that sign it
	tries   int
}

// send sends a webhook in one of the ways in which services do: in time, late, several times,
// or never. Webhooks are delivered in any order, each to any process, until one answers that it is
// carried out.
func (s *service) send(x payEvent) {
	if !s.hooked {
		return
	}
	s.events++
	x.id, x.keys = fmt.Sprintf("msg_%d", s.events), s.keys()
	in, copies := s.spread(time.Millisecond, 300*time.Millisecond), 1
	switch draw := s.IntN(100); {
	case draw < 14 && s.fault("webhook never sent"):
		return
	case draw < 30 && s.fault("webhook late"):
		in = s.spread(500*time.Millisecond, 30*time.Second)
	case draw < 45:
		copies += 1 + s.IntN(2)
	}
	if x.payment != nil {
		s.w.history.Service.Payments[x.payment.index].Sent = true
	}
	for range copies {
		x := x
		s.w.after(in+s.between(0, 50*time.Millisecond), func() { s.deliver(&x) })
		in += s.spread(time.Millisecond, 5*time.Second)
	}
}

// body is the event's text.
func (x *payEvent) body() string {
	reference := ""
	if x.payment != nil {
		reference = x.payment.reference
	}
	return fmt.Sprintf(`{"type":"payment.%s","data":{"run":%d,"claim":%q,"id":%q}}`, x.kind, x.run, x.bill.claim.ID, reference)
}

// deliver sends an event to a process, and again later unless that has carried it out.
func (s *service) deliver(x *payEvent) {
	w := s.w
	if w.over {
		return
	}
	text, claim := x.body(), x.bill.claim.ID.String()
	header := x.sign(epoch.Add(w.now), text)
	reference := ""
	if x.payment != nil {
		reference = x.payment.reference
	}
	w.history.Called(w.now, x.run, claim, reference)
	over := false
	done := func(outcome api.Outcome, carriedOut bool) {
		if over {
			return
		}
		over = true
		w.hit("webhook answered: " + string(outcome))
		switch {
		case carriedOut && x.payment != nil:
			w.history.CarriedOut(w.now, x.payment.index)
		case outcome == webhookIgnored && x.payment != nil && s.known.last > 1: // as of another run: it is not sent again
			w.history.Service.Payments[x.payment.index].Sent = false
		case !carriedOut && outcome != webhookIgnored:
			x.tries++
			w.after(s.between(200*time.Millisecond, min(time.Second<<min(x.tries, 3), 8*time.Second)), func() { s.deliver(x) })
		}
	}
	s.post(header, text, done)
	w.after(10*time.Second, func() { done("timeout", false) })
}

// The outcomes of webhooks that settle nothing.
const (
	webhookIgnored  api.Outcome = "ignored"
	webhookRejected api.Outcome = "rejected"
)

// post sends a message to any process.
func (s *service) post(header http.Header, text string, done func(outcome api.Outcome, carriedOut bool)) {
	e := s.w.executors[s.IntN(len(s.w.executors))]
	s.w.net.send(message{from: atClients, to: e.host, what: "webhook", twice: true}, func() {
		e.takeWebhook(header, text, func(outcome api.Outcome, carriedOut bool) {
			s.w.net.send(message{from: e.host, to: atClients, what: "webhook answered"}, func() { done(outcome, carriedOut) })
		})
	})
}

// keys draws the keys that sign a message: the new one, or both.
func (s *service) keys() [][]byte { return payKeys[s.IntN(len(payKeys)):] }

// sign returns the headers of a message, by Standard Webhooks.
func (x *payEvent) sign(at time.Time, text string) http.Header {
	stamp := fmt.Sprint(at.Unix())
	var all []string
	for _, key := range x.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(x.id + "." + stamp + "." + text))
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return http.Header{"Webhook-Id": {x.id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {strings.Join(all, " ")}}
}

// forge sends messages that are none of the service's, or that are not to be taken any more.
// None of them may confirm the claim that it names.
func (s *service) forge(b *bill) {
	if !s.hooked || !s.fault("webhook forged") {
		return
	}
	x := payEvent{kind: "paid", bill: b, payment: &payment{reference: "forged"}, id: "msg_forged", keys: s.keys()}
	text, now := x.body(), epoch.Add(s.w.now)
	good := x.sign(now, text)
	header := good.Clone()
	switch s.IntN(5) {
	case 0: // by nobody
		header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(make([]byte, sha256.Size)))
	case 1: // of another message
		header = x.sign(now, strings.Replace(text, "paid", "open", 1))
	case 2: // of another time
		header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()+1))
	case 3: // of long ago
		header = x.sign(now.Add(-6*time.Minute), text)
	case 4: // of a time to come
		header = x.sign(now.Add(6*time.Minute), text)
	}
	s.post(header, text, func(outcome api.Outcome, _ bool) { s.w.hit("webhook answered: " + string(outcome)) })
}

// takeWebhook is what a process does with a webhook, as package httpd does. carriedOut reports that
// it answers with success: the message is not sent again.
func (e *server) takeWebhook(header http.Header, text string, answered func(outcome api.Outcome, carriedOut bool)) {
	if !e.alive {
		answered("nobody", false)
		return
	}
	life, s := e.life, e.s
	e.eventOr("webhook", func(now clock.Now) {
		x, err := e.webhook.Read(now.Wall, header, []byte(text))
		id, ok := api.ParseClaimID(x.Claim)
		switch {
		case err != nil:
			answered(webhookRejected, false)
		case x.How == "":
			answered(webhookIgnored, false)
		case !ok:
			answered(api.NoSuchClaim, false)
		default:
			s.Begin(now, executor.Request{Settle: &executor.Settlement{Claim: id, How: x.How, Settlement: x.Settlement}}, func(a executor.Answer) {
				if e.life == life {
					e.w.note(e.name, "settles", x.Claim+" "+string(a.Outcome), nil)
					answered(a.Outcome, a.Outcome.Row().Retry == api.Final && a.Claim.User != "")
				}
			})
		}
	}, func() { answered("nobody", false) })
}
