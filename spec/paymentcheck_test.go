package spec

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestPaymentCheckIsRead(t *testing.T) {
	sales, _, err := Load([]string{filepath.Join(goodSpecs, "payment-check.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Payment{
		{HoldFor: Duration(10 * time.Minute), Late: LateRefuse, UnpaidPerUser: 1000,
			Check: &PaymentCheck{
				URL:      "https://pay.example/v1/{sale}/{run}/payments/{claim}?user={user}",
				Interval: Duration(10 * time.Second), Timeout: Duration(2500 * time.Millisecond),
				Success: `response.status == 200 && response.body.state == "paid"`,
				Failure: "response.status == 200 &&\nresponse.body.state == \"failed\"",
				Payment: "response.body.id", TokenEnv: "PAYMENT_TOKEN",
			},
			Webhook: &PaymentWebhook{
				SecretsEnv: "PAYMENT_WEBHOOK_SECRETS", Success: `event.type == "payment.paid"`, Failure: `event.type == "payment.failed"`,
				Claim: "event.data.claim", Payment: "event.data.id",
			}},
		{HoldFor: Duration(10 * time.Minute), Late: LateRefuse, UnpaidPerUser: 1000,
			Check:   &PaymentCheck{URL: "http://[::1]:8000/{claim}", Interval: Duration(5 * time.Second), Timeout: Duration(3 * time.Second), Success: "response.status == 200"},
			Webhook: &PaymentWebhook{SecretsEnv: "SECRETS", Success: "event.paid", Claim: "event.claim"}},
	}
	for i, s := range sales {
		if !reflect.DeepEqual(*s.Payment, want[i]) {
			t.Errorf("%s: got  %+v %+v\nwant %+v %+v", s.Name, s.Payment.Check, s.Payment.Webhook, want[i].Check, want[i].Webhook)
		}
	}
}

// A claim stands in the URL as one segment of its path, or as one value of its query.
func TestCheckAddress(t *testing.T) {
	claim := CheckedClaim{Claim: "0-2-1", User: "a/b&c d?é", Sale: "movie", Run: 3}
	for template, want := range map[string]string{
		"https://pay.example/{claim}":                  "https://pay.example/0-2-1",
		"https://pay.example/{user}/{claim}":           "https://pay.example/a%2Fb&c%20d%3F%C3%A9/0-2-1",
		"https://pay.example/?c={sale}.{run}-{claim}":  "https://pay.example/?c=movie.3-0-2-1",
		"https://pay.example/x?user={user}&id={claim}": "https://pay.example/x?user=a%2Fb%26c+d%3F%C3%A9&id=0-2-1",
	} {
		if f := checkCheckURL(template); f != nil {
			t.Errorf("%s: %v", template, f)
		}
		if got := (&PaymentCheck{URL: template}).Address(claim); got != want {
			t.Errorf("%s: got %s, want %s", template, got, want)
		}
	}
	up := CheckedClaim{Claim: "0-2-1", User: ".."}
	if got := (&PaymentCheck{URL: "https://a/{user}/{claim}"}).Address(up); got != "https://a/%2E%2E/0-2-1" {
		t.Errorf("a user of dots: %s", got)
	}
}

// What is wrong within an expression is shown in the file, however YAML has it written.
func TestPlaceOfAnExpression(t *testing.T) {
	for name, c := range map[string]struct {
		written, path string
		line, column  int
		want          string
	}{
		"plain": {"success: response.stat == 200", "success", 1, 10, `
<stdin>:10:25: spec.payment.check.success: no such field
          success: response.stat == 200
                            ^
`},
		"quoted": {`success: "response.stat == 200"`, "success", 1, 10, `
<stdin>:10:26: spec.payment.check.success: no such field
          success: "response.stat == 200"
                             ^
`},
		"a block": {"success: |\n        true &&\n          response.stat == 200", "success", 2, 12, `
<stdin>:12:20: spec.payment.check.success: no such field
              response.stat == 200
                       ^
`},
		"folded": {"success: >\n        true &&\n        response.stat == 200", "success", 1, 17, `
<stdin>:12:17: spec.payment.check.success: no such field
            response.stat == 200
                    ^
`},
		"escaped": {`success: "\x72esponse.stat == 200"`, "success", 1, 10, `
<stdin>:10:29: spec.payment.check.success: no such field
          success: "\x72esponse.stat == 200"
                                ^
`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: a}\nspec:\n  stock: 1\n  lockCount: 1\n" +
				"  payment:\n    holdFor: 10s\n    check:\n      " + c.written + "\n      url: http://a/{claim}\n  embedded: {}\n"
			sales, _, err := Load([]string{"-"}, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			p := sales[0].Place("spec.payment.check."+c.path).Problem(c.line, c.column, "spec.payment.check.success: no such field", "")
			if got := "\n" + p.Text(); got != c.want {
				t.Errorf("got:%s\nwant:%s", got, c.want)
			}
		})
	}
	if (Sale{}).Place("spec.payment.check.success").Known() {
		t.Error("without a file, the place is known")
	}
}

func TestChecksThatCannotBeStored(t *testing.T) {
	good := PaymentCheck{URL: "https://a/{claim}", Interval: Duration(time.Second), Timeout: Duration(time.Second), Success: "true"}
	for want, change := range map[string]func(*PaymentCheck){
		"interval of 0s":                       func(c *PaymentCheck) { c.Interval = 0 },
		"timeout of 1ns":                       func(c *PaymentCheck) { c.Timeout = 1 },
		`"https://a/" does not name the claim`: func(c *PaymentCheck) { c.URL = "https://a/" },
		"check.success is missing":             func(c *PaymentCheck) { c.Success = "" },
		"check.url is missing":                 func(c *PaymentCheck) { c.URL = "" },
	} {
		check := good
		change(&check)
		p := Payment{HoldFor: Duration(time.Second), Late: LateRefuse, Check: &check}
		if err := saneOf(&p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	p := Payment{HoldFor: Duration(time.Second), Late: LateRefuse, Webhook: &PaymentWebhook{Success: "true", Claim: "event"}}
	if err := saneOf(&p); err == nil || !strings.Contains(err.Error(), "webhook.secretsEnv is missing") {
		t.Errorf("got %v", err)
	}
}

// saneOf checks a payment as a sale does.
func saneOf(p *Payment) error {
	return Sale{Name: "a", Run: 1, Stock: 9, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Payment: p}.sane()
}
