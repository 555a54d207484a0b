package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"salectl/internal/services"
)

// The routes are such as Alertmanager takes, and lead each severity to its receiver.
func TestRoutes(t *testing.T) {
	amtool, err := services.Amtool()
	services.Require(t, err)
	if out, err := exec.Command(amtool, "check-config", "alertmanager.yaml").CombinedOutput(); err != nil {
		t.Fatalf("amtool check-config: %v\n%s", err, out)
	}
	for _, severity := range []string{"page", "ticket", "info"} {
		out, err := exec.Command(amtool, "config", "routes", "test", "--config.file=alertmanager.yaml", "severity="+severity, "sale=s").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != severity {
			t.Errorf("severity %s is sent to %q, %v", severity, got, err)
		}
	}
}

// mayInhibit are the pages that inhibit others, and each is inhibited only by those before it.
var mayInhibit = []string{"SalectlSaleUnserved", "SalectlSaleStalled", "SalectlSaleNotReady"}

// neverInhibited have remedies other than those of the pages in mayInhibit.
var neverInhibited = []string{"SalectlLogBroken", "SalectlRefundsDue", "SalectlRulesNotChecked", "SalectlPaymentServiceSilent"}

// The rules of inhibition name alerts that exist, none of neverInhibited, and have no circle.
func TestInhibitRules(t *testing.T) {
	var file struct {
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string
		} `yaml:"inhibit_rules"`
	}
	read(t, "alertmanager.yaml", yaml.Unmarshal, &file)
	known := func(matchers []string) (names []string) {
		m := regexp.MustCompile(`^alertname =~? ([\w|]+)$`).FindStringSubmatch(strings.Join(matchers, ","))
		if m == nil {
			t.Fatalf("the matchers %q are not one of alertname", matchers)
		}
		for _, name := range strings.Split(m[1], "|") {
			if !slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name }) {
				t.Errorf("there is no alert %s", name)
			}
			names = append(names, name)
		}
		return names
	}
	for _, rule := range file.Rules {
		for _, source := range known(rule.Source) {
			for _, target := range known(rule.Target) {
				first, second := slices.Index(mayInhibit, source), slices.Index(mayInhibit, target)
				if first < 0 || second >= 0 && second <= first || slices.Contains(neverInhibited, target) {
					t.Errorf("%s inhibits %s", source, target)
				}
				if target != "SalectlTargetsMissing" && !slices.Equal(rule.Equal, []string{"sale"}) { // that has no label sale
					t.Errorf("%s inhibits %s if %q are equal", source, target, rule.Equal)
				}
			}
		}
	}
}

// TestOneOutageIsOnePage posts the alerts of a ledger that hangs, as alerts.test.yaml has them, to an
// Alertmanager with the configuration of this folder. Only the page for the whole sale is sent. A page with
// another remedy is sent in addition, and so is the page of another sale.
func TestOneOutageIsOnePage(t *testing.T) {
	program, err := services.Alertmanager()
	services.Require(t, err)
	m := startAlertmanager(t, program)

	// The page is first, and the probe shows that it inhibits: without a group_wait, another alert might be sent before.
	const page, probe = "SalectlSaleStalled", "SalectlNotReady"
	m.post(posted(page, "page", "s", ""))
	m.wantPages(page + " of s")
	m.post(posted(probe, "info", "s", ""))
	m.wantInhibited(probe)

	outage := hanging(t)
	m.post(outage...)
	var inhibited []string
	for _, a := range outage {
		if name := a.Labels["alertname"]; name != page {
			inhibited = append(inhibited, name)
		}
	}
	m.wantInhibited(append(inhibited, probe)...)

	// The next page of the group would have any other page of the outage.
	m.post(posted("SalectlLogBroken", "page", "s", ""))
	m.wantPages(page+" of s", "SalectlLogBroken, "+page+" of s")
	m.post(posted("SalectlLedgerUnreachable", "page", "other", ""))
	m.wantPages(page+" of s", "SalectlLogBroken, "+page+" of s", "SalectlLedgerUnreachable of other")
}

// postedAlert is an alert as Prometheus posts it.
type postedAlert struct {
	Labels map[string]string `json:"labels"`
	EndsAt time.Time         `json:"endsAt"`
}

func posted(name, severity, sale, instance string) postedAlert {
	labels := map[string]string{"alertname": name, "severity": severity, "sale": sale}
	if instance != "" {
		labels["instance"] = instance
	}
	return postedAlert{labels, time.Now().Add(time.Hour)}
}

// hanging returns the alerts that fire for sale s when the ledger hangs: those of the case of alerts.test.yaml.
func hanging(t *testing.T) (all []postedAlert) {
	t.Helper()
	var file struct {
		Tests []struct {
			Name  string
			Exprs []struct {
				Samples []struct {
					Labels string
					Value  int
				} `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	read(t, "alerts.test.yaml", yaml.Unmarshal, &file)
	severities, pages := make(map[string]string), 0
	for _, a := range alerts(t) {
		severities[a.Alert] = a.Labels.Severity
	}
	for _, c := range file.Tests {
		if !strings.HasPrefix(c.Name, "The ledger hangs: ") {
			continue
		}
		for _, s := range c.Exprs[0].Samples {
			name := strings.Split(s.Labels, `"`)[1]
			if severities[name] == "page" {
				pages++
			}
			for i := range s.Value {
				instance := ""
				if s.Value > 1 {
					instance = fmt.Sprint(i)
				}
				all = append(all, posted(name, severities[name], "s", instance))
			}
		}
	}
	if pages < 2 {
		t.Fatalf("the case of a ledger that hangs has %d pages: %v", pages, all)
	}
	return all
}

// alertmanagerServer is an Alertmanager on this machine, and the receiver of its notifications.
type alertmanagerServer struct {
	*process
	base  string
	mu    sync.Mutex
	pages []string // the alerts and the sale of each
}

var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

// startAlertmanager starts an Alertmanager on a port that it selects itself.
func startAlertmanager(t *testing.T, program string) *alertmanagerServer {
	t.Helper()
	m := &alertmanagerServer{process: &process{T: t}}
	receiver := httptest.NewServer(http.HandlerFunc(m.receive))
	t.Cleanup(receiver.Close)
	text, err := os.ReadFile("alertmanager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Only the receivers are the test's, and how soon they are notified.
	edited := strings.NewReplacer("https://alerts.example.com", receiver.URL, "group_wait: 10s", "group_wait: 1ms", "group_interval: 1m", "group_interval: 100ms").Replace(string(text))
	dir := t.TempDir()
	file := filepath.Join(dir, "alertmanager.yaml")
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	output := run(t, exec.Command(program, "--config.file="+file, "--storage.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0", "--cluster.listen-address="))
	m.eventually("an Alertmanager that listens", func() error {
		address := listening.FindStringSubmatch(output.String())
		if address == nil {
			return fmt.Errorf("its output is %q", output)
		}
		m.base = "http://" + address[1] + "/api/v2/alerts"
		return nil
	})
	return m
}

// receive is the webhook receiver.
func (m *alertmanagerServer) receive(w http.ResponseWriter, r *http.Request) {
	var message struct {
		GroupLabels map[string]string
		Alerts      []postedAlert
	}
	if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
		m.Errorf("a notification: %v", err)
	}
	if path.Base(r.URL.Path) != "page" {
		return
	}
	var names []string
	for _, a := range message.Alerts {
		names = append(names, a.Labels["alertname"])
	}
	slices.Sort(names)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages = append(m.pages, strings.Join(names, ", ")+" of "+message.GroupLabels["sale"])
}

// post posts alerts, which fire until the test ends.
func (m *alertmanagerServer) post(alerts ...postedAlert) {
	m.Helper()
	body, err := json.Marshal(alerts)
	if err != nil {
		m.Fatal(err)
	}
	m.eventually("alerts accepted", func() error {
		r, err := http.Post(m.base, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("POST %s: %s", m.base, r.Status)
		}
		return nil
	})
}

// wantPages waits for notifications of pages, and fails the test if there are others.
func (m *alertmanagerServer) wantPages(want ...string) {
	m.Helper()
	var got []string
	m.eventually("pages", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if got = slices.Clone(m.pages); len(got) < len(want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	if !slices.Equal(got, want) {
		m.Fatalf("got the pages %q, want %q", got, want)
	}
}

// wantInhibited waits until the inhibited alerts of sale s are these.
func (m *alertmanagerServer) wantInhibited(want ...string) {
	m.Helper()
	slices.Sort(want)
	m.eventually("inhibited alerts", func() error {
		r, err := http.Get(m.base)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		var found []struct {
			postedAlert
			Status struct{ InhibitedBy []string }
		}
		if err := json.NewDecoder(r.Body).Decode(&found); err != nil {
			return err
		}
		var got []string
		for _, a := range found {
			if len(a.Status.InhibitedBy) > 0 {
				got = append(got, a.Labels["alertname"])
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}
