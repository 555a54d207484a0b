package server

import (
	"fmt"
	"testing"

	"salectl/backends/ledger"
	"salectl/planner"
)

func TestLackOf(t *testing.T) {
	for want, err := range map[string]error{
		"sale opera does not exist":                   ledger.NoSale{Sale: "opera"},
		"sale opera is not applied in full":           planner.Refuse("sale opera is not applied in full").With("Run 'salectl apply' again."),
		"reading opera: sale opera is sealed for now": fmt.Errorf("reading opera: %w", planner.Refuse("sale opera is sealed for now")),
	} {
		if is := lackOf(err); is.Why != want {
			t.Errorf("%v is lacking for %q, not %q", err, is.Why, want)
		}
	}
}
