package payments

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"salectl/api"
	"salectl/internal/text"
	"salectl/rules"
	"salectl/spec"
)

// conditions are the compiled expressions of a check or a webhook.
type conditions struct {
	rules.Conditions
	sale   spec.Sale
	reason string // of a cancellation
}

// check is a spec.PaymentCheck with compiled expressions and its token.
type check struct {
	conditions
	spec.PaymentCheck
	token string // "": none is sent
}

// webhook is a spec.PaymentWebhook with compiled expressions and its keys.
type webhook struct {
	conditions
	spec.PaymentWebhook
	keys [][]byte
}

// Ready returns an error if this process cannot carry out a sale's check or webhook, for example
// because a secret is missing in its environment.
func Ready(sale spec.Sale, env Lookup) error {
	_, checkErr := newCheck(sale, env)
	_, webhookErr := newWebhook(sale, env)
	return errors.Join(checkErr, webhookErr)
}

// newCheck returns a sale's check, or nil if it has none.
func newCheck(sale spec.Sale, env Lookup) (*check, error) {
	compiled, _, err := rules.ForPayments(sale)
	if compiled == nil || err != nil {
		return nil, err
	}
	p := *sale.Payment.Check
	c := &check{conditions: conditions{*compiled, sale, reason(p.Failure)}, PaymentCheck: p}
	if c.TokenEnv == "" {
		return c, nil
	}
	token, _ := env(c.TokenEnv)
	token = strings.TrimRight(token, "\r\n") // a secret read from a file ends in a newline
	switch {
	case token == "":
		return nil, missing(sale, "payment.check.tokenEnv", c.TokenEnv, "the payment service's bearer token")
	case strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || r == ' ' }):
		return nil, fmt.Errorf("sale %s: the environment variable %s, which payment.check.tokenEnv names, is not a bearer token: it must be one word of visible ASCII",
			sale.Name, c.TokenEnv)
	}
	c.token = token
	return c, nil
}

// newWebhook returns a sale's webhook, or nil if it has none.
func newWebhook(sale spec.Sale, env Lookup) (*webhook, error) {
	_, compiled, err := rules.ForPayments(sale)
	if compiled == nil || err != nil {
		return nil, err
	}
	p := *sale.Payment.Webhook
	w := &webhook{conditions: conditions{*compiled, sale, reason(p.Failure)}, PaymentWebhook: p}
	keys, _ := env(w.SecretsEnv)
	if strings.TrimSpace(keys) == "" {
		return nil, missing(sale, "payment.webhook.secretsEnv", w.SecretsEnv, "the keys of the payment service's signatures, whsec_... each")
	}
	if w.keys, err = parseKeys(keys); err != nil {
		return nil, fmt.Errorf("sale %s: the environment variable %s, which payment.webhook.secretsEnv names: %w", sale.Name, w.SecretsEnv, err)
	}
	return w, nil
}

func missing(sale spec.Sale, path, variable, what string) error {
	return fmt.Errorf("sale %s: the environment variable %s is not set; %s names it for %s. Set it and start serve again",
		sale.Name, variable, path, what)
}

// Format of a key of Standard Webhooks, and the maximum number of keys in use.
const (
	keyPrefix = "whsec_"
	minKey    = 24 // bytes
	maxKey    = 64
	maxKeys   = 10
)

// parseKeys parses keys separated by spaces. Its errors contain no key.
func parseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, word := range strings.Fields(text) {
		encoded, is := strings.CutPrefix(word, keyPrefix)
		key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
		if !is || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("key %d is not %s with %d to %d bytes in base64", i+1, keyPrefix, minKey, maxKey)
		}
		keys = append(keys, key)
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, and at most %d can be in use at a time", len(keys), maxKeys)
	}
	return keys, nil
}

// errBoth reports an answer for which success and failure are both true.
var errBoth = errors.New("success and failure are both true")

// decide returns the settlement that follows from what the payment service has sent: confirm if
// success is true, cancel if failure is, and none for neither. It returns an error if the expressions
// fail or are both true. A cancellation names who.
func (c *conditions) decide(in *rules.PredicateInput, who string) (Event, error) {
	success, err := c.Success.Holds(in)
	if err != nil {
		return Event{}, fmt.Errorf("success: %w", err)
	}
	failure := false
	if c.Failure != nil {
		if failure, err = c.Failure.Holds(in); err != nil && !success {
			return Event{}, fmt.Errorf("failure: %w", err)
		}
	}
	switch {
	case success && failure:
		return Event{}, errBoth
	case !success && !failure:
		return Event{}, nil
	}
	e := Event{How: api.Cancel, Claim: in.Claim, Settlement: api.Settlement{Who: who, Reason: c.reason}}
	if c.Claim != nil {
		if e.Claim, err = c.Claim.Text(in); err != nil {
			return Event{}, fmt.Errorf("claim: %w", err)
		}
	}
	if failure {
		return e, nil
	}
	e.How, e.Settlement = api.Confirm, api.Settlement{Payment: e.Claim}
	if c.Payment != nil {
		if e.Payment, err = c.Payment.Text(in); err != nil {
			return Event{}, fmt.Errorf("payment: %w", err)
		}
	}
	return e, e.Check(e.How)
}

// reason returns the reason of a cancellation by a true failure expression.
func reason(failure string) string { return text.Short("failure is true: "+failure, api.MaxReason) }
