package monitoring

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"salectl/api"
	"salectl/cli"
	"salectl/executor"
	"salectl/executor/httpd"
	"salectl/internal/services"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
)

// The tests run salectl as a process of its own, which is the program of the tests.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"salectl": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)) },
	})
}

// patience is how long a test waits for what must happen at some time.
const patience = 2 * time.Minute

// shards is the lockCount of the large sale, and mostSeries how many series a scrape of it
// may have.
const shards, mostSeries = 1024, 2000

// TestScrape has a process serve a sale of many shards with all that gives metrics, holds the
// scrape against docs/metrics.md and promtool, and then has a Prometheus run
// all queries of the dashboard and the alerts.
func TestScrape(t *testing.T) {
	promtool, err := services.Promtool()
	services.Require(t, err)
	p := serve(t)
	p.sell()
	var page *scraped
	p.eventually("all shards", func() error { // which it does not while it lacks a lease
		if page = p.scrape(); page.samples[`salectl_owned_shards{sale="large"}`] != "1024" || page.samples[`salectl_ready{sale="large"}`] != "1" {
			return errors.New("some shard is not owned")
		}
		if page.samples[`salectl_problems{kind="node_down",sale="large"}`] != "0" || page.samples[`salectl_problems{kind="node_down",sale="draw"}`] != "0" {
			return errors.New("the problems were not compiled yet")
		}
		return nil
	})

	if n := len(page.samples); n > mostSeries {
		t.Errorf("a scrape has %d series, at most %d", n, mostSeries)
	} else {
		t.Logf("%d series, %d bytes", n, len(page.text))
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = bytes.NewReader(page.text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for series, want := range map[string]string{
		`salectl_sale_stock_units{sale="large"}`: "4096", `salectl_sale_shards{sale="large"}`: "1024", `salectl_sale_user_limit_units{sale="large"}`: "3",
		`salectl_sale_phase{phase="open",sale="large"}`: "1", `salectl_sale_phase{phase="stalled",sale="large"}`: "0",
		`salectl_sale_sold_units{sale="large"}`: "2", `salectl_sale_held_units{sale="large"}`: "2", `salectl_sale_available_units{sale="large"}`: "4092",
		`salectl_sale_opens_timestamp_seconds{sale="large"}`: "1.5778368e+09", `salectl_sale_closes_timestamp_seconds{sale="large"}`: "4.0709088e+09",
		`salectl_owned_shards{sale="large"}`: "1024", `salectl_ready{sale="large"}`: "1", `salectl_sale_entries{sale="draw"}`: "1",
	} {
		if got := page.samples[series]; got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
	holdAgainstPage(t, page)
	t.Run("queries", func(t *testing.T) { queryPrometheus(t, p.admin) })
}

// rare are the metrics of docs/metrics.md that the scrape lacks, and why.
var rare = map[string]string{
	"salectl_lists":                           "engine redis",
	"salectl_undrained_grabs":                 "engine redis",
	"salectl_grab_seconds":                    "engine redis",
	"salectl_stalled_since_timestamp_seconds": "a shard stalls",
	"salectl_lock_errors_total":               "a lock node fails",
	"salectl_feed_lag_seconds":                "somebody follows",

	"salectl_tls_certificate_from_timestamp_seconds":  "TLS",
	"salectl_tls_certificate_until_timestamp_seconds": "TLS",
}

var (
	row   = regexp.MustCompile("(?m)^\\| `(salectl_[a-z_]+)` \\| (\\w+) \\|(.*?)\\| \\S")
	typed = regexp.MustCompile(`(?m)^# TYPE (salectl_\w+) (\w+)$`)
	named = regexp.MustCompile(`fqName: "(salectl_\w+)"`)
)

// holdAgainstPage compares the tables of docs/metrics.md with a scrape.
func holdAgainstPage(t *testing.T, page *scraped) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, is := make(map[string]string), make(map[string]string)
	for _, m := range row.FindAllSubmatch(text, -1) {
		labels := strings.ReplaceAll(strings.ReplaceAll(string(m[3]), "`", ""), ",", "")
		if documented[string(m[1])] != "" {
			t.Errorf("docs/metrics.md has %s twice", m[1])
		}
		documented[string(m[1])] = strings.TrimSpace(string(m[2]) + " " + labels)
	}
	for _, m := range typed.FindAllSubmatch(page.text, -1) {
		is[string(m[1])] = string(m[2])
		if labels := page.labels(string(m[1])); labels != "" {
			is[string(m[1])] += " " + labels
		}
	}
	for name, what := range is {
		if !sameWords(documented[name], what) {
			t.Errorf("in docs/metrics.md %s is %q, and it is %q", name, documented[name], what)
		}
	}
	declared := make(chan *prometheus.Desc, 1000)
	for _, c := range slices.Concat(executor.New(executor.Config{Sale: "large"}).Collectors(), httpd.New(httpd.Config{}).Collectors()) {
		c.Describe(declared)
	}
	close(declared)
	known := make(map[string]bool)
	for d := range declared {
		known[named.FindStringSubmatch(d.String())[1]] = true
	}
	for name := range documented {
		if rare[name] == "" && is[name] == "" || rare[name] != "" && !known[name] {
			t.Errorf("docs/metrics.md has %s, and a scrape does not", name)
		}
	}
}

// sameWords reports whether two texts have the same words, in any order.
func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(strings.Fields(a))), slices.Sorted(slices.Values(strings.Fields(b))))
}

// scraped is the content of /metrics.
type scraped struct {
	text    []byte
	samples map[string]string // the values, by series as they stand there
}

// labels returns the names of a metric's labels, but for the sale's and those of buckets.
func (s *scraped) labels(metric string) string {
	for series := range s.samples {
		name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		if name != metric && name != metric+"_count" {
			continue
		}
		var names []string
		for _, m := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(labels, -1) {
			if m[1] != "sale" {
				names = append(names, m[1])
			}
		}
		return strings.Join(names, " ")
	}
	return ""
}

// process is one that serves the sales of a folder.
type process struct {
	*testing.T
	admin, url string
	paid       sync.Map // claims that the payment service has a payment for
}

// The sales: a large one with all that a sale may have, and a draw.
const sales = `apiVersion: salectl/v1
kind: Sale
metadata: {name: large}
spec:
  stock: 4096
  lockCount: %d
  lock: {ttl: 10s} # with so many shards, a busy machine needs it
  perUserLimit: 3
  opensAt: 2020-01-01T00:00:00Z
  closesAt: 2099-01-01T00:00:00Z
  payment:
    holdFor: 1h
    grace: 5s
    extendBy: 10m
    late: resell
    check:
      url: %s/{claim}
      interval: 1s
      timeout: 1s
      success: response.status == 200 && response.body.claim == claim.id
      failure: response.status == 410
      payment: response.body.id
    webhook:
      secretsEnv: SECRETS
      success: event.type == "paid"
      failure: event.type == "failed"
      claim: event.claim
      payment: event.id
  users: {attributes: {level: string}, file: users.csv, fresh: 1s}
  rules:
    - {name: members, require: 'user.level == "gold"', message: Members only.}
%s  embedded: {dir: .salectl}
---
apiVersion: salectl/v1
kind: Sale
metadata: {name: draw}
spec:
  stock: 2
  lockCount: 1
  closesAt: 2099-01-01T00:00:00Z
  queue: {order: draw}
  draw: {keyEnv: DRAW_KEY, substitutes: 2}
  embedded: {dir: .salectl}
`

// serve applies the sales and serves them until the test has ended.
func serve(t *testing.T) *process {
	t.Helper()
	dir, p := t.TempDir(), &process{T: t, admin: scripts.FreeAddress(t)}
	listen := scripts.FreeAddress(t)
	p.url = "http://" + listen
	rules := ""
	for i := range 63 { // with the other as many as there may be
		rules += fmt.Sprintf("    - {name: rule-%d, require: 'user.level == \"%d\"', enforce: audit}\n", i, i)
	}
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim := strings.TrimPrefix(r.URL.Path, "/")
		if _, paid := p.paid.Load(claim); !paid {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"claim": %q, "id": "p3"}`, claim)
	}))
	t.Cleanup(shop.Close)
	for name, text := range map[string]string{
		"sale.yaml": fmt.Sprintf(sales, shards, shop.URL, rules), "users.csv": "id,level\nann,gold\nbob,gold\ncarl,gold\ndan,gold\neve,none\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	salectl := func(args ...string) *exec.Cmd {
		cmd := exec.Command("salectl", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SECRETS=whsec_"+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32)),
			"DRAW_KEY="+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("d"), 32)))
		return cmd
	}
	if out, err := salectl("apply", "--yes").CombinedOutput(); err != nil {
		t.Fatalf("salectl apply: %v\n%s", err, out)
	}
	run(t, salectl("serve", "--listen", listen, "--admin-listen", p.admin))
	p.eventually("ready", func() error {
		r, err := p.client(p.admin, "").Ready(t.Context())
		if err == nil && !r.Ready {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	return p
}

// output is what a program has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts a program that is ended with the test, which shows its output if it failed.
func run(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	output := new(output)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		hung := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer hung.Stop()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s: %v\n%s", filepath.Base(cmd.Path), err, output)
		}
	})
	return output
}

func (p *process) eventually(what string, try func() error) {
	p.Helper()
	wait.UntilNil(p, what, try)
}

// client sends requests to an address.
func (p *process) client(address, sale string) *api.Client {
	p.Helper()
	c, err := api.NewClient(api.Config{Servers: []string{"http://" + strings.TrimPrefix(address, "http://")}, Sale: sale})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(c.Close)
	return c
}

// sell does each thing that is counted: in the end two claims are sold, and two are held.
func (p *process) sell() {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	c, operator := p.client(p.url, "large"), p.client(p.admin, "large")
	claim := func(user, key string, want api.Outcome) string {
		a, _ := c.Claim(ctx, api.Request{User: user, Key: key, Quantity: 1})
		if a.Outcome != want {
			p.Fatalf("%s claims: %+v, want %s", user, a, want)
		}
		return a.Claim.ID
	}
	settle := func(c *api.Client, claim string, how api.How, s api.Settlement) {
		if a, err := c.Settle(ctx, claim, how, s); a.Outcome != how.Done() {
			p.Fatalf("%s: %+v, %v", how, a, err)
		}
	}
	settle(c, claim("ann", "1", api.Held), api.Confirm, api.Settlement{Payment: "p1"})
	settle(c, claim("ann", "2", api.Held), api.Extend, api.Settlement{})
	settle(c, claim("ann", "3", api.Held), api.Cancel, api.Settlement{})
	refunded := claim("bob", "1", api.Held)
	settle(c, refunded, api.Confirm, api.Settlement{Payment: "p2"})
	settle(operator, refunded, api.Refund, api.Settlement{})
	claim("carl", "1", api.Held)
	claim("eve", "1", api.NotEligible)
	r, err := http.Post(p.url+api.SalesPath+"large/webhooks/payment", "application/json", strings.NewReader("{}"))
	if err != nil {
		p.Fatal(err)
	}
	r.Body.Close()
	if a, err := p.client(p.url, "draw").Claim(ctx, api.Request{User: "ann", Key: "1", Quantity: 1}); a.Outcome != api.Entered {
		p.Fatalf("an entry: %+v, %v", a, err)
	}
	p.paid.Store(claim("dan", "1", api.Held), true)
	p.eventually("paid", func() error { // the payment service is queried at its time
		const series = `salectl_payment_settlements_total{how="confirm",outcome="sold",sale="large"}`
		if n := p.scrape().samples[series]; n != "1" {
			return fmt.Errorf("%s is %q", series, n)
		}
		return nil
	})
}

// scrape reads the metrics of a process.
func (p *process) scrape() *scraped {
	p.Helper()
	r, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		p.Fatal(err)
	}
	defer r.Body.Close()
	s := &scraped{samples: make(map[string]string)}
	if s.text, err = io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		p.Fatalf("GET /metrics: %s, %v", r.Status, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(s.text)); lines.Scan(); {
		if at := strings.LastIndexByte(lines.Text(), ' '); lines.Text()[0] != '#' {
			s.samples[lines.Text()[:at]] = lines.Text()[at+1:]
		}
	}
	return s
}
