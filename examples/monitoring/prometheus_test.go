package monitoring

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"salectl/internal/services"
	"salectl/internal/services/scripts"
)

// unanswered are the panels that have nothing to show in the test, and why.
var unanswered = map[string]string{
	"Grabs not yet logged": "engine redis",
	"Errors of lock nodes": "a lock node fails",
}

// queryPrometheus has a Prometheus with the files of this folder scrape a process, and queries it
// with all queries of the dashboard. Every panel is to show something, if not at once: on a busy machine
// the process may have no leases for a moment, and exports nothing of the sale then.
func queryPrometheus(t *testing.T, target string) {
	program, err := services.Prometheus()
	services.Require(t, err)
	p := startPrometheus(t, program, target)
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			p.eventually(panel.Title, func() error {
				n := p.query(strings.NewReplacer("$sale", "large", "$__rate_interval", "1m").Replace(target.Expr))
				if why := unanswered[panel.Title]; n == 0 && why == "" {
					return fmt.Errorf("the panel has nothing to show: %s", target.Expr)
				}
				return nil
			})
		}
	}
	names := p.names()
	for _, panel := range panels(t) {
		for _, target := range panel.Targets {
			wantKnown(t, panel.Title, target.Expr, names)
		}
	}
	for _, a := range alerts(t) {
		p.query(a.Expr)
		wantKnown(t, a.Alert, a.Expr, names)
	}
	p.wantRules(len(alerts(t)))
}

var metric = regexp.MustCompile(`\b(?:salectl|process|go)_[a-z_]+|\bup\b`)

// wantKnown fails the test if a query reads a metric that Prometheus does not know.
func wantKnown(t *testing.T, who, query string, names []string) {
	t.Helper()
	for _, name := range metric.FindAllString(query, -1) {
		if !slices.Contains(names, name) && rare[name] == "" {
			t.Errorf("%s reads %s, which no process exports", who, name)
		}
	}
}

// prometheusServer is a Prometheus on this machine.
type prometheusServer struct {
	*process
	base string
}

// startPrometheus returns when a Prometheus with the configuration of this folder has
// scraped a process some times.
func startPrometheus(t *testing.T, program, target string) *prometheusServer {
	t.Helper()
	dir, listen := t.TempDir(), scripts.FreeAddress(t)
	for _, name := range []string{"prometheus.yaml", "alerts.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// Only what is scraped is the test's, and how often; and no Alertmanager of this machine gets the alerts.
		edited := strings.NewReplacer("127.0.0.1:8081, 127.0.0.1:8083", target, "_interval: 5s", "_interval: 250ms", "127.0.0.1:9093", "").Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen))
	p := &prometheusServer{&process{T: t}, "http://" + listen}
	p.eventually("scraped", func() error {
		var found answer
		if err := p.get("query?"+url.Values{"query": {`count_over_time(salectl_ready{sale="large",job="salectl"}[1m]) >= 3`}}.Encode(), &found); err != nil {
			return err
		}
		if len(found.Data.Result) != 1 {
			return fmt.Errorf("%d series", len(found.Data.Result))
		}
		return nil
	})
	return p
}

// answer is Prometheus's to a query.
type answer struct {
	Data struct{ Result []json.RawMessage }
}

func (p *prometheusServer) get(path string, into any) error {
	r, err := http.Get(p.base + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Status, raw)
	}
	return json.Unmarshal(raw, into)
}

// query returns how many series a query finds.
func (p *prometheusServer) query(query string) int {
	p.Helper()
	var found answer
	if err := p.get("query?"+url.Values{"query": {query}}.Encode(), &found); err != nil {
		p.Errorf("%s: %v", query, err)
	}
	return len(found.Data.Result)
}

// names are the metrics that there are.
func (p *prometheusServer) names() []string {
	p.Helper()
	var found struct{ Data []string }
	if err := p.get("label/__name__/values", &found); err != nil {
		p.Fatal(err)
	}
	return found.Data
}

// wantRules waits until so many rules were evaluated, without an error.
func (p *prometheusServer) wantRules(want int) {
	p.Helper()
	p.eventually("evaluated", func() error {
		var found struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		if err := p.get("rules", &found); err != nil {
			return err
		}
		good := 0
		for _, g := range found.Data.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
				}
				good++
			}
		}
		if good != want {
			return fmt.Errorf("%d of %d rules", good, want)
		}
		return nil
	})
}
