package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor/rehearse"
	"salectl/report"
	"salectl/report/threshold"
)

// The page of reports names what thresholds may name, and no more. Outcomes have a line for
// all of them.
func TestThresholdsPage(t *testing.T) {
	text := strings.Join(readPage(t, "docs/reports.md").lines, "\n")
	_, text, _ = strings.Cut(text, "\nOf `rehearse`:\n")
	crowd, sale, ok := strings.Cut(text, "\nOf `audit`:\n")
	if !ok {
		t.Fatal("docs/reports.md has no two tables of thresholds")
	}
	outcome := func(name string) bool {
		return slices.ContainsFunc(api.Outcomes(), func(r api.Row) bool { return string(r.Outcome) == name })
	}
	for command, c := range map[string]struct {
		page    string
		metrics threshold.Metrics
	}{"rehearse": {crowd, rehearse.Measures}, "audit": {sale, report.AuditMeasures}} {
		var want, got []string
		for _, m := range c.metrics.All {
			if command == "audit" || m.Name == "sold" || !outcome(m.Name) {
				want = append(want, m.Name+" of "+m.Of)
			}
		}
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .* \\| `?([a-z_]*)`? ?\\|$").FindAllStringSubmatch(c.page, -1) {
			got = append(got, row[1]+" of "+row[2])
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %s the page has\n%q, and thresholds\n%q", command, got, want)
		}
	}
}
