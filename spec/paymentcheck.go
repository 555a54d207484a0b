package spec

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PaymentCheck says how the payment service is asked what became of a claim's payment.
// Package rules says what its expressions, which are in CEL, may read.
type PaymentCheck struct {
	URL      string        // of a GET, with placeholders for one claim: see Address
	Interval time.Duration // between two requests for one claim; MinCheckInterval to MaxCheckInterval
	Timeout  time.Duration // of one request; MinCheckTimeout to MaxCheckTimeout
	Success  string        // true: the claim is paid
	Failure  string        // true: it will not be; empty: it never is
	Payment  string        // the reference of the payment; empty: the claim's id
	TokenEnv string        // name of the environment variable with the bearer token; empty: there is none
}

// PaymentWebhook says how the payment service tells by itself. Its expressions are in CEL.
type PaymentWebhook struct {
	SecretsEnv string // name of the environment variable with the keys of signatures
	Success    string // true: a claim is paid
	Failure    string // true: it will not be; empty: it never is
	Claim      string // the claim's id
	Payment    string // the reference of the payment; empty: the claim's id
}

// CheckedClaim is what stands for the placeholders of a check's URL.
type CheckedClaim struct {
	Claim, User, Sale string
	Run               int64
}

const checkURLForm = `^https?://`

// placeholder is one of a check's URL, or what looks like one.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// placeholders are those that there are.
var placeholders = []string{"{claim}", "{user}", "{sale}", "{run}"}

// Address is the URL at which the service is asked about a claim: each placeholder is
// replaced, and escaped for its place in the path or the query.
func (p *PaymentCheck) Address(c CheckedClaim) string {
	path, query, hasQuery := strings.Cut(p.URL, "?")
	text := c.fill(path, escapeSegment)
	if hasQuery {
		text += "?" + c.fill(query, url.QueryEscape)
	}
	return text
}

func (c CheckedClaim) fill(template string, escape func(string) string) string {
	return placeholder.ReplaceAllStringFunc(template, func(name string) string {
		switch name {
		case "{claim}":
			return escape(c.Claim)
		case "{user}":
			return escape(c.User)
		case "{sale}":
			return escape(c.Sale)
		}
		return strconv.FormatInt(c.Run, 10)
	})
}

// escapeSegment escapes a text so that it stays one segment of a path. A text of dots
// alone would lead to another path.
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// paymentCheck takes how the payment service is asked.
func (d *decoder) paymentCheck(v value) *PaymentCheck {
	o, ok := d.object(v, reflect.TypeFor[checkPart]())
	if !ok {
		return nil
	}
	c := &PaymentCheck{Interval: DefaultCheckInterval, Timeout: DefaultCheckTimeout, TokenEnv: d.env(o, "tokenEnv")}
	if v, ok := d.value(o, "url"); ok {
		if text, ok := d.text(v, "https://pay.example/v1/payments/{claim}"); ok {
			if f := checkCheckURL(text); f != nil {
				d.hideLogin(v)
				d.fault(v, f)
			}
			c.URL = text
		}
	}
	if o.keys["interval"] != nil {
		c.Interval = d.term(o, "interval", "5s", MinCheckInterval, MaxCheckInterval)
	}
	if o.keys["timeout"] != nil {
		c.Timeout = d.term(o, "timeout", "3s", MinCheckTimeout, MaxCheckTimeout)
	}
	c.Success = d.expression(o, "success", `response.status == 200 && response.body.state == "paid"`)
	c.Failure = d.expression(o, "failure", `response.body.state == "failed"`)
	c.Payment = d.expression(o, "payment", "response.body.id")
	return c
}

// paymentWebhook takes how the payment service tells by itself.
func (d *decoder) paymentWebhook(v value) *PaymentWebhook {
	o, ok := d.object(v, reflect.TypeFor[webhookPart]())
	if !ok {
		return nil
	}
	return &PaymentWebhook{
		SecretsEnv: d.env(o, "secretsEnv"),
		Success:    d.expression(o, "success", `event.type == "payment.paid"`),
		Failure:    d.expression(o, "failure", `event.type == "payment.failed"`),
		Claim:      d.expression(o, "claim", "event.data.claim"),
		Payment:    d.expression(o, "payment", "event.data.id"),
	}
}

// oneReference reports a check and a webhook that would record one payment under two
// references: the second that comes would be owed back.
func (d *decoder) oneReference(o object, p *Payment) {
	if p.Check == nil || p.Webhook == nil || (p.Check.Payment == "") == (p.Webhook.Payment == "") {
		return
	}
	has, lacks := "check", "webhook"
	if p.Check.Payment == "" {
		has, lacks = lacks, has
	}
	d.refuse(o.keys[lacks], "Write payment in both, so that both name the same reference, or in neither.",
		"%s has payment and %s has not: of one payment, the ledger would record two", join(o.path, has), join(o.path, lacks))
}

// checkCheckURL says what is wrong with the URL of a check, nil if nothing is.
func checkCheckURL(text string) *fault {
	const write = "Write a URL with {claim} in its path or query, such as https://pay.example/v1/payments/{claim}."
	base, _, _ := strings.Cut(text, "?")
	filled := placeholder.ReplaceAllString(text, "0")
	parsed, err := url.Parse(filled)
	switch {
	case len(text) > MaxCheckURL:
		return &fault{fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("Write at most %d.", MaxCheckURL)}
	case !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://"):
		return &fault{"is no http or https URL", write}
	case err != nil || parsed.Host == "" || strings.ContainsAny(filled, "{} \t"):
		return &fault{"is no valid URL", write}
	case parsed.User != nil:
		return &fault{"has a user or a password in it", "Put the secret into an environment variable and name that in tokenEnv. Change the password: it has been in a file."}
	case strings.Contains(text, "#"):
		return &fault{"has a fragment, which no server sees", "Remove # and what follows."}
	}
	if host, _, _ := strings.Cut(strings.SplitN(base, "//", 2)[1], "/"); strings.Contains(host, "{") {
		return &fault{"has a placeholder in its host", write}
	}
	found := placeholder.FindAllString(text, -1)
	for _, name := range found {
		if !slices.Contains(placeholders, name) {
			return &fault{fmt.Sprintf("has the placeholder %s, which is none", name), "The placeholders are " + and(placeholders) + "."}
		}
	}
	if !slices.Contains(found, "{claim}") {
		return &fault{"does not say about which claim it asks", write}
	}
	return nil
}

// sane holds a check to what the rest of the program takes for granted; nil is sane.
func (p *PaymentCheck) sane() error {
	switch {
	case p == nil:
	case p.Interval <= 0 || p.Timeout <= 0 || p.Interval%time.Millisecond != 0 || p.Timeout%time.Millisecond != 0:
		return fmt.Errorf("the check's interval of %v and timeout of %v must be whole milliseconds, above zero", p.Interval, p.Timeout)
	case checkCheckURL(p.URL) != nil:
		return fmt.Errorf("the check's url %s", checkCheckURL(p.URL).message)
	case p.Success == "":
		return fmt.Errorf("the check has no success")
	}
	return nil
}

// sane holds a webhook to what the rest of the program takes for granted; nil is sane.
func (p *PaymentWebhook) sane() error {
	if p != nil && (p.SecretsEnv == "" || p.Success == "" || p.Claim == "") {
		return fmt.Errorf("the webhook lacks secretsEnv, success or claim")
	}
	return nil
}

type storedCheck struct {
	URL        string `json:"url"`
	IntervalMs int64  `json:"intervalMs"`
	TimeoutMs  int64  `json:"timeoutMs"`
	Success    string `json:"success"`
	Failure    string `json:"failure,omitempty"`
	Payment    string `json:"payment,omitempty"`
	TokenEnv   string `json:"tokenEnv,omitempty"`
}

type storedWebhook struct {
	SecretsEnv string `json:"secretsEnv"`
	Success    string `json:"success"`
	Failure    string `json:"failure,omitempty"`
	Claim      string `json:"claim"`
	Payment    string `json:"payment,omitempty"`
}

// stored is the payment as declarations are stored.
func (p *Payment) stored() *storedPayment {
	out := &storedPayment{
		HoldForMs: p.HoldFor.Milliseconds(), GraceMs: p.Grace.Milliseconds(), ExtendByMs: p.ExtendBy.Milliseconds(), Late: p.Late,
	}
	if c := p.Check; c != nil {
		out.Check = &storedCheck{c.URL, c.Interval.Milliseconds(), c.Timeout.Milliseconds(), c.Success, c.Failure, c.Payment, c.TokenEnv}
	}
	if w := p.Webhook; w != nil {
		out.Webhook = &storedWebhook{w.SecretsEnv, w.Success, w.Failure, w.Claim, w.Payment}
	}
	return out
}

// read is the reverse of stored.
func (p *storedPayment) read() *Payment {
	in := &Payment{HoldFor: milliseconds(p.HoldForMs), Grace: milliseconds(p.GraceMs), ExtendBy: milliseconds(p.ExtendByMs), Late: p.Late}
	if c := p.Check; c != nil {
		in.Check = &PaymentCheck{c.URL, milliseconds(c.IntervalMs), milliseconds(c.TimeoutMs), c.Success, c.Failure, c.Payment, c.TokenEnv}
	}
	if w := p.Webhook; w != nil {
		in.Webhook = &PaymentWebhook{w.SecretsEnv, w.Success, w.Failure, w.Claim, w.Payment}
	}
	return in
}
