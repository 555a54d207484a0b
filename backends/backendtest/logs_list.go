package backendtest

import (
	"slices"
	"testing"

	"salectl/backends/ledger"
)

// listNames holds a ledger.Lister to the logs that there are, also where names have other
// ones within them, and bytes that patterns and orders take for special.
func listNames(t *testing.T, a, b ledger.Logs) {
	lister, can := a.(ledger.Lister)
	if !can {
		t.Skip("it is no ledger.Lister")
	}
	list := func(prefix string, want ...string) {
		t.Helper()
		if got, err := lister.List(t.Context(), prefix); err != nil || !slices.Equal(got, want) {
			t.Errorf("what begins with %q is %q, %v; want %q", prefix, got, err, want)
		}
	}
	list("sale/")
	for _, name := range []string{"sale/b", "sale/a", "sale/B", "sale/a-1", "sale0", "sales/a", "sale", "f0/sale/a", "SALE/x", "sale/ü", "sale/_", "sale/a%"} {
		fill(t, b, name, 2)
	}
	list("sale/", "sale/B", "sale/_", "sale/a", "sale/a%", "sale/a-1", "sale/b", "sale/ü")
	list("sale/a", "sale/a", "sale/a%", "sale/a-1")
	list("sale/a%", "sale/a%")
	list("sale/_", "sale/_")
	list("f", "f0/sale/a")
	list("t")
	if err := b.Delete(t.Context(), "sale/a", 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "sale/b", 0); err != nil {
		t.Fatal(err)
	}
	list("sale/", "sale/B", "sale/_", "sale/a%", "sale/a-1", "sale/b", "sale/ü")
}
