package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
)

// troubled is a sale of which much is away.
func troubled(owner string) *current.Status {
	return &current.Status{
		Brief: current.Brief{SaleSummary: api.SaleSummary{
			Sale: "tickets", UID: "0123456789abcdef", Generation: 2, Phase: "open", Stock: 60, Sold: 20, Available: 40,
			OpensAt: time.Date(2020, 11, 11, 12, 0, 0, 0, time.UTC),
		}, Run: 1},
		Applied: 2, Owner: owner,
		Payment: &spec.Payment{HoldFor: spec.Duration(10 * time.Minute), ExtendBy: spec.Duration(90 * time.Second), Late: "refuse"},
		Shards: []current.ShardStatus{
			{Shard: 0, Owner: owner, LeaseLeftSeconds: 2.5, Slot: 7, Totals: ledger.Totals{Generation: 2, Phase: ledger.PhaseOpen, Limit: 30, Available: 20, Sold: 10}},
			{Shard: 1, Error: "region server rs1:16020 does not answer"},
			{Shard: 2, Owner: owner, LeaseLeftSeconds: 2.5, Slot: 9, Totals: ledger.Totals{Generation: 2, Phase: ledger.PhaseOpen, Limit: 30, Available: 20, Sold: 10}},
		},
		Nodes: []current.NodeStatus{
			{Node: api.Node{Name: "a:1", Up: true}, Leases: 3, ClockOffSeconds: 1.25},
			{Node: api.Node{Name: "b:1", Error: "connection refused"}},
			{Node: api.Node{Name: "c:1", Up: true, VotesFrom: time.Date(2026, 11, 11, 12, 0, 10, 123e6, time.UTC)}},
		},
		Voting: 1, Majority: 2,
		Warnings: []string{"1 of 3 shards cannot be read (1): their users cannot buy, and the totals exclude them"},
	}
}

// answering is a server that says one thing about every sale.
func answering(t *testing.T, status int, body string) (address string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/sales/tickets":
			t.Errorf("asked for %s", r.URL.Path)
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

const toldAnswer = `{"sale":"tickets","phase":"open",
	"nodes":[{"name":"a:1","up":true,"since":"2026-11-11T11:00:00Z"},{"name":"b:1","up":false,"since":"2026-11-11T11:58:03.5Z","error":"refused"},
		{"name":"z:1","up":false}],
	"shards":[{"shard":2,"state":"stalled","since":"2026-11-11T11:59:00Z","error":"no answer"},{"shard":9,"state":"unknown"}]}`

func TestStatusView(t *testing.T) {
	address := answering(t, http.StatusOK, toldAnswer)
	s := troubled(address)
	view := &saleStatus{Status: s}
	queryServer(t.Context(), view, statusClient{token: "secret"})
	c := newCapture()
	c.statusText(view, false)
	want := strings.ReplaceAll(`tickets: open, generation 2, run 1, 0123456789abcdef
  20 of 60 units sold, 40 available
  opened at 2020-11-11T12:00:00Z
  claims are held for payment: holdFor 10m, grace 0s, extendBy 90s, late refuse
  served at SERVER
  ! 1 of 3 shards cannot be read (1): their users cannot buy, and the totals exclude them

  shard  owner   lease  slot  generation  limit  available  held  sold
      0  SERVER  2.5 s     7           2     30         20     0    10
      1  -           -     -           -      -          -     -     -  region server rs1:16020 does not answer
      2  SERVER  2.5 s     9           2     30         20     0    10  stalls since 2026-11-11T11:59:00Z: no answer

  lock node  leases  clock off  state
  a:1             3    +1.25 s  up
  b:1             -          -  down since 2026-11-11T11:58:03Z: connection refused
  c:1             0          -  abstains until 2026-11-11T12:00:10Z: it was restarted or lost its memory
`, "SERVER", address)
	if got := squeeze(c.out.String()); got != squeeze(want) {
		t.Errorf("it says\n%s\nwant\n%s", got, squeeze(want))
	}
	var asJSON current.Status
	c = newCapture()
	c.emit(s)
	if err := json.Unmarshal(c.out.Bytes(), &asJSON); err != nil || planner.TimeText(asJSON.Nodes[1].Server.Since) != "2026-11-11T11:58:03.5Z" ||
		asJSON.Shards[2].Server.Error != "no answer" || asJSON.Server.Address != address || asJSON.Majority != 2 {
		t.Errorf("%v: %s", err, &c.out)
	}
}

// squeeze makes columns of any width alike: how wide they are depends on a port.
func squeeze(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// Whatever the server says or does not, there is a status.
func TestServerThatTellsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		status      int
		body, token string
		want        string
	}{
		"no token":      {200, toldAnswer, "", "the bearer token is missing: name its file with --token-file"},
		"a wrong token": {200, toldAnswer, "guess", "the bearer token is wrong: check the file that --token-file names"},
		"a standby":     {503, `{"outcome":"standby","detail":"Another server has the sale at the moment."}`, "secret", "standby: Another server has the sale at the moment."},
		"no owner of a shard": {503, fmt.Sprintf(`{"outcome":"standby","detail":%q}`, api.Standby.Row().Detail), "secret",
			"standby: it reaches no owner of some shards"},
		"no JSON":        {200, "hello", "secret", "it answers 200 OK, which is not a response of salectl serve"},
		"another sale":   {200, `{"sale":"other"}`, "secret", "it answers 200 OK, which is not a response of salectl serve"},
		"somewhere else": {302, `{}`, "secret", "it answers 302 Found, which is not a response of salectl serve"},
	} {
		t.Run(name, func(t *testing.T) {
			s := troubled(answering(t, test.status, test.body))
			queryServer(t.Context(), &saleStatus{Status: s}, statusClient{token: test.token})
			if s.Server.Error != test.want || s.Nodes[1].Server != nil {
				t.Errorf("server: %+v", s.Server)
			}
			if got := served(&saleStatus{Status: s}); !strings.HasSuffix(got, "; "+s.Server.Address+" does not report the state of the sale: "+test.want) {
				t.Errorf("it says %q", got)
			}
			if got := nodeState(s.Nodes[1]); got != "down now: connection refused" {
				t.Errorf("the node is %q", got)
			}
		})
	}
	claims := answering(t, http.StatusOK, `{"sale":"tickets","phase":"open"}`)
	for token, want := range map[string]string{"": "the bearer token is missing", "secret": "the bearer token lacks the right operate"} {
		s := troubled("o:1")
		queryServer(t.Context(), &saleStatus{Status: s}, statusClient{admin: &url.URL{Scheme: "http", Host: claims}, token: token})
		if got := s.Server.Error; s.Server.Address != claims || !strings.HasPrefix(got, want) || !strings.HasSuffix(got, adminHint) {
			t.Errorf("asked with --admin where claims go: %+v", s.Server)
		}
	}
	gone := troubled("127.0.0.1:1")
	queryServer(t.Context(), &saleStatus{Status: gone}, statusClient{})
	if gone.Server.Error != "connection refused" {
		t.Errorf("nobody there: %+v", gone.Server)
	}
}

// Where no majority names the owner, the last one is asked.
func TestWhoServes(t *testing.T) {
	answers, silent := &current.ServerStatus{Address: "h:1"}, &current.ServerStatus{Address: "h:1", Error: "connection refused"}
	for name, test := range map[string]struct {
		owner  string
		server *current.ServerStatus
		down   int
		want   string
	}{
		"an owner":                          {"h:1", answers, 0, "served at h:1"},
		"an owner that is silent":           {"h:1", silent, 0, "served at h:1; h:1 does not report the state of the sale: connection refused"},
		"another is asked, and silent":      {"o:1", silent, 0, "served at o:1; h:1 does not report the state of the sale: connection refused"},
		"nobody":                            {"", nil, 0, "no process serves it"},
		"the last one has gone":             {"", silent, 1, "no process serves it"},
		"the last one answers":              {"", answers, 2, "no majority of the lock nodes names a server; h:1 answers"},
		"a warning says that we don't know": {"", silent, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := troubled(test.owner)
			s.Server, s.Unserved = test.server, test.owner == "" && 2*test.down < len(s.Nodes)
			if got := served(&saleStatus{Status: s}); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
	s := troubled("")
	s.Server = answers
	several := &saleStatus{Status: s, Processes: []api.Process{{Address: "h:1", Self: true, Up: true}, {Address: "o:1", Up: true}, {Address: "gone:1"}}}
	if got, want := served(several), "no majority of the lock nodes names a server; h:1 answers, and reaches 2 of 3 processes"; got != want {
		t.Errorf("of several it says %q, want %q", got, want)
	}
	s.Unserved = true // of the first shard, for now
	if got, want := served(several), "served by 2 processes"; got != want {
		t.Errorf("of several it says %q, want %q", got, want)
	}
	s = troubled("")
	s.Shards[2].Owner = "last:1"
	if got := serversOf(s); !slices.Equal(got, []string{"last:1"}) {
		t.Errorf("asked are %q", got)
	}
	s = troubled("")
	s.Shards[2].Owner, s.Shards[2].LeaseLeftSeconds, s.Shards[0].Owner, s.Shards[0].LeaseLeftSeconds = "b:1", 1, "gone:1", 0
	if got := serversOf(s); !slices.Equal(got, []string{"b:1"}) {
		t.Errorf("asked are %q", got)
	}
}

func TestNodeStates(t *testing.T) {
	const at = "2026-11-11T12:00:00.5Z"
	since, _ := time.Parse(time.RFC3339, at)
	for want, n := range map[string]current.NodeStatus{
		"up":                  {Node: api.Node{Up: true}},
		"down now: no answer": {Node: api.Node{Error: "no answer"}},
		"down since 2026-11-11T12:00:00Z: no answer": {Node: api.Node{Error: "no answer"}, Server: &api.Node{Since: since}},
		"down from here: no answer; the server reaches it": {
			Node: api.Node{Error: "no answer"}, Server: &api.Node{Up: true, Since: since}},
		"up from here; the server does not reach it since 2026-11-11T12:00:00Z: refused": {
			Node: api.Node{Up: true}, Server: &api.Node{Since: since, Error: "refused"}},
		"up, but misconfigured: It evicts.":                                        {Node: api.Node{Up: true}, Unfit: "It evicts."},
		"up, but without the sale's marker: it will abstain before it votes":       {Node: api.Node{Up: true}, Unmarked: true},
		"abstains until 2026-11-11T12:00:00Z: it was restarted or lost its memory": {Node: api.Node{Up: true, VotesFrom: since}},
	} {
		if got := nodeState(n); got != want {
			t.Errorf("%+v: %q, want %q", n, got, want)
		}
	}
}

// A plan of a sale on servers says where it is, and what is away.
func TestPlanView(t *testing.T) {
	plan := &planner.Plan{
		Kind: planner.KindApply, Sale: "tickets", Generation: 1,
		Actions: []planner.Action{
			{Address: "table/sales", Action: planner.Create, After: &planner.Attributes{}, Reason: "it does not exist"},
			{Address: "sale/tickets", Action: planner.Create, Reason: "it does not exist", After: &planner.Attributes{
				Sale: &spec.Sale{Run: 1, Stock: 10, HBase: &spec.HBase{Zookeeper: []string{"z:2181"}, ZookeeperRoot: "/hbase", Table: "sales"},
					Redis: &spec.Redis{Nodes: []string{"a:1", "b:1", "c:1"}, PasswordEnv: "REDIS_PASSWORD", TLS: true}}}},
			{Address: "node/a:1", Action: planner.Create, After: &planner.Attributes{Marker: "good"}, Reason: "a lock node, which votes on the owners of shards"},
		},
		Summary:  planner.Summary{Create: 3},
		Warnings: []string{"lock node b:1 cannot be used: connection refused"},
	}
	c := newCapture()
	c.planText(spec.Sale{File: "sale.yaml:1"}, plan, false)
	want := `tickets (sale.yaml:1)

  + table/sales  # it does not exist
  + sale/tickets
      run                  1
      stock                10
      redis.nodes          a:1, b:1, c:1
      redis.passwordEnv    REDIS_PASSWORD
      redis.tls            true
      hbase.zookeeper      z:2181
      hbase.zookeeperRoot  /hbase
      hbase.table          sales
      ledger               the HBase table sales
  + node/a:1      marker good  # a lock node, which votes on the owners of shards

  ! lock node b:1 cannot be used: connection refused

Plan: 3 to create, 0 to update, 0 to delete.
  + create  ~ update  - delete
`
	if got := c.out.String(); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	c = newCapture()
	c.planText(spec.Sale{}, &planner.Plan{Kind: planner.KindApply, Sale: "tickets", Phase: "open", Generation: 1, Warnings: plan.Warnings}, false)
	if want := "No changes. tickets is as its file declares it: generation 1, open.\n  ! lock node b:1 cannot be used: connection refused\n"; c.out.String() != want {
		t.Errorf("it says\n%s", &c.out)
	}
}

// What is long, such as a rule, has a line of its own even where little changes.
func TestPlanViewOfLongAttributes(t *testing.T) {
	rule := func(require string) *planner.Attributes {
		return &planner.Attributes{Sale: &spec.Sale{Rules: []spec.Rule{{Name: "a", Enforce: spec.EnforceDeny, Require: require}}}}
	}
	for _, test := range []struct{ before, after, want string }{
		{"user.known", "true", "  ~ sale/tickets  rules[a].require user.known -> true\n"},
		{"user.level in ['gold', 'silver'] && user.known", "user.level == 'gold'",
			"  ~ sale/tickets\n      rules[a].require  user.level in ['gold', 'silver'] && user.known -> user.level == 'gold'\n"},
	} {
		c := newCapture()
		c.planText(spec.Sale{}, &planner.Plan{Sale: "tickets", Actions: []planner.Action{
			{Address: "sale/tickets", Action: planner.Update, Before: rule(test.before), After: rule(test.after)}}}, false)
		if got := c.out.String(); !strings.Contains(got, test.want) {
			t.Errorf("it says\n%s\nwant\n%s", got, test.want)
		}
	}
}

// An apply that could not reach a lock node has an answer, and an error.
func TestApplyViewOfWhatIsLeft(t *testing.T) {
	result := &apply.Result{Sale: "tickets", Generation: 1, Changed: true, Summary: planner.Summary{Create: 6}, Unmarked: []string{"b:1"}}
	plan := &planner.Plan{Sale: "tickets", Summary: planner.Summary{Create: 7}, Warnings: []string{"lock node b:1 cannot be used"}}
	c := newCapture()
	c.applied(plan, result, true, nil)
	want := `{"formatVersion":1,"sale":"tickets","uid":"","generation":1,"changed":true,"summary":{"create":6,"update":0,"delete":0},` +
		`"shortfall":0,"unmarked":["b:1"],"warnings":["lock node b:1 cannot be used"]}` + "\n"
	if got := c.out.String(); got != want {
		t.Errorf("it says %s", got)
	}
	result.Changed = false
	if got := c.appliedText(plan, result); got != "" {
		t.Errorf("it says %q, where nothing was done and not all is", got)
	}
}

// An error of the ledger's store names where that is.
func TestStoreErrorsNameThePlace(t *testing.T) {
	store, err := backends.Open(spec.Sale{
		Name: "tickets", Redis: &spec.Redis{Nodes: []string{"127.0.0.1:1"}},
		HBase: &spec.HBase{Table: "sales", ZookeeperRoot: "/hbase", Zookeeper: []string{"z1:2181", "z2:2181"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	cause := fmt.Errorf("sale tickets: %w: no answer", planner.ErrStore)
	what, remedy := split(withRemedy(store, cause))
	if what != cause.Error() || !strings.Contains(remedy, "HBase table sales") || !strings.Contains(remedy, "z1:2181, z2:2181") {
		t.Errorf("%q, %q", what, remedy)
	}
	denied := fmt.Errorf("%w: %w", cause, fs.ErrPermission)
	if what, remedy := split(withRemedy(store, denied)); what != denied.Error() || remedy != "" {
		t.Errorf("what does not permit it is up, and has said more: %q, %q", what, remedy)
	}
	if _, remedy := split(withRemedy(new(backends.Store), cause)); remedy != "" {
		t.Errorf("files have no servers: %q", remedy)
	}
}

// The token is read before anybody is asked.
func TestStatusTokenFile(t *testing.T) {
	path := applySale(t, "tickets")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCapture()
	if code := c.run([]string{"salectl", "status", "-f", path, "--token-file", token}, nil); code != 1 || c.out.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, &c.out, &c.err)
	}
}

// TestPaymentCheckView says about how many claims the payment service is asked, and since
// when that leads to nothing.
func TestPaymentCheckView(t *testing.T) {
	noon := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for want, c := range map[string]*api.PaymentCheck{
		"the payment service is queried for 1 claim": {Watched: 1},
		"the payment service is queried for 3,000 claims; since 2026-11-11T12:00:00Z no payment could be checked: it answers 502 Bad Gateway": {Watched: 3000, FailingSince: noon, Error: "it answers 502 Bad Gateway"},
	} {
		p := newCapture()
		if p.view("payment check", c); p.out.String() != want {
			t.Errorf("%+v: %q, want %q", c, p.out.String(), want)
		}
	}
}

// TestHoldsView says how many claims are held and when the next is released.
func TestHoldsView(t *testing.T) {
	noon := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for want, h := range map[string]*api.Holds{
		"1 hold open, the next is released at 2026-11-11T12:00:00Z; 3 paid, 0 expired, 0 cancelled, 0 refunded, 0 paid late and sold":   {Open: 1, NextRelease: noon, Confirmed: 3},
		"0 holds open; 3,000 paid, 1 expired, 2 cancelled, 4 refunded, 5 paid late and sold; 6 payments must be paid back, 1 paid back": {Confirmed: 3000, Expired: 1, Cancelled: 2, Refunded: 4, Resold: 5, RefundsDue: 7, Returned: 1},
	} {
		p := newCapture()
		if p.view("holds", h); p.out.String() != want {
			t.Errorf("%+v: %q, want %q", h, p.out.String(), want)
		}
	}
}

// TestHealth tells a sale that sells from one that cannot, and from one that need not.
func TestHealth(t *testing.T) {
	stalls := &api.Shard{State: api.ShardStalled, Error: "no answer"}
	for name, test := range map[string]struct {
		change  func(*current.Status)
		phase   string // "": open
		state   healthState
		reasons []string
	}{
		"all is well":            {change: func(*current.Status) {}, state: healthOK},
		"paused":                 {change: func(s *current.Status) { s.Phase, s.Shards[0].LeaseLeftSeconds = ledger.PhasePaused, 0 }, phase: ledger.PhasePaused, state: healthOK},
		"scheduled and unserved": {change: func(s *current.Status) { s.Phase = ledger.PhaseScheduled; unserve(s, 0, 1) }, phase: ledger.PhaseScheduled, state: healthOK},
		"unserved":               {change: func(s *current.Status) { unserve(s, 0, 1) }, state: healthDown, reasons: []string{"no process serves it"}},
		"a shard without owner":  {change: func(s *current.Status) { unserve(s, 1) }, state: healthDegraded, reasons: []string{"1 of 2 shards have no owner that a majority of the lock nodes names"}},
		"a shard stalls":         {change: func(s *current.Status) { s.Shards[1].Server = stalls }, state: healthDegraded, reasons: []string{"1 of 2 shards cannot be written"}},
		"one stalls, nobody has the other": {
			change: func(s *current.Status) { unserve(s, 1); s.Shards[0].Server = stalls }, state: healthDown,
			reasons: []string{"1 of 2 shards have no owner that a majority of the lock nodes names", "1 of 2 shards cannot be written"},
		},
		"a server that does not tell": {
			change: func(s *current.Status) {
				s.Server = &current.ServerStatus{Address: "here:1", Error: "no answer within 1s"}
			},
			state: healthDegraded, reasons: []string{"the process at here:1 does not report the state of the sale: no answer within 1s"},
		},
		"a node that the server does not reach": {
			change: func(s *current.Status) { s.Nodes[0].Server = &api.Node{Error: "refused"} },
			state:  healthDegraded, reasons: []string{"lock node embedded is not reached by the serving process: refused"},
		},
		"all shards stall": {
			change: func(s *current.Status) { s.Shards[0].Server, s.Shards[1].Server = stalls, stalls },
			phase:  ledger.PhaseStalled, state: healthDown, reasons: []string{"2 of 2 shards cannot be written"},
		},
		"no majority": {
			change: func(s *current.Status) {
				s.Phase, s.Warnings = ledger.PhaseStalled, []string{"only 1 of 3 lock nodes votes"}
			},
			phase: ledger.PhaseStalled, state: healthDown, reasons: []string{"only 1 of 3 lock nodes votes"},
		},
		"a warning": {change: func(s *current.Status) { s.Warnings = []string{"w"} }, state: healthDegraded, reasons: []string{"w"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &current.Status{
				Brief: current.Brief{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}}, Owner: "here:1", Voting: 1, Majority: 1, Nodes: []current.NodeStatus{{Node: api.Node{Name: "embedded", Up: true}}},
				Shards: []current.ShardStatus{{Shard: 0, Owner: "here:1", LeaseLeftSeconds: 2}, {Shard: 1, Owner: "here:1", LeaseLeftSeconds: 2}},
			}
			test.change(s)
			view := &saleStatus{Status: s}
			view.judge()
			if want := cmp.Or(test.phase, ledger.PhaseOpen); view.Phase != want {
				t.Errorf("the sale is %s, want %s", view.Phase, want)
			}
			if view.Health.State != test.state || !slices.Equal(view.Health.Reasons, test.reasons) {
				t.Errorf("its health is %+v, want %s %q", view.Health, test.state, test.reasons)
			}
		})
	}
}

// unserve takes shards from whoever owns them.
func unserve(s *current.Status, shards ...int) {
	for _, i := range shards {
		s.Shards[i].LeaseLeftSeconds = 0
	}
	if len(shards) == len(s.Shards) {
		s.Owner, s.Unserved = "", true
	}
}
