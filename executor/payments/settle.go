package payments

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"salectl/api"
	"salectl/rules"
)

// verdict is what a payment service has said of a claim, as it is settled; How "": nothing
// that settles it.
type verdict struct {
	how api.How
	api.Settlement
}

// errBoth is an answer for which success and failure are true.
var errBoth = errors.New("success and failure are both true")

// judge reports whether a claim is to be confirmed, by what was told, or cancelled, or neither:
// then it is "". What can be read in no way, or in two, is an error.
func (c *conditions) judge(told *rules.Told) (api.How, error) {
	success, err := c.success.Holds(told)
	if err != nil {
		return "", fmt.Errorf("success: %w", err)
	}
	failure := false
	if c.failure != nil {
		if failure, err = c.failure.Holds(told); err != nil && !success {
			return "", fmt.Errorf("failure: %w", err)
		}
	}
	switch {
	case success && failure:
		return "", errBoth
	case success:
		return api.Confirm, nil
	case failure:
		return api.Cancel, nil
	}
	return "", nil
}

// verdict is how a claim is settled that judge has judged.
func (c *conditions) verdict(told *rules.Told, how api.How, claim, who string) (verdict, error) {
	switch {
	case how == api.Cancel:
		return verdict{how, api.Settlement{Who: who, Reason: c.reason}}, nil
	case how == "":
		return verdict{}, nil
	}
	v, err := verdict{how, api.Settlement{Payment: claim}}, error(nil)
	if c.payment != nil {
		if v.Payment, err = c.payment.Text(told); err != nil {
			return verdict{}, fmt.Errorf("payment: %w", err)
		}
	}
	if err := v.Check(how); err != nil {
		return verdict{}, err
	}
	return v, nil
}

// reason is why a claim is cancelled for which failure is true, in one line of at most
// api.MaxReason bytes.
func reason(failure string) string {
	text := "failure is true: " + strings.Join(strings.Fields(failure), " ")
	for len(text) > api.MaxReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// SettleTimeout is how long the ledger may take with one settlement.
const SettleTimeout = 5 * time.Second
