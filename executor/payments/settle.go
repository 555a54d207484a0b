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

// verdict is the settlement that follows from an answer of a payment service. An empty how means
// that the answer settles nothing.
type verdict struct {
	how api.How
	api.Settlement
}

// errBoth reports an answer for which success and failure are both true.
var errBoth = errors.New("success and failure are both true")

// judge returns how the answer settles a claim: confirm, cancel, or "" for neither. It returns an
// error if the expressions fail or are both true.
func (c *conditions) judge(told *rules.PredicateInput) (api.How, error) {
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

// verdict returns the settlement of a claim that judge has judged as how.
func (c *conditions) verdict(told *rules.PredicateInput, how api.How, claim, who string) (verdict, error) {
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

// reason returns the reason of a cancellation by a true failure expression, in one line of at most
// api.MaxReason bytes.
func reason(failure string) string {
	text := "failure is true: " + strings.Join(strings.Fields(failure), " ")
	for len(text) > api.MaxReason {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// SettleTimeout is the timeout of one settlement in the ledger.
const SettleTimeout = 5 * time.Second
