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

	"github.com/invopop/jsonschema"
)

// PaymentCheck configures queries to the payment service about a claim's payment. Package
// rules defines what its CEL expressions may read.
type PaymentCheck struct {
	// URL is that of a GET, with placeholders for the claim: see Address.
	URL string `yaml:"url" json:"url" jsonschema:"example=https://pay.example/v1/payments/{claim}" jsonschema_description:"HTTP or HTTPS URL of a claim's payment, read with GET. Must contain {claim}; may contain {user}, {sale} and {run}, each escaped."`
	// Interval is the time between two queries about one claim; MinCheckInterval to
	// MaxCheckInterval.
	Interval Duration `yaml:"interval,omitempty" json:"intervalMs" jsonschema:"example=5s" jsonschema_description:"Time between two requests about one claim, 100ms to 10m; longer after a failed request."`
	// Timeout is that of one query; MinCheckTimeout to MaxCheckTimeout.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeoutMs" jsonschema:"example=3s" jsonschema_description:"Maximum time of one request, 100ms to 30s."`
	// Success is true if the claim is paid, Failure if it will not be. Failure "": unused.
	Success string `yaml:"success" json:"success" jsonschema:"example=response.status == 200 && response.body.state == 'paid'" jsonschema_description:"CEL over response.status, response.body, claim.id, claim.user, claim.quantity, sale.name and sale.run. If true, the claim is confirmed."`
	Failure string `yaml:"failure,omitempty" json:"failure,omitempty" jsonschema:"example=response.body.state == 'failed'" jsonschema_description:"CEL like success; if true, the claim is cancelled. Default: unpaid claims expire."`
	// Payment is the reference of the payment. "": the claim's id.
	Payment string `yaml:"payment,omitempty" json:"payment,omitempty" jsonschema:"example=response.body.id" jsonschema_description:"CEL for the payment's reference, text or a whole number; other confirms must give the same. Default: the claim's id."`
	// TokenEnv is the environment variable with the bearer token. "": none.
	TokenEnv string `yaml:"tokenEnv,omitempty" json:"tokenEnv,omitempty" jsonschema:"example=PAYMENT_TOKEN" jsonschema_description:"Environment variable with the bearer token to send."`
}

// Limits of a payment's check.
const (
	MinCheckInterval = 100 * time.Millisecond
	MaxCheckInterval = 10 * time.Minute
	MinCheckTimeout  = 100 * time.Millisecond
	MaxCheckTimeout  = 30 * time.Second
	MaxCheckURL      = 2048 // bytes
)

// Defaults of a document.
const (
	DefaultCheckInterval = 5 * time.Second
	DefaultCheckTimeout  = 3 * time.Second
)

// CheckedClaim are the values of the placeholders in a check's URL.
type CheckedClaim struct {
	Claim, User, Sale string
	Run               int64
}

const checkURLForm = `^https?://`

// placeholder matches a placeholder in a check's URL, known or not.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// placeholders are the known placeholders.
var placeholders = []string{"{claim}", "{user}", "{sale}", "{run}"}

// Address returns the URL of the query about a claim. Each placeholder is replaced, and
// escaped for the path or the query.
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

// escapeSegment escapes a text as one segment of a path. Dots alone would refer to another
// path.
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

func (PaymentCheck) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "url").Pattern = checkURLForm
	property(s, "interval").Default, property(s, "timeout").Default = FormatTerm(DefaultCheckInterval), FormatTerm(DefaultCheckTimeout)
	property(s, "tokenEnv").Pattern = envForm
}

// paymentCheck decodes the queries to the payment service.
func (d *decoder) paymentCheck(payment object) *PaymentCheck {
	o, ok := d.part(payment, "check", reflect.TypeFor[PaymentCheck]())
	if !ok {
		return nil
	}
	c := &PaymentCheck{Interval: Duration(DefaultCheckInterval), Timeout: Duration(DefaultCheckTimeout), TokenEnv: d.env(o, "tokenEnv")}
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

// checkCheckURL returns the fault of a check's URL, nil if it is valid.
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

// part returns the check as in a document, without defaults.
func (p *PaymentCheck) part() *PaymentCheck {
	if p == nil {
		return nil
	}
	part := *p
	part.Interval, part.Timeout = unless(Duration(DefaultCheckInterval), p.Interval), unless(Duration(DefaultCheckTimeout), p.Timeout)
	return &part
}

// sane checks what the rest of the program assumes about a check; nil is sane.
func (p *PaymentCheck) sane() error {
	switch {
	case p == nil:
	case p.Interval <= 0 || p.Timeout <= 0 || !p.Interval.isWhole() || !p.Timeout.isWhole():
		return fmt.Errorf("the check's interval of %v and timeout of %v must be whole milliseconds, above zero", p.Interval, p.Timeout)
	case checkCheckURL(p.URL) != nil:
		return fmt.Errorf("the check's url %s", checkCheckURL(p.URL).message)
	case p.Success == "":
		return fmt.Errorf("the check has no success")
	}
	return nil
}
