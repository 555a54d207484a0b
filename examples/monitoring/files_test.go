// Package monitoring holds the files of this folder, and docs/metrics.md, to what a process
// that serves sales exports: the metrics of a real scrape, and a real Prometheus that queries
// them.
package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"salectl/executor/status"
	"salectl/internal/services"
)

// The rules are such as Prometheus takes, and fire as in their tests.
func TestRules(t *testing.T) {
	promtool, err := services.Promtool()
	services.Require(t, err)
	for _, args := range [][]string{
		{"check", "config", "prometheus.yaml"}, {"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts.test.yaml"},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// runbook is where runbook_url leads; the operator replaces the address before it.
const runbook = "https://example.com/salectl/docs/runbook.md#"

// The sections of docs/runbook.md are the alerts, in the order of alerts.yaml, and each alert links to its own.
func TestEachAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings, names []string
	for _, m := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllSubmatch(page, -1) {
		headings = append(headings, string(m[1]))
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if want := runbook + strings.ToLower(a.Alert); a.Annotations.RunbookURL != want {
			t.Errorf("%s has the runbook_url %q, want %q", a.Alert, a.Annotations.RunbookURL, want)
		}
	}
	if !slices.Equal(headings, names) {
		t.Errorf("the sections of docs/runbook.md are\n%s\nand the alerts are\n%s", strings.Join(headings, " "), strings.Join(names, " "))
	}
}

// A page is about a sale, so that a fault of several processes is one page.
func TestPagesAreOnePerSale(t *testing.T) {
	for _, a := range alerts(t) {
		perSale := strings.Contains(a.Expr, "by (sale") || strings.HasPrefix(a.Expr, "absent(")
		if text := a.Expr + " " + a.Annotations.Summary; a.Labels.Severity == "page" && (!perSale || strings.Contains(text, "instance")) {
			t.Errorf("%s is a page about a process: %s", a.Alert, text)
		}
	}
}

// alert is a rule of alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	Labels      struct{ Severity string }
	Annotations struct {
		Summary, Description string
		RunbookURL           string `yaml:"runbook_url"`
	}
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	read(t, "alerts.yaml", yaml.Unmarshal, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

func read(t *testing.T, path string, decode func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = decode(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Each alert is tested, and has a text about its cause and remedy.
func TestEachAlertIsTested(t *testing.T) {
	cases, err := os.ReadFile("alerts.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		if !strings.Contains(string(cases), `{alertname="`+a.Alert+`"}`) {
			t.Errorf("no case of alerts.test.yaml has %s fire", a.Alert)
		}
		if !slices.Contains([]string{"page", "ticket", "info"}, a.Labels.Severity) || a.Annotations.Summary == "" || a.Annotations.Description == "" {
			t.Errorf("%s has severity %q, summary %q and description %q", a.Alert, a.Labels.Severity, a.Annotations.Summary, a.Annotations.Description)
		}
	}
}

// TestEachKindOfProblem holds the table of docs/metrics.md, and the alerts, to the kinds of problems.
func TestEachKindOfProblem(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	all := alerts(t)
	for _, k := range status.Kinds {
		kind, fire := regexp.MustCompile(`salectl_problems{kind=.*["|]`+k.Name+`["|]`), 0
		for _, a := range all {
			if kind.MatchString(a.Expr) {
				fire++
			}
		}
		if fire != 1 {
			t.Errorf("%d alerts are about %s", fire, k.Name)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", k.Name, strings.ToLower(k.Level.String()), k.Began))
	}
	if table := strings.Join(rows, ""); !strings.Contains(string(page), "\n|---|---|---|\n"+table+"\n") {
		t.Errorf("docs/metrics.md lacks the table\n%s", table)
	}
}

// panel is a panel of the dashboard.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var file struct{ Panels []panel }
	read(t, "grafana-dashboard.json", json.Unmarshal, &file)
	return file.Panels
}

// The panels of the dashboard have names of their own, lie beside each other, and query
// something.
func TestDashboardIsWhole(t *testing.T) {
	all := panels(t)
	for i, p := range all {
		if g := p.GridPos; g.X < 0 || g.X+g.W > 24 || g.W <= 0 || g.H <= 0 {
			t.Errorf("panel %q lies at %+v", p.Title, g)
		}
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q has %d queries, and the description %q", p.Title, len(p.Targets), p.Description)
		}
		for _, other := range all[:i] {
			if p.ID == other.ID || p.Title == other.Title && p.Type == other.Type {
				t.Errorf("two panels are %d, %q", p.ID, p.Title)
			}
			if a, b := p.GridPos, other.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panel %q lies on %q", p.Title, other.Title)
			}
		}
	}
}
