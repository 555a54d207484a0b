package spec

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Payment configures payments: each claim is held, and sold once its payment is confirmed.
type Payment struct {
	// HoldFor is the time from the claim to the buyer's deadline.
	HoldFor Duration `yaml:"holdFor" json:"holdForMs" min:"1s" max:"168h" example:"10m" doc:"Time from the claim to the payment deadline: {bounds}."`
	// Grace is the time from the deadline to the release of the units.
	Grace Duration `yaml:"grace,omitempty" json:"graceMs" min:"0s" max:"1h" default:"0s" example:"30s" doc:"Time after the deadline in which payments still count; then units are released: {bounds}."`
	// ExtendBy is the extension of a hold, once; 0: none.
	ExtendBy Duration `yaml:"extendBy,omitempty" json:"extendByMs,omitempty" min:"1s" max:"24h" example:"5m" doc:"Extension of a hold, possible once: {bounds}. Without it: none."`
	Late     Late     `yaml:"late,omitempty" json:"late" words:"refuse resell" default:"refuse" doc:"Effect of a payment after the release. refuse: it is owed back. resell: it buys free units, if possible the same."`

	// UnpaidPerUser is the number of unpaid claims of a user, cancelled or expired, after which
	// claims are refused; 0, in declarations of older versions: any number.
	UnpaidPerUser int64 `yaml:"unpaidPerUser,omitempty" json:"unpaidPerUser,omitempty" max:"1000000" default:"1000" doc:"Maximum number of cancelled and expired claims per user. Further claims are refused with limit_reached."`

	// Check is nil if the payment service is not queried, Webhook if it sends no webhooks.
	Check   *PaymentCheck   `yaml:"check,omitempty" json:"check,omitempty" doc:"Queries to the payment service about held claims. Default: none."`
	Webhook *PaymentWebhook `yaml:"webhook,omitempty" json:"webhook,omitempty" doc:"Messages from the payment service, by Standard Webhooks. Default: none accepted."`
}

// String formats the options in one line, by the keys of a sale file.
func (p Payment) String() string {
	var words []string
	Each(&p, func(name, text string) {
		if text != "" {
			words = append(words, name+" "+text)
		}
	})
	return strings.Join(words, ", ")
}

// Terms returns p without its payment service.
func (p Payment) Terms() Payment {
	p.Check, p.Webhook = nil, nil
	return p
}

// Late is the effect of a payment that is confirmed after its hold has expired.
type Late string

// Values of Late.
const (
	LateRefuse Late = "refuse" // it buys nothing and is owed back
	LateResell Late = "resell" // it buys the same units if available, or others
)

// MinHold is the least time of a hold, DefaultUnpaid the default of UnpaidPerUser.
const (
	MinHold       = time.Second
	DefaultUnpaid = 1000
)

// PaymentWebhook configures webhooks of the payment service. Its expressions are in CEL.
type PaymentWebhook struct {
	// SecretsEnv is the environment variable with the keys of signatures.
	SecretsEnv string `yaml:"secretsEnv" json:"secretsEnv" form:"env" example:"PAYMENT_WEBHOOK_SECRETS" doc:"Environment variable with the signature keys, whsec_ and base64 each, separated by spaces."`
	// Success is true if a claim is paid, Failure if it will not be. "": unused.
	Success string `yaml:"success" json:"success" form:"cel" example:"event.type == 'payment.paid'" doc:"CEL over event (the JSON of the body), sale.name and sale.run. If true, the claim is confirmed."`
	Failure string `yaml:"failure,omitempty" json:"failure,omitempty" form:"cel" example:"event.type == 'payment.failed'" doc:"CEL like success; if true, the claim is cancelled. Default: unpaid claims expire."`
	// Claim is the claim's id, Payment the reference of the payment. "": the claim's id.
	Claim   string `yaml:"claim" json:"claim" form:"cel" example:"event.data.claim" doc:"CEL for the claim's id."`
	Payment string `yaml:"payment,omitempty" json:"payment,omitempty" form:"cel" example:"event.data.id" doc:"CEL for the payment's reference, the same as that of check. Default: the claim's id."`
}

// oneReference reports a check and a webhook that would record one payment under two
// references: the second report would be owed back.
func (d *decoder) oneReference(p *Payment) {
	o, ok := d.objects["spec.payment"]
	if !ok || p.Check == nil || p.Webhook == nil || (p.Check.Payment == "") == (p.Webhook.Payment == "") {
		return
	}
	has, lacks := "check", "webhook"
	if p.Check.Payment == "" {
		has, lacks = lacks, has
	}
	d.refuse(o.keys[lacks], "Write payment in both, so that both name the same reference, or in neither.",
		"%s has payment, but %s has not: the ledger would record one payment as two", join(o.path, has), join(o.path, lacks))
}

// PaymentCheck configures queries to the payment service about a claim's payment. Package
// rules defines what its CEL expressions may read.
type PaymentCheck struct {
	// URL is that of a GET, with placeholders for the claim: see Address.
	URL string `yaml:"url" json:"url" form:"url" example:"https://pay.example/v1/payments/{claim}" doc:"HTTP or HTTPS URL of a claim's payment, read with GET. Must contain {claim}; may contain {user}, {sale} and {run}, each escaped."`
	// Interval is the time between two queries about one claim.
	Interval Duration `yaml:"interval,omitempty" json:"intervalMs" min:"100ms" max:"10m" default:"5s" example:"5s" doc:"Time between two requests about one claim: {bounds}. Longer after a failed request."`
	// Timeout is that of one query.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeoutMs" min:"100ms" max:"30s" default:"3s" example:"3s" doc:"Maximum time of one request: {bounds}."`
	// Success is true if the claim is paid, Failure if it will not be. Failure "": unused.
	Success string `yaml:"success" json:"success" form:"cel" example:"response.status == 200 && response.body.state == 'paid'" doc:"CEL over response.status, response.body, claim.id, claim.user, claim.quantity, sale.name and sale.run. If true, the claim is confirmed."`
	Failure string `yaml:"failure,omitempty" json:"failure,omitempty" form:"cel" example:"response.body.state == 'failed'" doc:"CEL like success; if true, the claim is cancelled. Default: unpaid claims expire."`
	// Payment is the reference of the payment. "": the claim's id.
	Payment string `yaml:"payment,omitempty" json:"payment,omitempty" form:"cel" example:"response.body.id" doc:"CEL for the payment's reference, text or a whole number; other confirms must give the same. Default: the claim's id."`
	// TokenEnv is the environment variable with the bearer token. "": none.
	TokenEnv string `yaml:"tokenEnv,omitempty" json:"tokenEnv,omitempty" form:"env" example:"PAYMENT_TOKEN" doc:"Environment variable with the bearer token to send."`
}

// MaxCheckURL is the maximum length of a check's URL in bytes.
const MaxCheckURL = 2048

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
	return strings.NewReplacer("{claim}", escape(c.Claim), "{user}", escape(c.User), "{sale}", escape(c.Sale),
		"{run}", strconv.FormatInt(c.Run, 10)).Replace(template)
}

// escapeSegment escapes a text as one segment of a path. Dots alone would refer to another
// path.
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

// url decodes the URL of a check. A text that may contain a password is masked.
func (d *decoder) url(v value, o *option) (any, bool) {
	return checked(d, v, o.example, func(text string) *fault {
		f := checkCheckURL(text)
		if f != nil {
			d.hideLogin(v.node)
		}
		return f
	})
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
			return &fault{fmt.Sprintf("has the unknown placeholder %s", name), "The placeholders are " + and(placeholders) + "."}
		}
	}
	if !slices.Contains(found, "{claim}") {
		return &fault{"does not name the claim to query", write}
	}
	return nil
}
