package docs

import (
	"os"
	"regexp"
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
	source, err := os.ReadFile("../planner/reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`ActionReason += "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	part := undone
	for _, reason := range reasons {
		if reason[1] == string(planner.ReasonOtherGeneration) {
			part = drift // begins with it
		}
		if !strings.Contains(part, "`"+reason[1]+"`") {
			t.Errorf("%s is not told where it belongs", reason[1])
		}
	}
	if told := regexp.MustCompile("(?m)^\\| (`[a-z_]+`(, )?)+ \\|").FindAllString(table, -1); len(regexp.MustCompile("`").FindAllString(strings.Join(told, ""), -1)) != 2*len(reasons) {
		t.Errorf("the page tells of other reasons, too: %q", told)
	}
}
