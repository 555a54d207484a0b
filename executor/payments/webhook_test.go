package payments

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/spec"
)

// declaredSale is a sale of which only its declaration is read.
type declaredSale struct {
	spec.Sale
	away bool
}

// onlyDeclared is a declaredSale as a Sale.
type onlyDeclared struct{ *declaredSale }

func (s onlyDeclared) Sale() string { return s.declaredSale.Sale.Name }
func (s onlyDeclared) Declared() (spec.Sale, bool) {
	if s.away {
		return spec.Sale{}, false
	}
	return s.declaredSale.Sale, true
}
func (s onlyDeclared) NewHolds(*executor.HoldsSeen, time.Time) ([]executor.Hold, bool, bool) {
	return nil, false, false
}
func (s onlyDeclared) Unpaid(executor.ClaimID) (executor.Hold, bool) { return executor.Hold{}, false }
func (s onlyDeclared) Do(context.Context, executor.Request) executor.Answer {
	return executor.Answer{Outcome: api.NoSuchClaim}
}

// Two keys, and an environment that has them.
var (
	oldKey = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	newKey = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32)))
)

func environment(values map[string]string) Lookup {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func webhookOf(keys string) *Webhook {
	sale := spec.Sale{Name: "movie", Run: 2, Payment: &spec.Payment{Webhook: &spec.PaymentWebhook{
		SecretsEnv: "KEYS", Success: `event.type == "payment.paid" && event.data.sale == sale.name`,
		Failure: `event.type == "payment.failed"`, Claim: "event.data.claim", Payment: "event.data.id",
	}}}
	return NewWebhook(onlyDeclared{&declaredSale{Sale: sale}}, environment(map[string]string{"KEYS": keys}), slog.New(slog.DiscardHandler))
}

// sign returns the signature of a message by a key.
func sign(key, id, timestamp, body string) string {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// now is that of the server, in seconds since 1970 as well.
var (
	now       = time.Unix(1_700_000_000, 0)
	timestamp = "1700000000"
)

func message(timestamp, signature string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{headerID: "msg_1", headerTimestamp: timestamp, headerSignature: signature} {
		if value != "" {
			h.Set(name, value)
		}
	}
	return h
}

// The example of Standard Webhooks itself.
func TestSignatureOfTheStandard(t *testing.T) {
	const body = `{"test": 2432232314}`
	h := http.Header{}
	h.Set(headerID, "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set(headerTimestamp, "1614265330")
	h.Set(headerSignature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	w, err := webhookOf("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").current()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.verify(time.Unix(1614265330, 0), h, []byte(body)); err != nil {
		t.Error(err)
	}
	if err := w.verify(time.Unix(1614265330, 0), h, []byte(body+" ")); err == nil {
		t.Error("another body has the same signature")
	}
}

func TestMessagesThatAreRejected(t *testing.T) {
	const body = `{"type":"payment.paid","data":{"id":"p1","claim":"0-2-0","sale":"movie"}}`
	good := sign(newKey, "msg_1", timestamp, body)
	for name, c := range map[string]struct {
		keys   string
		header http.Header
		status int
		want   string
	}{
		"no id": {newKey, http.Header{"Webhook-Timestamp": {timestamp}, "Webhook-Signature": {good}}, 400,
			"webhook-id: must be given once; a message has the headers webhook-id, webhook-timestamp and webhook-signature"},
		"no timestamp": {newKey, message("", good), 400,
			"webhook-timestamp: must be given once; a message has the headers webhook-id, webhook-timestamp and webhook-signature"},
		"no signature": {newKey, message(timestamp, ""), 400,
			"webhook-signature: must be given once; a message has the headers webhook-id, webhook-timestamp and webhook-signature"},
		"two signatures": {newKey, http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {good, good}}, 400,
			"webhook-signature: must be given once; a message has"},
		"no time": {newKey, message("2026-11-11", good), 400, "webhook-timestamp: must be a time in whole seconds since 1970"},
		"an old time": {newKey, message("1699999699", sign(newKey, "msg_1", "1699999699", body)), 403,
			"webhook-timestamp: 2023-11-14T22:08:19Z is 5m1s before this server's clock, and at most 5m0s are allowed; " +
				"send the message again under a new time, and compare the clocks"},
		"a time to come": {newKey, message("1700000301", sign(newKey, "msg_1", "1700000301", body)), 403,
			"webhook-timestamp: 2023-11-14T22:18:21Z is 5m1s after this server's clock, and at most 5m0s are allowed; " +
				"send the message again under a new time, and compare the clocks"},
		"a wrong key": {oldKey, message(timestamp, good), 403, "webhook-signature: no signature is by a key that this server has; " +
			"if the key has changed, add the new one to this server's before the sender uses it"},
		"another id":      {newKey, message(timestamp, sign(newKey, "msg_2", timestamp, body)), 403, "webhook-signature: no signature is by"},
		"another time":    {newKey, message("1700000001", good), 403, "webhook-signature: no signature is by"},
		"another version": {newKey, message(timestamp, strings.Replace(good, "v1,", "v1a,", 1)), 403, "webhook-signature: no signature is by"},
		"no base64":       {newKey, message(timestamp, "v1,@"), 403, "webhook-signature: no signature is by"},
		"nothing":         {newKey, message(timestamp, "v1, v1"), 403, "webhook-signature: no signature is by"},
	} {
		_, err := webhookOf(c.keys).Read(now, c.header, []byte(body))
		var r *Rejection
		if !errors.As(err, &r) || r.Status != c.status || !strings.HasPrefix(r.Detail, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %d %s", name, r, err, c.status, c.want)
		}
	}
}

// While a key changes, messages by the old and the new one are good, and those that are
// signed with both.
func TestKeysRotate(t *testing.T) {
	const body = `{"type":"payment.paid","data":{"id":"p1","claim":"0-2-0","sale":"movie"}}`
	older, newer := sign(oldKey, "msg_1", timestamp, body), sign(newKey, "msg_1", timestamp, body)
	for _, c := range []struct {
		keys, signature string
		good            bool
	}{
		{oldKey, older, true}, {oldKey, newer, false}, {oldKey, older + " " + newer, true},
		{oldKey + " " + newKey, older, true}, {oldKey + "  " + newKey + "\n", newer, true},
		{newKey, older + " " + newer, true}, {newKey, older, false},
	} {
		e, err := webhookOf(c.keys).Read(now, message(timestamp, c.signature), []byte(body))
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
		want := Event{api.Confirm, "0-2-0", api.Settlement{Payment: "p1"}}
		if c.good && e != want {
			t.Errorf("got %+v", e)
		}
	}
	for _, off := range []time.Duration{-Tolerance, Tolerance} {
		if _, err := webhookOf(oldKey).Read(now.Add(off), message(timestamp, older), []byte(body)); err != nil {
			t.Errorf("%v off: %v", off, err)
		}
	}
}

func TestEvents(t *testing.T) {
	w := webhookOf(newKey)
	for body, want := range map[string]string{
		`{"type":"payment.paid","data":{"id":17,"claim":"0-2-0","sale":"movie"}}`:                    "confirm 0-2-0 17",
		`{"type":"payment.paid","data":{"id":18446744073709551615,"claim":"0-2-0","sale":"movie"}}`:  "confirm 0-2-0 18446744073709551615",
		`{"type":"payment.paid","data":{"id":340282366920938463463,"claim":"0-2-0","sale":"movie"}}`: "confirm 0-2-0 340282366920938463463",
		`{"type":"payment.failed","data":{"claim":"0-2-0"}}`:                                         `cancel 0-2-0 payment webhook, failure is true: event.type == "payment.failed"`,
		`{"type":"payment.paid","data":{"id":17,"claim":"0-2-0","sale":"opera"}}`:                    " ",
		`{"type":"customer.created"}`:         " ",
		`{"type":"payment.paid"}`:             "422: the event does not fit payment.webhook: success: no such key: data",
		`{"kind":"payment.paid"}`:             "422: the event does not fit payment.webhook: success: no such key: type",
		`{"type":"payment.failed","data":{}}`: "422: the event does not fit payment.webhook: claim: no such key: claim",
		`{"type":"payment.paid","data":{"id":"","claim":"0-2-0","sale":"movie"}}`:                                 "422: the event does not fit payment.webhook: payment: missing; a confirm names the payment",
		`{"type":"payment.paid","data":{"id":1.5,"claim":"0-2-0","sale":"movie"}}`:                                "422: the event does not fit payment.webhook: payment: it is of type double, and neither text nor a whole number",
		`{"type":"payment.paid","data":{"id":"` + strings.Repeat("p", 256) + `","claim":"0-2-0","sale":"movie"}}`: "422: the event does not fit payment.webhook: payment: 256 bytes are too many, at most 255",
		`{"type":"payment.paid","data":{"id":17,"claim":"0-2-0","sale":"movie"},"rate":1e999,"name":"\ud800"}`:    "confirm 0-2-0 17",
		`{"type":"payment.paid","data":{"id":1e999,"claim":"0-2-0","sale":"movie"}}`:                              "confirm 0-2-0 1e999",
		"{\"type\":\"payment.paid\",\"data\":{\"id\":\"\xff\",\"claim\":\"0-2-0\",\"sale\":\"movie\"}}":           "422: the event does not fit payment.webhook: payment: must be UTF-8",
		`{"type":"payment.failed","type":"payment.paid","data":{"id":17,"claim":"0-2-0","sale":"movie"}}`:         `400: the body cannot be read: it has "type" twice in one object`,
		`{"type":"payment.paid","data":{"id":17,"claim":"0-2-0","claim":"0-2-1","sale":"movie"}}`:                 `400: the body cannot be read: it has "claim" twice in one object`,
		`paid`: "400: the body cannot be read: it is no JSON: invalid character 'p' looking for beginning of value",
	} {
		e, err := w.Read(now, message(timestamp, sign(newKey, "msg_1", timestamp, body)), []byte(body))
		got := strings.TrimSuffix(fmt.Sprintf("%s %s %s", e.How, e.Claim, e.Payment), " ")
		if e.Who != "" {
			got += e.Who + ", " + e.Reason
		}
		if e.How == api.Cancel {
			got = fmt.Sprintf("%s %s %s, %s", e.How, e.Claim, e.Who, e.Reason)
		}
		var r *Rejection
		if errors.As(err, &r) {
			got = fmt.Sprintf("%d: %s", r.Status, r.Detail)
		}
		if got != want {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", body, got, err, want)
		}
	}
}

// What keeps a process from reading any message is distinguished.
func TestWebhooksThatCannotBeRead(t *testing.T) {
	away := webhookOf(newKey)
	away.sale.(onlyDeclared).away = true
	none := webhookOf(newKey)
	none.sale.(onlyDeclared).declaredSale.Sale.Payment = &spec.Payment{Check: &spec.PaymentCheck{}}
	for name, c := range map[string]struct {
		webhook *Webhook
		want    error
	}{"away": {away, ErrAway}, "none": {none, ErrNoWebhook}, "no key": {webhookOf(""), ErrUnready}} {
		if _, err := c.webhook.Read(now, http.Header{}, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// What a process lacks is reported with the name of the variable, and never with a secret.
func TestReady(t *testing.T) {
	sale := spec.Sale{Name: "movie", Payment: &spec.Payment{
		Check:   &spec.PaymentCheck{URL: "https://a/{claim}", Success: "true", TokenEnv: "TOKEN"},
		Webhook: &spec.PaymentWebhook{SecretsEnv: "KEYS", Success: "true", Claim: "event.claim"},
	}}
	const check, webhook = "the environment variable TOKEN", "the environment variable KEYS, which payment.webhook.secretsEnv names: "
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"all":           {map[string]string{"TOKEN": "t", "KEYS": newKey + " " + oldKey}, ""},
		"unpadded":      {map[string]string{"TOKEN": "t", "KEYS": strings.TrimRight(newKey, "=")}, ""},
		"ends of lines": {map[string]string{"TOKEN": "t\r\n", "KEYS": newKey + "\n"}, ""},
		"nothing": {nil, "sale movie: the environment variable TOKEN is not set; payment.check.tokenEnv names it for the payment service's bearer token. Set it and start serve again\n" +
			"sale movie: the environment variable KEYS is not set; payment.webhook.secretsEnv names it for the keys of the payment service's signatures, whsec_... each. Set it and start serve again"},
		"a token of two words":  {map[string]string{"TOKEN": "hunter2 x", "KEYS": newKey}, "sale movie: " + check + ", which payment.check.tokenEnv names, is not a bearer token: it must be one word of visible ASCII"},
		"a token of two lines":  {map[string]string{"TOKEN": "hunter2\nx", "KEYS": newKey}, "sale movie: " + check + ", which payment.check.tokenEnv names, is not a bearer token: it must be one word of visible ASCII"},
		"a key without whsec_":  {map[string]string{"TOKEN": "t", "KEYS": newKey + " hunter2"}, "sale movie: " + webhook + "key 2 is not whsec_ with 24 to 64 bytes in base64"},
		"a key that is no text": {map[string]string{"TOKEN": "t", "KEYS": "whsec_hunter2!"}, "sale movie: " + webhook + "key 1 is not whsec_ with 24 to 64 bytes in base64"},
		"a short key":           {map[string]string{"TOKEN": "t", "KEYS": "whsec_aHVudGVyMg=="}, "sale movie: " + webhook + "key 1 is not whsec_ with 24 to 64 bytes in base64"},
		"many keys":             {map[string]string{"TOKEN": "t", "KEYS": strings.Repeat(newKey+" ", 11)}, "sale movie: " + webhook + "it has 11 keys, and at most 10 can be in use at a time"},
	} {
		err := Ready(sale, environment(c.env))
		if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && got != c.want || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got  %v\nwant %s", name, err, c.want)
		}
	}
	if err := Ready(spec.Sale{}, environment(nil)); err != nil {
		t.Error(err)
	}
}
