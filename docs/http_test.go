package docs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor/httpd"
)

var (
	word     = regexp.MustCompile("`([a-z_]+)`")
	decimals = regexp.MustCompile(`\d+`)
)

// The table of outcomes has each outcome of package api once, with its status, its exit code and the
// result of a repetition. The sentence above it has the least Retry-After of those that are not final.
func TestHTTPPageHasTheOutcomes(t *testing.T) {
	_, text, _ := strings.Cut(strings.Join(readPage(t, "docs/http.md").lines, "\n"), "\n## Outcomes\n")
	text, _, _ = strings.Cut(text, "\n#")
	told := map[api.Outcome]string{} // "status exit repeated"
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		for _, name := range word.FindAllStringSubmatch(cells[1], -1) {
			outcome := api.Outcome(name[1])
			if told[outcome] != "" {
				t.Errorf("the table has %s twice", outcome)
			}
			told[outcome] = fmt.Sprint(decimals.FindString(cells[2]), cells[3], strings.TrimSpace(cells[4]))
			if repeated := strings.Contains(cells[2], "; 200 repeated"); repeated != outcome.Accepted() {
				t.Errorf("%s is 200 if repeated: %v", outcome, repeated)
			}
		}
	}
	least := regexp.MustCompile("\\*later\\* and \\*again\\* have a `Retry-After` of at least (\\d+) s").FindStringSubmatch(text)
	if least == nil {
		t.Fatal("the page does not tell the least Retry-After")
	}
	for _, row := range api.Outcomes() {
		if want := fmt.Sprintf("%d %d %s", row.Status, row.Exit, row.Retry); told[row.Outcome] != want {
			t.Errorf("of %s the table has %q, want %q", row.Outcome, told[row.Outcome], want)
		}
		delete(told, row.Outcome)
		wait := "0"
		if row.Retry != api.Final {
			wait = least[1]
		}
		if got := strconv.Itoa(int(row.RetryAfter / time.Second)); got != wait {
			t.Errorf("the least Retry-After of %s is %s s, and the page has %s s", row.Outcome, got, wait)
		}
	}
	if len(told) > 0 {
		t.Errorf("the table has outcomes that there are not: %v", told)
	}
}

// The page has the bound of the server and the timeout of the client, and so has the OpenAPI document.
func TestHTTPPageHasTheTimeouts(t *testing.T) {
	page := strings.Join(readPage(t, "docs/http.md").lines, "\n")
	for where, text := range map[string]string{"docs/http.md": page, "api/openapi.yaml": api.OpenAPI} {
		within, timeout := fmt.Sprintf("within %.0f s", httpd.DefaultClaimTimeout.Seconds()), fmt.Sprintf("timeout of %.0f s", api.DefaultTimeout.Seconds())
		for _, want := range []string{within, timeout} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not have %q", where, want)
			}
		}
	}
}
