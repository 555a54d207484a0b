package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/planner"
)

// The page says of each reason of an action what it is, under the heading of its kind, and of
// no other.
func TestReasonsPage(t *testing.T) {
	text, err := os.ReadFile("gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| `actionReason` |")
	table, _, _ = strings.Cut(table, "\n\n")
	undone, drift, _ := strings.Cut(table, "**Drift**")
	firstDrift := slices.Index(planner.Reasons, planner.ReasonOtherGeneration)
	for i, reason := range planner.Reasons {
		part := undone
		if i >= firstDrift {
			part = drift
		}
		if !strings.Contains(part, "`"+string(reason)+"`") {
			t.Errorf("%s is not told where it belongs", reason)
		}
	}
	if told := regexp.MustCompile("(?m)^\\| (`[a-z_]+`(, )?)+ \\|").FindAllString(table, -1); len(regexp.MustCompile("`").FindAllString(strings.Join(told, ""), -1)) != 2*len(planner.Reasons) {
		t.Errorf("the page tells of other reasons, too: %q", told)
	}
}
