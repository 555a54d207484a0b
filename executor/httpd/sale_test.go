package httpd

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/draw"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/httpd/wire"
	"salectl/executor/shard"
	"salectl/executor/status"
)

func TestGetSale(t *testing.T) {
	status := executor.Status{
		SaleSummary: api.SaleSummary{UID: "5a1e", Sale: "movie", Generation: 4, Phase: "open", OpensAt: noon.Add(-time.Hour)}, Sells: true, PerUser: 2,
		Shards: []executor.ShardStatus{
			{Report: shard.Report{Totals: ledger.Totals{Limit: 20, Available: 11, Held: 1, Sold: 5, InFlight: 3}}},
			{Report: shard.Report{Shard: 1, Totals: ledger.Totals{Limit: 20, Available: 20}}, Stall: &executor.Stall{Since: noon.Add(-time.Second), Error: "too slow"}},
		},
		Nodes: []executor.NodeStatus{
			{Node: api.Node{Name: "a:1", Up: true, Since: noon.Add(-time.Hour)}},
			{Node: api.Node{Name: "b:1", Since: noon.Add(-time.Minute), Error: "connection refused"}},
			{Node: api.Node{Name: "c:1", Up: true, Since: noon, VotesFrom: noon.Add(10 * time.Second)}},
		},
		Problems: []status.Problem{
			{Kind: status.NodeDown, Where: "b:1", Since: noon.Add(-time.Minute), Why: "connection refused"},
			{Kind: status.PeerUnreached, Where: "x:1"}, {Kind: status.ShardLogBroken, Shards: []int{0, 1, 2, 7}, Why: "gone"},
		},
	}
	s := New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{Name: "movie", StatusFunc: func() executor.Status { return status }}}})
	const want = `{"sale":"movie","uid":"5a1e","generation":4,"phase":"open","soldOut":false,"stock":40,"available":31,"held":1,"sold":5,"inFlight":3,` +
		`"opensAt":"2026-11-11T11:00:00Z","perUserLimit":2,"serverTime":"2026-11-11T12:00:00Z",` +
		`"nodes":[{"name":"a:1","up":true,"since":"2026-11-11T11:00:00Z"},` +
		`{"name":"b:1","up":false,"since":"2026-11-11T11:59:00Z","error":"connection refused"},` +
		`{"name":"c:1","up":true,"since":"2026-11-11T12:00:00Z","votesFrom":"2026-11-11T12:00:10Z"}],` +
		`"shards":[{"shard":0,"state":"selling","available":11,"held":1,"sold":5},` +
		`{"shard":1,"state":"stalled","available":20,"since":"2026-11-11T11:59:59Z","error":"too slow"}],` +
		`"problems":[{"kind":"node_down","level":"warn","subject":"node","where":"b:1","since":"2026-11-11T11:59:00Z","message":"a lock node cannot be used","error":"connection refused"},` +
		`{"kind":"peer_unreached","level":"warn","subject":"peer","where":"x:1","message":"another process of the sale is not reached: it has died, or the network to it is cut",` +
		`"remedy":"if it runs, check its --advertise and --token-file, and the network"},` +
		`{"kind":"shard_log_broken","level":"error","subject":"shards","where":"0-2,7","message":"a shard's log is gone or damaged: its units are not sold, and its users' claims are not decided",` +
		`"error":"gone","remedy":"run 'salectl plan' and 'salectl audit'; do not stop this process: it has the length that the log had"}]}`
	r := do(s.Admin(), http.MethodGet, "/v1/sales/movie", "", nil)
	if got := text(t, r); r.StatusCode != 200 || got != want {
		t.Errorf("%d %s\nwant 200 %s", r.StatusCode, got, want)
	}
	// Buyers have no business with addresses of lock nodes, or with errors that have some in them.
	without := secrets.ReplaceAllString(want, "")
	if got := text(t, do(s, http.MethodGet, "/v1/sales/movie", "", nil)); got != without {
		t.Errorf("where claims go: %s\nwant %s", got, without)
	}
	status.Shards[0].Paid, status.Shards[0].Outcomes = true, ledger.Outcomes{OpenHolds: 2, Confirmed: 3, Expired: 1, RefundsDue: 1}
	status.Shards[0].Release = noon.Add(time.Minute)
	status.Shards[1].Paid, status.Shards[1].Outcomes = true, ledger.Outcomes{OpenHolds: 1, Cancelled: 4, Refunded: 5, Resold: 6}
	status.Shards[1].Release = noon.Add(time.Second)
	const holds = `"holds":{"open":3,"nextRelease":"2026-11-11T12:00:01Z","confirmed":3,"expired":1,"cancelled":4,"refunded":5,"resold":6,"refundsDue":1,"returned":0}`
	if got := text(t, do(s, http.MethodGet, "/v1/sales/movie", "", nil)); !strings.Contains(got, holds) {
		t.Errorf("holds are told otherwise: %s", got)
	}
	status.Partial = true
	if got := text(t, do(s, http.MethodGet, "/v1/sales/movie", "", nil)); !strings.Contains(got, `"perUserLimit":2,"partial":true,`) {
		t.Errorf("that claims may get a part is not told: %s", got)
	}
	status.ClosesAt = noon
	if got := text(t, do(s, http.MethodGet, "/v1/sales/movie", "", nil)); !strings.Contains(got, `"closesAt":"2026-11-11T12:00:00Z"`) {
		t.Errorf("closesAt is not told: %s", got)
	}
}

// A process that cannot tell how a sale stands says why; who may operate is told besides what it
// knows of who serves the sale, as of one that it can tell of, and buyers are told nothing more.
func TestGetSaleThatIsAway(t *testing.T) {
	status := executor.Status{
		SaleSummary: api.SaleSummary{Sale: "movie", Outcome: api.Standby},
		Nodes:       []executor.NodeStatus{{Node: api.Node{Name: "a:1", Since: noon, Error: "connection refused"}}},
		Shards: []executor.ShardStatus{
			{Report: shard.Report{Shard: 0, Totals: ledger.Totals{Owner: "x:1"}}, Stall: &executor.Stall{Since: noon, Error: "too slow"}}, {Report: shard.Report{Shard: 1}, Unknown: true},
		},
		Processes: []api.Process{{Address: "x:1", State: "serving", Self: true, Up: true, Shards: new(1), Assigned: 1, ID: "a1", Admin: "x:9"}, {Address: "y:1", State: "serving", Assigned: 1, ID: "b2"}},
		Moves:     []api.Move{{Shard: 2, To: "x:1", Stage: api.MoveTakes}},

		Problems: []status.Problem{{Kind: status.Payloads, Why: "no such table"}},
	}
	s := New(Config{
		Clock: atNoon, Tokens: tokensOf(t, "shop claim\nops operate\n"),
		Sales: []executor.Service{&httpdtest.Fake{Name: "movie", StatusFunc: func() executor.Status { return status }}},
	})
	document := func(o api.Outcome, more string) string {
		p := wire.ProblemOf(o)
		return strings.TrimSuffix(string(p.Append(nil)), "}") + more + "}"
	}
	const known = `,"known":{"nodes":[{"name":"a:1","up":false,"since":"2026-11-11T12:00:00Z","error":"connection refused"}],` +
		`"shards":[{"shard":0,"state":"stalled","owner":"x:1","since":"2026-11-11T12:00:00Z","error":"too slow"},{"shard":1,"state":"unknown"}],` +
		`"processes":[{"address":"x:1","state":"serving","here":true,"up":true,"shards":1,"assigned":1,"id":"a1","admin":"x:9"},{"address":"y:1","state":"serving","up":false,"assigned":1,"id":"b2"}],` +
		`"moves":[{"shard":2,"to":"x:1","stage":"takes"}],` +
		`"problems":[{"kind":"payloads_unread","level":"warn","message":"payloads of units cannot be read: claims are sold, but buyers must repeat the request to get their payloads","error":"no such table"}]}`
	for name, c := range map[string]struct {
		at    http.Handler
		token string
		away  api.Outcome
		more  string
	}{
		"a buyer":                   {s, "shop", api.Standby, ""},
		"an operator":               {s, "ops", api.Standby, secrets.ReplaceAllString(known, "")},
		"the admin address":         {s.Admin(), "", api.NoQuorum, known},
		"one that is over for good": {s.Admin(), "", api.NoSuchSale, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status.Outcome = c.away
			r := do(c.at, http.MethodGet, "/v1/sales/movie", "", http.Header{"Authorization": {"Bearer " + c.token}})
			row := c.away.Row()
			retry := ""
			if row.RetryAfter > 0 {
				retry = "1"
			}
			if got, want := text(t, r), document(c.away, c.more); r.StatusCode != row.Status || got != want ||
				r.Header.Get("Content-Type") != api.TypeProblem || r.Header.Get("Retry-After") != retry {
				t.Errorf("%d %v %s\nwant %d %s", r.StatusCode, r.Header, got, row.Status, want)
			}
		})
	}
}

// secrets are told at the admin address alone.
var secrets = regexp.MustCompile(`"(?:name|where)":"[a-c]:1",|,"error":"[^"]*"`)

// A sale is to people what it does at the time: an open one is scheduled before its hours and
// has ended after them, and stalled while no shard can be written.
func TestPhase(t *testing.T) {
	stalls := &executor.Stall{Since: noon, Error: "too slow"}
	for name, c := range map[string]struct {
		status executor.Status
		want   string
	}{
		"open":                {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}, Sells: true}, `"phase":"open","soldOut":false`},
		"opens in a second":   {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen, OpensAt: noon.Add(time.Second)}, Sells: true}, `"phase":"scheduled"`},
		"opens now":           {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen, OpensAt: noon}, Sells: true}, `"phase":"open"`},
		"closes in a second":  {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen, ClosesAt: noon.Add(time.Second)}, Sells: true}, `"phase":"open"`},
		"closes now":          {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen, ClosesAt: noon}, Sells: true}, `"phase":"ended"`},
		"paused and ended":    {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhasePaused, ClosesAt: noon}, Sells: true}, `"phase":"ended"`},
		"paused before hours": {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhasePaused, OpensAt: noon.Add(time.Second)}, Sells: true}, `"phase":"paused"`},
		"closed before hours": {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseClosed, OpensAt: noon.Add(time.Second)}, Sells: true}, `"phase":"closed"`},
		"one shard stalls":    {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}, Sells: true, Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1}}}, {Report: shard.Report{Totals: ledger.Totals{Limit: 1}}, Stall: stalls}}}, `"phase":"open"`},
		"nobody may write":    {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}}, `"phase":"stalled"`},
		"paused, and cannot":  {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhasePaused}}, `"phase":"paused"`},
		"all shards stall":    {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}, Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1}}, Stall: stalls}}}, `"phase":"stalled"`},
		"sold out":            {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}, Sells: true, Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1}}}, {Report: shard.Report{Totals: ledger.Totals{Limit: 1, Sold: 2}}}}}, `"phase":"open","soldOut":true`},
		"on its way":          {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen}, Sells: true, Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 2, Sold: 1, InFlight: 1}}}}}, `"phase":"open","soldOut":false`},
		"a draw":              {executor.Status{SaleSummary: api.SaleSummary{Phase: ledger.PhaseOpen, Draw: &draw.Status{}}, Sells: true, Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1, Sold: 1}}}}}, `"soldOut":false`},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.status.Shards) == 0 {
				c.status.Shards = []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1, Available: 1}}}}
			}
			s := New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{Name: "movie", StatusFunc: func() executor.Status { return c.status }}}})
			if got := text(t, do(s, http.MethodGet, "/v1/sales/movie", "", nil)); !strings.Contains(got, c.want) {
				t.Errorf("%s lacks %s", got, c.want)
			}
		})
	}
}

func TestGetUser(t *testing.T) {
	for name, c := range map[string]struct {
		path, user string // "": the executor is not asked
		outcome    api.Outcome
		claims     []executor.Claim
		status     int
		body       string // what it ends with
	}{
		"two claims": {path: "u-1", user: "u-1", claims: []executor.Claim{firstClaim, firstClaim}, status: 200,
			body: `{"sale":"movie","user":"u-1","claims":[` + firstClaimBody + `,` + firstClaimBody + `]}`},
		"none":          {path: "u-1", user: "u-1", status: 200, body: `{"sale":"movie","user":"u-1","claims":[]}`},
		"escaped":       {path: "a%2Fb%20c%3F%E7%94%A8", user: "a/b c?用", status: 200, body: `"claims":[]}`},
		"a dot":         {path: ".", user: ".", status: 200, body: `"user":".","claims":[]}`},
		"two dots":      {path: "..", user: "..", status: 200, body: `"user":"..","claims":[]}`},
		"cannot tell":   {path: "u-1", user: "u-1", outcome: api.Standby, status: 503, body: `"outcome":"standby"}`},
		"empty":         {path: "", status: 422, body: `"outcome":"bad_request"}`},
		"control":       {path: "a%0Ab", status: 422, body: `"outcome":"bad_request"}`},
		"broken UTF-8":  {path: "a%FFb", status: 422, body: `"outcome":"bad_request"}`},
		"too long":      {path: strings.Repeat("u", 256), status: 422, body: `"outcome":"bad_request"}`},
		"deeper folder": {path: "u-1/claims", status: 404, body: `There is nothing at this path. Claims go to /v1/sales/{sale}/claims."}`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked string
			s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", UserFunc: func(user string) ([]executor.Claim, api.Outcome) {
				asked = user
				return c.claims, c.outcome
			}}}})
			r := do(s, http.MethodGet, "/v1/sales/movie/users/"+c.path, "", nil)
			body := text(t, r)
			if asked != c.user || r.StatusCode != c.status || !strings.HasSuffix(body, c.body) {
				t.Errorf("asked for %q, answered %d %s\nwant %q, %d, at the end %s", asked, r.StatusCode, body, c.user, c.status, c.body)
			}
		})
	}
}

func TestPathsAndMethods(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	for name, c := range map[string]struct {
		method, path string
		status       int
		allow        string
		body         string // a part of it
	}{
		"root":                {"GET", "/", 404, "", `"type":"about:blank","title":"Not Found"`},
		"no version":          {"POST", "/sales/movie/claims", 404, "", "about:blank"},
		"unknown sale":        {"GET", "/v1/sales/opera", 404, "", `"outcome":"no_such_sale"`},
		"unknown sale, claim": {"POST", "/v1/sales/opera/claims", 404, "", `"outcome":"no_such_sale"`},
		"unknown sale, user":  {"GET", "/v1/sales/opera/users/u", 404, "", `"outcome":"no_such_sale"`},
		"unknown below":       {"GET", "/v1/sales/movie/prices", 404, "", "about:blank"},
		"slash behind":        {"POST", "/v1/sales/movie/claims/", 404, "", "about:blank"},
		"a refund by buyers":  {"POST", "/v1/sales/movie/claims/0-1-0/refund", 404, "", "requested at the admin address"},
		"list of claims":      {"GET", "/v1/sales/movie/claims", 405, "POST", `"type":"about:blank","title":"Method Not Allowed"`},
		"put a claim":         {"PUT", "/v1/sales/movie/claims", 405, "POST", "about:blank"},
		"delete a sale":       {"DELETE", "/v1/sales/movie", 405, "GET", "about:blank"},
		"post a user":         {"POST", "/v1/sales/movie/users/u", 405, "GET", "about:blank"},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(s, c.method, c.path, `{"user":"u"}`, nil)
			body := text(t, r)
			if r.StatusCode != c.status || r.Header.Get("Allow") != c.allow || !strings.Contains(body, c.body) {
				t.Errorf("%d, Allow %q, %s\nwant %d, %q, %s", r.StatusCode, r.Header.Get("Allow"), body, c.status, c.allow, c.body)
			}
			if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
	if r := do(s, http.MethodHead, "/v1/sales/movie", "", nil); r.StatusCode != 200 {
		t.Errorf("HEAD: status %d", r.StatusCode)
	}
}

// TestGetClaim looks one claim up, with all that its books say and with none of it.
func TestGetClaim(t *testing.T) {
	refunded := firstClaim
	refunded.State, refunded.HeldUntil = api.Refunded, noon.Add(time.Minute)
	refunded.Books = &api.Books{
		SettledAt: noon.Add(time.Second), Who: "ada", Why: "the \"show\" is off", Payment: "p1",
		Extended: true, Retired: true, RefundDue: []string{"p2", "p3"}, RefundsDue: 3,
	}
	head := strings.Replace(strings.TrimSuffix(firstClaimBody, "}"), `"sold"`, `"refunded"`, 1)
	for name, c := range map[string]struct {
		path    string
		claim   executor.Claim
		outcome api.Outcome
		asked   bool
		status  int
		body    string // what it ends with
	}{
		"sold": {"3-17-2", firstClaim, "", true, 200, firstClaimBody},
		"refunded": {"3-17-2", refunded, "", true, 200, head + `,"heldUntil":"2026-11-11T12:01:00Z","settledAt":"2026-11-11T12:00:01Z",` +
			`"who":"ada","why":"the \"show\" is off","payment":"p1","extended":true,"retired":true,"refundDue":["p2","p3"],"refundsDue":3}`},
		"nobody's":      {"3-17-2", executor.Claim{}, api.NoSuchClaim, true, 404, `"outcome":"no_such_claim"}`},
		"cannot tell":   {"3-17-2", executor.Claim{}, api.Standby, true, 503, `"outcome":"standby"}`},
		"no id":         {"hello", executor.Claim{}, "", false, 404, `"outcome":"no_such_claim"}`},
		"from a node":   {"4-u7", firstClaim, "", false, 200, firstClaimBody},
		"deeper folder": {"3-17-2/units", executor.Claim{}, "", false, 404, `Claims go to /v1/sales/{sale}/claims."}`},
	} {
		t.Run(name, func(t *testing.T) {
			asked := false
			s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", FindFunc: func(id executor.ClaimID) (executor.Claim, api.Outcome) {
				asked = id == executor.ClaimID{Shard: 3, Slot: 17, Index: 2}
				return c.claim, c.outcome
			}}}})
			r := do(s, http.MethodGet, "/v1/sales/movie/claims/"+c.path, "", nil)
			body := text(t, r)
			if asked != c.asked || r.StatusCode != c.status || !strings.HasSuffix(body, c.body) {
				t.Errorf("asked: %v, answered %d %s\nwant %v, %d, at the end %s", asked, r.StatusCode, body, c.asked, c.status, c.body)
			}
			var told api.Claim
			if err := json.Unmarshal([]byte(body), &told); r.StatusCode == 200 && (err != nil || told.ID != firstClaim.ID.String()) {
				t.Errorf("read as an api.Claim it is %+v, %v", told, err)
			}
		})
	}
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	if r := do(s, http.MethodPost, "/v1/sales/movie/claims/3-17-2", "{}", nil); r.StatusCode != 405 || r.Header.Get("Allow") != http.MethodGet {
		t.Errorf("posted to a claim: %d, allowed is %s", r.StatusCode, r.Header.Get("Allow"))
	}
}
