package check

import (
	"slices"
	"strings"
	"testing"

	"salectl/api"
)

// Each outcome of the API is judged, but for those of settlements; any other
// word is reported.
func TestEachOutcomeIsJudged(t *testing.T) {
	of := func(o api.Outcome) bool {
		w := newWorld(t)
		w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: o})
		return !slices.ContainsFunc(Check(w.h), func(p Problem) bool { return strings.Contains(p.String(), "which is no outcome") })
	}
	unheard := []api.Outcome{api.NotHeld, api.NotSold, api.NoExtension, api.NoSuchClaim, api.Returned, api.NotDue} // they are said of settlements
	for _, row := range api.Outcomes() {
		if of(row.Outcome) == slices.Contains(unheard, row.Outcome) {
			t.Errorf("%q is judged: %v", row.Outcome, of(row.Outcome))
		}
	}
	if of("lost_in_space") {
		t.Error("any word is an outcome")
	}
}
