package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"salectl/spec"
	"salectl/testdata/peers/internal/sales"
)

// TestMain has this program be its own seller.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-seller") {
		main()
		return
	}
	os.Exit(m.Run())
}

// Small sales are measured as large ones are: each of those that are not left out is beside
// the first in every round.
func TestGrown(t *testing.T) {
	defer func(was []int64) { sizes = was }(sizes)
	sizes = []int64{100, 3000, 5000, 6000}
	declared := sales.Declared()
	declared.Embedded = &spec.Embedded{Dir: t.TempDir()}
	f, err := grown(t.Context(), options{rounds: 2, each: 2500, most: 5000}, declared)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	f.Print(&text)
	for _, want := range []string{"claims/s, 3000 before", "claims/s, 5000 before"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "6000") {
		t.Errorf("a sale that is too large was made:\n%s", &text)
	}
	if left, err := os.ReadDir(declared.Embedded.Dir); err != nil || len(left) > 0 {
		t.Errorf("what sellers left: %v, %v", left, err)
	}
}
