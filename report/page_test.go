package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/draw"
	"salectl/report/threshold"
	"salectl/spec"
)

// sample is the report of a sale of ten units.
func sample(t *testing.T) *Page {
	t.Helper()
	sale, s := opened(t, nil)
	s.claim(100, `<script>alert("x")</script>`, 3)
	s.claim(102, "b", 1)
	return &Page{
		Sale: spec.Sale{Name: "movie", Stock: 10, LockCount: 1, PerUserLimit: 4}, Backend: "embedded",
		Audit:  &audit.Report{OK: true, UID: "u", Stock: 10, Sold: 4, Available: 6, Users: 2, Shards: 1, Slots: 9},
		Ledger: NewLedger(sale, []*ledger.State{s.State}), At: time.Unix(1_000_000, 0), Version: "devel",
	}
}

func written(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The file loads nothing and runs nothing, and its policy says so.
func TestThePageIsCompleteInItself(t *testing.T) {
	text := written(t, sample(t))
	for _, bad := range []string{"<script", "http:", "https:", " src=", "url(", "@import", " style=", " onclick", "<no value>", "ZgotmplZ", "NaN", "%!"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	policy := regexp.MustCompile(`content="default-src 'none'; style-src 'sha256-([^']+)'; base-uri 'none'; form-action 'none'"`).FindStringSubmatch(text)
	if style == nil || policy == nil {
		t.Fatalf("the page has no style or no policy:\n%.900s", text)
	}
	sum := sha256.Sum256([]byte(style[1]))
	if got := strings.ReplaceAll(policy[1], "&#43;", "+"); got != base64.StdEncoding.EncodeToString(sum[:]) {
		t.Errorf("the policy permits a style of hash %s, which is not that of the page", got)
	}
	if !strings.Contains(text, "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;") {
		t.Error("the user is not named")
	}
	// Each chart says what it is, and has its numbers in a table.
	if charts, labels, tables := strings.Count(text, `role="img"`), strings.Count(text, `role="img" aria-label="`), strings.Count(text, "<details>"); charts < 3 || labels != charts || tables != charts {
		t.Errorf("%d charts, %d with a label, %d with a table", charts, labels, tables)
	}
}

func TestVerdictInWords(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Page)
		good   bool
		want   string
	}{
		"good": {func(*Page) {}, true, "The audit found each unit in one place and nobody beyond the limit."},
		"kept": {func(p *Page) { p.Thresholds = []threshold.Result{{OK: true}, {OK: true}} }, true,
			"The audit found each unit in one place and nobody beyond the limit; all 2 thresholds are kept."},
		"a threshold": {func(p *Page) { p.Thresholds = []threshold.Result{{Threshold: "sold==5", Measured: 4}} }, false,
			"1 threshold of 1 failed. The audit found each unit in one place and nobody beyond the limit."},
		"a problem": {func(p *Page) { p.Audit.OK, p.Audit.Problems = false, []string{"unit 7 is nowhere", "and 8"} }, false, "The audit found 2 problems."},
	} {
		p := sample(t)
		c.change(p)
		if good, got := p.verdict(); good != c.good || got != c.want {
			t.Errorf("%s: %v, %s", name, good, got)
		}
		text := written(t, p)
		for _, problem := range p.Audit.Problems {
			if !strings.Contains(text, "<li>"+problem+"</li>") {
				t.Errorf("%s: the page does not say %s", name, problem)
			}
		}
		if strings.Contains(text, `<strong>Failed</strong>`) == c.good {
			t.Errorf("%s: the page says otherwise", name)
		}
	}
}

// A sale that nobody has claimed of has a report, too.
func TestAPageOfNothing(t *testing.T) {
	p := sample(t)
	sale, s := opened(t, nil)
	p.Ledger, p.Audit = NewLedger(sale, []*ledger.State{s.State, ledger.NewState("lost")}), &audit.Report{OK: true, Stock: 10, Available: 10}
	if text := written(t, p); !strings.Contains(text, "The ledger has no claim.") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

// TestSectionsOfTheAudit holds the sections that only some sales have.
func TestSectionsOfTheAudit(t *testing.T) {
	p := sample(t)
	for _, id := range []string{"holds", "draw", "packets", "thresholds"} {
		if strings.Contains(written(t, p), `id="`+id+`"`) {
			t.Errorf("the page has a section of %s", id)
		}
	}
	p.Audit.Outcomes = ledger.Outcomes{Confirmed: 1234}
	p.Audit.HoldTimes = &audit.HoldTimes{Holds: 2, P50: .5, P90: 1, P99: 2, Max: 60}
	p.Audit.Draw = &draw.Report{
		OK: true, Revealed: true, Entries: 50, Awarded: 9, Notes: []string{"noted"},
		Published: draw.Published{Winners: 10, Lapsed: 1, Beacon: &draw.Beacon{Name: "quicknet", Round: "7"}},
	}
	p.Audit.Packets = &audit.Packets{Total: "10.00", Currency: "CNY", Packets: 10, Granted: "4.00", Taken: 4, Left: "6.00"}
	p.Thresholds = []threshold.Result{{Threshold: "sold==4", OK: true, Measured: 4}}
	text := written(t, p)
	for _, want := range []string{
		"<dd>half of them up to 500ms, 90% up to 1s, 99% up to 2s, the longest 1m0s; 2 holds that ended</dd>",
		`<tr><td>paid</td><td class="n">1,234</td></tr>`,
		"<dd>9 units; 1 award lapsed, 0 still to be made</dd>", "<dd>quicknet, round 7</dd>", `<p class="soft">noted</p>`,
		`<td>The draw can be recomputed from the published data</td><td>0 problems</td><td class="good">ok</td>`,
		"<dd>4.00 CNY in 4 packets</dd>", "<li><b>4.00</b><span>of 10.00 CNY given</span></li>",
		`<tr><td>sold==4</td><td class="n">4</td><td class="good">ok</td></tr>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s:\n%s", want, text[strings.Index(text, "<body>"):])
		}
	}
}
