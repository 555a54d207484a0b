package httpd

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/payments"
	"salectl/spec"
)

// toldSale is a sale whose payment service tells by itself.
type toldSale struct {
	*httpdtest.Fake
	declared spec.Sale
	away     bool
	ended    bool // its run, while it is away
	off      time.Duration
}

func (s *toldSale) ClockOff() time.Duration { return s.off }

func (s *toldSale) Declared() (spec.Sale, bool) {
	if s.away && !s.ended {
		return spec.Sale{}, false
	}
	return s.declared, !s.away
}

func (s *toldSale) NewHolds(*executor.HoldsSeen, time.Time) ([]executor.Hold, bool, bool) {
	return nil, false, false
}

func (s *toldSale) Unpaid(executor.ClaimID) (executor.Hold, bool) { return executor.Hold{}, false }

var webhookKey = []byte("a key of twenty-four bytes")

const webhookPath = "/v1/sales/movie/webhooks/payment"

// told returns a server whose sale answers settlements with f.
func told(t testing.TB, f func(executor.Settlement) executor.Answer, change func(*toldSale, *Config)) *Server {
	sale := &toldSale{
		Fake: &httpdtest.Fake{Name: "movie", SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer { return f(x) }},
		declared: spec.Sale{Name: "movie", Payment: &spec.Payment{Webhook: &spec.PaymentWebhook{
			SecretsEnv: "KEYS", Success: `event.type == "paid"`, Failure: `event.type == "failed"`, Claim: "event.claim", Payment: "event.id",
		}}},
	}
	tokens := tokensOf(t, "nobody-has-this-token") // and webhooks need none
	cfg := Config{Clock: atNoon, Tokens: tokens, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(sale, &cfg)
	}
	env := func(name string) (string, bool) {
		if name != "KEYS" {
			return "", false
		}
		return "whsec_" + base64.StdEncoding.EncodeToString(webhookKey), true
	}
	s := New(cfg)
	s.Add(sale, nil, payments.NewWebhook(sale, env, cfg.Log))
	return s
}

// send sends a message that the payment service has signed.
func send(t *testing.T, s *Server, body string) (status int, header http.Header, said string) {
	t.Helper()
	timestamp := fmt.Sprint(noon.Unix())
	mac := hmac.New(sha256.New, webhookKey)
	fmt.Fprintf(mac, "msg_1.%s.%s", timestamp, body)
	h := http.Header{}
	h.Set("webhook-id", "msg_1")
	h.Set("webhook-timestamp", timestamp)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	r := do(s, http.MethodPost, webhookPath, body, h)
	return r.StatusCode, r.Header, text(t, r)
}

// A process that knows that its clock is wrong has a message sent again whose time seems to be
// wrong.
func TestWebhookByAWrongClock(t *testing.T) {
	for off, want := range map[time.Duration]int{0: 403, time.Hour: 503} {
		s := told(t, func(executor.Settlement) executor.Answer { return executor.Answer{} }, func(sale *toldSale, c *Config) {
			sale.off = off
			c.Clock = func() clock.Now { return clock.Now{Wall: noon.Add(time.Hour)} }
		})
		status, header, said := send(t, s, `{"type":"paid","claim":"1-2-3","id":"p1"}`)
		if status != want || (header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("off by %v: %d %s, Retry-After %q", off, status, said, header.Get("Retry-After"))
		}
	}
}

// What an event says reaches the sale, without the token that buyers need, and the sender
// is told when it need not send the message again.
func TestWebhook(t *testing.T) {
	const paid = `{"type":"paid","claim":"1-2-3","id":"p1"}`
	id := executor.ClaimID{Shard: 1, Slot: 2, Index: 3}
	confirm := executor.Settlement{Claim: id, How: api.Confirm, Settlement: api.Settlement{Payment: "p1"}}
	cancel := executor.Settlement{Claim: id, How: api.Cancel, Settlement: api.Settlement{Who: "payment webhook", Reason: `failure is true: event.type == "failed"`}}
	const again = "Repeat it: it takes effect once."
	const unrecorded = `"detail":"No accepted claim has this id. The payment bought nothing, and no ledger has it: pay it back.","outcome":"no_such_claim"`
	for name, c := range map[string]struct {
		body   string
		want   executor.Settlement // none: the sale is not asked
		answer executor.Answer
		status int
		said   string
		label  api.Outcome
	}{
		"paid": {paid, confirm, executor.Answer{Outcome: api.Sold, Claim: heldClaim(api.Sold)}, 200,
			`{"outcome":"sold","sale":"movie","claim":"1-2-3"}`, api.Sold},
		"paid already": {paid, confirm, executor.Answer{Outcome: api.Sold, Claim: heldClaim(api.Sold), Replayed: true}, 200,
			`{"outcome":"sold","sale":"movie","claim":"1-2-3"}`, api.Replayed},
		"failed": {`{"type":"failed","claim":"1-2-3"}`, cancel, executor.Answer{Outcome: api.Cancelled, Claim: heldClaim(api.Cancelled)}, 200,
			`{"outcome":"cancelled","sale":"movie","claim":"1-2-3"}`, api.Cancelled},
		"failed after it was paid": {`{"type":"failed","claim":"1-2-3"}`, cancel, executor.Answer{Outcome: api.NotHeld, Claim: heldClaim(api.Sold)}, 200,
			`{"outcome":"not_held","sale":"movie","claim":"1-2-3"}`, api.NotHeld},
		"too late": {paid, confirm, executor.Answer{Outcome: api.Expired, Claim: heldClaim(api.Expired), RefundDue: true}, 200,
			`{"outcome":"expired","sale":"movie","claim":"1-2-3","refundDue":true}`, api.Expired},
		"something else": {`{"type":"customer.created"}`, executor.Settlement{}, executor.Answer{}, 200, `{"outcome":"ignored","sale":"movie"}`, ignored},
		"no such claim":  {paid, confirm, executor.Answer{Outcome: api.NoSuchClaim}, 404, unrecorded, api.NoSuchClaim},
		"no claim at all": {`{"type":"paid","claim":"seven","id":"p1"}`, executor.Settlement{}, executor.Answer{}, 404,
			unrecorded, api.NoSuchClaim},
		"no claim fails": {`{"type":"failed","claim":"seven"}`, executor.Settlement{}, executor.Answer{}, 404,
			`"detail":"No accepted claim has this id."`, api.NoSuchClaim},
		"overloaded": {paid, confirm, executor.Answer{Outcome: api.Overloaded}, 503, again, api.Overloaded},
		"unknown":    {paid, confirm, executor.Answer{Outcome: api.Unknown}, 503, again, api.Unknown},
		"standby":    {paid, confirm, executor.Answer{Outcome: api.Standby}, 503, again, api.Standby},
		"no quorum":  {paid, confirm, executor.Answer{Outcome: api.NoQuorum, RetryAfter: 7 * time.Second}, 503, again, api.NoQuorum},
		"the end":    {paid, confirm, executor.Answer{Outcome: api.Closed, Message: "the sale has ended"}, 403, `"detail":"the sale has ended. The payment bought nothing, and no ledger has it: pay it back."`, api.Closed},
		"odd":        {`{"type":"paid","id":"p1"}`, executor.Settlement{}, executor.Answer{}, 422, "the event does not fit payment.webhook: claim: no such key: claim", rejected},
		"too large": {strings.Repeat(" ", payments.MaxEvent+1), executor.Settlement{}, executor.Answer{}, 413,
			"the body is too large; it may have at most 64 KiB", rejected},
	} {
		t.Run(name, func(t *testing.T) {
			var asked executor.Settlement
			s := told(t, func(x executor.Settlement) executor.Answer { asked = x; return c.answer }, nil)
			status, header, said := send(t, s, c.body)
			if asked != c.want || status != c.status || !strings.Contains(said, c.said) {
				t.Errorf("the sale was asked %+v, answered %d %s\nwant %+v, %d, %s", asked, status, said, c.want, c.status, c.said)
			}
			if after := header.Get("Retry-After"); (status == 503) != (after != "") && status != 403 || c.answer.RetryAfter != 0 && after != "7" {
				t.Errorf("Retry-After: %q", after)
			}
			if n := testutil.ToFloat64(s.metrics.webhooks.WithLabelValues("movie", string(c.label))); n != 1 {
				t.Errorf("%s: counted %v", c.label, n)
			}
		})
	}
}

// Nobody without a signature reaches the sale, and a message that cannot be read now is to
// be sent again.
func TestWebhookIsGuarded(t *testing.T) {
	never := func(x executor.Settlement) executor.Answer {
		t.Errorf("the sale is asked %+v", x)
		return executor.Answer{Outcome: api.Unknown}
	}
	const body = `{"type":"paid","claim":"1-2-3","id":"p1"}`
	s := told(t, never, nil)
	for name, c := range map[string]struct {
		method string
		header http.Header
		status int
		said   string
	}{
		"no signature": {"POST", http.Header{"Authorization": {"Bearer s3cret"}}, 400, `"detail":"webhook-id: must be given once; `},
		"a look":       {"GET", nil, 405, "This path takes POST."},
		"a wrong one": {"POST", http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {fmt.Sprint(noon.Unix())}, "Webhook-Signature": {"v1,AAAA"}}, 403,
			`"detail":"webhook-signature: no signature is by a key`},
	} {
		r := do(s, c.method, webhookPath, body, c.header)
		if said := text(t, r); r.StatusCode != c.status || !strings.Contains(said, c.said) || r.Header.Get("Content-Type") != api.TypeProblem {
			t.Errorf("%s: %d %s", name, r.StatusCode, said)
		}
	}
	for path, want := range map[string]int{
		"/v1/sales/opera/webhooks/payment": 404, "/v1/sales/movie/webhooks": 401, "/v1/sales/movie/webhooks/other": 401, webhookPath + "/1": 401,
	} {
		if r := do(s, "POST", path, body, nil); r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	for name, c := range map[string]struct {
		change func(*toldSale, *Config)
		status int
		said   string
	}{
		"no webhook": {func(s *toldSale, _ *Config) { s.declared.Payment.Webhook = nil }, 404, "This sale takes no webhooks: its file has no payment.webhook."},
		"no key":     {func(s *toldSale, _ *Config) { s.declared.Payment.Webhook.SecretsEnv = "OTHER" }, 503, "its log has the reason"},
		"standby": {func(s *toldSale, _ *Config) {
			s.away, s.StatusFunc = true, func() executor.Status { return executor.Status{SaleSummary: api.SaleSummary{Outcome: api.Standby}} }
		}, 503, `"outcome":"standby"`},
		"no sale": {func(s *toldSale, _ *Config) {
			s.away, s.StatusFunc = true, func() executor.Status { return executor.Status{SaleSummary: api.SaleSummary{Outcome: api.NoSuchSale}} }
		}, 404, `"outcome":"no_such_sale"`},
	} {
		status, header, said := send(t, told(t, never, c.change), body)
		if status != c.status || !strings.Contains(said, c.said) || (status == 503) != (header.Get("Retry-After") != "") {
			t.Errorf("%s: %d %s %v", name, status, said, header)
		}
	}
	s.draining.Store(true)
	if status, _, said := send(t, s, body); status != 503 || !strings.Contains(said, `"outcome":"draining"`) {
		t.Errorf("while it goes down: %d %s", status, said)
	}
	without := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	if r := do(without, "POST", webhookPath, body, nil); r.StatusCode != 404 {
		t.Errorf("without webhooks: %d", r.StatusCode)
	}
}

// A payment that comes when its sale has ended is in no ledger: the server's log has it, whichever way
// it comes. The answer is no success, so that who sends it has it, too.
func TestPaymentAfterTheEnd(t *testing.T) {
	logged := new(bytes.Buffer)
	s := told(t, func(executor.Settlement) executor.Answer { return executor.Answer{Outcome: api.NoSuchSale} }, func(sale *toldSale, c *Config) {
		sale.away, sale.ended, c.Tokens = true, true, nil
		c.Log = slog.New(slog.NewTextHandler(logged, nil))
	})
	const claim = "3-1234-56"
	const detail = "The payment bought nothing, and no ledger has it: pay it back."
	says := func(how string, status int, said, payment string) {
		t.Helper()
		if !strings.Contains(said, detail) {
			t.Errorf("%s: %s", how, said)
		}
		want := `msg="a payment bought nothing, and the ledger does not have it: pay it back" sale=movie claim=` + claim + " payment=" + payment + " outcome=no_such_sale"
		if status != http.StatusNotFound || strings.Count(logged.String(), want) != 1 {
			t.Errorf("%s: status %d, and the log says\n%s", how, status, logged)
		}
		logged.Reset()
	}
	status, _, said := send(t, s, `{"type":"paid","claim":"`+claim+`","id":"p-1"}`)
	says("a webhook", status, said, "p-1")
	r := do(s, http.MethodPost, "/v1/sales/movie/claims/"+claim+"/confirm", `{"payment":"p-2"}`, nil)
	says("a request", r.StatusCode, text(t, r), "p-2")
	if send(t, s, `{"type":"paid","claim":"seven","id":"p-4"}`); !strings.Contains(logged.String(), " claim=seven payment=p-4 ") {
		t.Errorf("the log says\n%s", logged)
	}
	logged.Reset()
	l := listen(t, serve(t, s).url, nil)
	id := &streampb.ClaimID{Shard: 3, Slot: 1234, Index: 56}
	l.send(&streampb.Request{Id: 1, Kind: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: id, How: "confirm", Payment: "p-3"}}})
	answer := l.hears().GetAnswer()
	if answer.GetOutcome() != "no_such_sale" {
		t.Errorf("on a stream: %s", answer)
	}
	says("a message", http.StatusNotFound, answer.GetMessage(), "p-3")
	do(s, http.MethodPost, "/v1/sales/movie/claims/"+claim+"/extend", `{}`, nil)
	if logged.Len() > 0 {
		t.Errorf("of an extend the log says\n%s", logged)
	}
}

// A payment that a ledger has, as one that is owed back, is none that no ledger has.
func TestPaymentThatIsOwedBack(t *testing.T) {
	logged := new(bytes.Buffer)
	s := told(t, func(executor.Settlement) executor.Answer {
		return executor.Answer{Outcome: api.Expired, Claim: heldClaim(api.Expired), RefundDue: true}
	}, func(_ *toldSale, c *Config) { c.Tokens, c.Log = nil, slog.New(slog.NewTextHandler(logged, nil)) })
	r := do(s, http.MethodPost, "/v1/sales/movie/claims/1-2-3/confirm", `{"payment":"p-2"}`, nil)
	if said := text(t, r); r.StatusCode != http.StatusConflict || strings.Contains(said+logged.String(), "ledger") || !strings.Contains(said, `"refundDue":true`) {
		t.Errorf("%d %s, and the log says %s", r.StatusCode, said, logged)
	}
}

// Messages that are not signed yet take bounded memory. What has no room is sent again, and finds
// room when the others have ended.
func TestUnsignedMessages(t *testing.T) {
	s := told(t, func(executor.Settlement) executor.Answer {
		return executor.Answer{Outcome: api.Sold, Claim: heldClaim(api.Sold)}
	}, nil)
	s.unsigned = access.NewMemory(3*bytesOfMessage + 4096)
	const paid = `{"type":"paid","claim":"1-2-3","id":"p1"}`
	wants := func(want int) {
		t.Helper()
		if status, header, said := send(t, s, paid); status != want || (header.Get("Retry-After") == "1") != (want == 503) {
			t.Errorf("%d %s, want %d", status, said, want)
		}
	}
	wants(200)
	var sending []*io.PipeWriter
	ended := make(chan int, 3)
	for range 3 {
		body, sent := io.Pipe()
		sending = append(sending, sent)
		go func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, webhookPath, body))
			body.Close() // nobody writes what is not read
			ended <- w.Code
		}()
		if _, err := sent.Write([]byte("{")); err != nil { // it is read
			t.Fatal(err)
		}
	}
	wants(503)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		sending[0].Write(make([]byte, 4096)) // no more than has room is read
		sending[0].Close()
	}()
	if status := <-ended; status != 503 {
		t.Errorf("a message that grows too large beside the others: %d", status)
	}
	<-wrote
	wants(200)
	for _, sent := range sending[1:] {
		sent.Close()
		if status := <-ended; status != 400 {
			t.Errorf("a message without a header: %d", status)
		}
	}
	if held := s.unsigned.InUse(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}
