package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/executor/rehearse"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/report/threshold"
	"salectl/spec"
)

// A rehearsal that was killed is removed by the next one, unless somebody still serves it or it has
// only just begun.
func TestRehearsalRemovesWhatAKilledOneLeft(t *testing.T) {
	path := applySale(t, "tickets")
	sales, _, err := spec.Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := backends.Open(sales[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := newCapture()
	const sale = "rehearsal-20261127"
	young := apply.CopyName("tickets")
	for _, name := range []string{young, sale} {
		c.leave(t, store, sales[0], name)
	}
	listed := func() string {
		t.Helper()
		c.out.Reset()
		if code := c.run([]string{"salectl", "list", "-f", path, "--json"}, nil); code != 0 {
			t.Errorf("list: exit code %d\n%s", code, &c.err)
		}
		var all []string
		for _, one := range strings.Split(c.out.String(), `"sale":"`)[1:] {
			all = append(all, one[:strings.IndexByte(one, '"')])
		}
		return strings.Join(all, " ")
	}
	if got := listed(); got != sale+" tickets" {
		t.Errorf("before the rehearsal, list has %q", got)
	}
	for _, old := range []bool{false, true} {
		age := time.Hour
		if old {
			age = 0
		}
		if err := apply.RemoveCopies(t.Context(), c.planning(store), "tickets", age); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{young: !old, sale: true, "tickets": true} {
			if got := exists(t, store.Logs, name); got != want {
				t.Errorf("of any age: %v: there is a log of %s: %v, want %v", old, name, got, want)
			}
		}
	}
	if code := c.run([]string{"salectl", "rehearse", "-f", path, "--users", "50", "--json"}, nil); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &c.err)
	}
	if got := listed(); got != sale+" tickets" {
		t.Errorf("after the rehearsal, list has %q", got)
	}
}

// leave does what a rehearsal does until it is killed.
func (c *capture) leave(t *testing.T, store *backends.Store, sale spec.Sale, name string) {
	t.Helper()
	sale.Name = name
	cfg := c.planning(store)
	actual, err := current.Read(t.Context(), cfg.Backends, sale.Name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Run(t.Context(), cfg, plan); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, logs ledger.Logs, sale string) bool {
	t.Helper()
	heads, err := logs.Heads(t.Context(), []string{spec.SaleLog(sale)})
	if err != nil {
		t.Fatal(err)
	}
	return heads[0] != nil
}

// Without its rules a draw is still a draw.
func TestDrawWithoutRules(t *testing.T) {
	sale := spec.Sale{
		Name: "trainers", Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 7}, Draw: &spec.Draw{},
		Users: &spec.Users{Table: new(spec.UsersTable)},
	}
	withoutRules(&sale)
	if sale.Users != nil || sale.Queue == nil || sale.Queue.Order != spec.OrderDraw || sale.Queue.Depth != 7 {
		t.Errorf("the copy has users %v and the queue %v", sale.Users, sale.Queue)
	}
}

// Every declared option that a rehearsal omits is named.
func TestNotTried(t *testing.T) {
	soon := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		declared spec.Sale
		change   func(*spec.Sale) // makes the copy
		want     string
	}{
		"nothing": {declared: spec.Sale{Stock: 10, PerUserLimit: 2, Partial: true, Payment: &spec.Payment{ExtendBy: 1}, Queue: &spec.Queue{Order: spec.OrderArrival}}},
		"rules of a table": {
			declared: spec.Sale{Rules: []spec.Rule{{Name: "members", Require: "user.known"}}, Users: &spec.Users{Table: new(spec.UsersTable)}},
			change:   withoutRules, want: "rules (an HBase table of users cannot be listed: declare them in a file)",
		},
		"codes":     {declared: spec.Sale{Units: new(spec.Units)}, change: func(s *spec.Sale) { s.Units = nil }, want: "payloads of units"},
		"one seat":  {declared: spec.Sale{PerUserLimit: 1, Units: &spec.Units{Choose: true}}, want: "adjacent units (a user may have only one)"},
		"two seats": {declared: spec.Sale{PerUserLimit: 2, Units: &spec.Units{Choose: true}}},
		"a draw":    {declared: spec.Sale{OpensAt: soon, ClosesAt: soon, Draw: new(spec.Draw)}, want: "opensAt"},
		"all besides": {declared: spec.Sale{PerUserLimit: 1000, OpensAt: soon, ClosesAt: soon, Engine: spec.EngineRedis, Payment: &spec.Payment{Check: new(spec.PaymentCheck), Webhook: new(spec.PaymentWebhook)}},
			want: "perUserLimit opensAt closesAt payment.check payment.webhook failures of Redis"},
	} {
		copied := c.declared
		if c.change != nil {
			c.change(&copied)
		}
		if got := strings.Join(notTried(c.declared, copied), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRehearsalView(t *testing.T) {
	sample := func() *rehearse.Report {
		return &rehearse.Report{
			Sale: "movie", Backend: "embedded", Users: 2000, Requests: 2403, Retries: 3,
			Outcomes:   map[string]int{"sold": 100, "replayed": 9, "limit_reached": 48, "sold_out": 2245, "http_500": 1},
			UnitsSold:  100,
			Timing:     rehearse.Timing{DurationSeconds: .112, ThroughputPerSecond: 21455.357, LatencyMs: rehearse.Latency{P50: 4.211, P99: 12.5, P999: 15.01, Max: 15.2}},
			Violations: []string{}, Audit: &audit.Report{OK: true, Sold: 100, Stock: 100, Users: 100},
		}
	}
	const outcomes = `Rehearsal of movie on embedded

  sold                 100
  replayed               9
  sold_out           2,245
  limit_reached         48
  http_500               1

  requests     2,403 from 2,000 buyers
  sent again   3
`
	const head = outcomes + `  throughput   21,455/s over 0.11 s
  latency      p50 4.21ms, p99 12.5ms, p99.9 15ms, max 15.2ms
`
	for name, c := range map[string]struct {
		change func(*rehearse.Report)
		want   string
		fails  bool
	}{
		"good": {func(*rehearse.Report) {}, head + `  buyers saw   100 units sold, none twice, nobody beyond the limit
  audit        ok: 100 of 100 units sold to 100 users; each in one place, nobody beyond the limit
`, false},
		"bad": {func(r *rehearse.Report) {
			r.Violations = []string{"unit 7 was sold twice", "and 3 more"}
			r.Audit = &audit.Report{Problems: []string{"one", "two"}}
			r.Thresholds = []threshold.Result{{Threshold: "sold==1", OK: true, Measured: 1}, {Threshold: "p99<1ms", Measured: 12.5, Unit: threshold.Duration}}
		}, head + `  buyers saw   BROKEN PROMISES
               - unit 7 was sold twice
               - and 3 more
  audit        2 problems
               - one
               - two
  thresholds   sold==1: ok, 1
               p99<1ms: FAILED, it is 12.5ms
`, true},
		"paid": {func(r *rehearse.Report) {
			r.Payment = &rehearse.Payment{
				Terms: spec.Payment{HoldFor: spec.Duration(time.Second), Late: spec.LateRefuse}, Held: 1200, Paid: 1000, Abandoned: 198, PaidLate: 2,
				LateSold: 1, LateRefundDue: 1, Unresolved: 1, RefundsDue: 1, Released: 199, SoldAgain: 198,
			}
			r.Money = &rehearse.Money{Currency: "CNY", Granted: "99.00", Total: "100.00"}
			r.Rules = &rehearse.Rules{Users: 3, Refused: map[string]int{"members": 1, "adults": 1200}}
			r.Audit = nil
		}, outcomes + `  took         0.11 s, most of it until holds were over
  latency      p50 4.21ms, p99 12.5ms, p99.9 15ms, max 15.2ms
  terms        holdFor 1s, grace 0s, late refuse
  held         1,200 claims: 1,000 paid in time, 198 abandoned, 0 cancelled, 2 paid late, 1 with an unknown outcome
  paid late    1 sold after all, 1 owed back
  of the sold  0 extended, 0 paid twice by different payments, 0 refunded
  refunds due  1 payment
  returned     199 units, 198 of them sold again
  rules        1,200 refused by adults, 1 refused by members; buyers have the names of 3 users
  buyers saw   100 units sold, none twice, nobody beyond the limit, 99.00 of 100.00 CNY
`, false},
		"draw": {func(r *rehearse.Report) {
			r.Draw = &rehearse.Draw{Entries: 1000, Users: 1000, EnterSeconds: 1.5, Ranks: 200, Winners: 100, Told: map[string]int{"sold": 100, "entered": 20, "not_drawn": 880}}
			r.NotTried = []string{"rules", "opensAt"}
			r.Audit = nil
		}, head + `  entries      1,000 of 1,000 users, in 1.50 s; 0 refused for a second one, 0 repeated with the same answer
  reveal       took 0.00 s; 200 ranks
  winners      100, the last answered 0.00 s after the reveal
  substitutes  none followed; 0 awards lapsed
  results      20 entered, 100 sold, 880 not_drawn
  buyers saw   100 units sold, none twice, nobody beyond the limit
  not tried    rules, opensAt
`, false},
		"choice": {func(r *rehearse.Report) {
			r.Choice = &rehearse.Choice{Named: rehearse.Chosen{Requests: 1500, Got: 400, Refused: 1000}}
			r.Audit = nil
		}, head + `  choice       1,500 requests named units: 400 got them, 1,000 received units_taken
  buyers saw   100 units sold, none twice, nobody beyond the limit
`, false},
		"choice of pairs": {func(r *rehearse.Report) {
			r.Choice = &rehearse.Choice{
				Named:    rehearse.Chosen{Requests: 1500, Got: 400, Refused: 1000},
				Adjacent: rehearse.Chosen{Requests: 1, Refused: 1},
			}
			r.Audit = nil
		}, head + `  choice       1,500 requests named units: 400 got them, 1,000 received units_taken
  adjacent     1 request for two units: 0 got them, 1 received not_adjacent
  buyers saw   100 units sold, none twice, nobody beyond the limit
`, false},
	} {
		r, p := sample(), newCapture()
		c.change(r)
		if p.view("rehearsal", r); p.out.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, p.out.String(), c.want)
		}
		if err := r.Verdict(); errors.Is(err, rehearse.ErrViolated) != c.fails {
			t.Errorf("%s: verdict %v", name, err)
		}
	}
}
