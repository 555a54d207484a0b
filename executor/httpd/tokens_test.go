package httpd

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/shard"
)

// tokensOf are the tokens of a file with that content; nil of none.
func tokensOf(t testing.TB, content string) *access.Tokens {
	t.Helper()
	if content == "" {
		return nil
	}
	path := filepath.Join(t.TempDir(), "tokens")
	httpdtest.WriteFile(t, path, content)
	tokens, err := access.ReadTokens(path, false)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// rewrite changes the file of tokens, and has it read again.
func rewrite(t testing.TB, tokens *access.Tokens, content string) {
	t.Helper()
	httpdtest.WriteFile(t, strings.TrimPrefix(tokens.String(), "token file "), content)
	if changed, err := tokens.Reload(); err != nil || !changed {
		t.Fatalf("read again: %v, %v", changed, err)
	}
}

func TestToken(t *testing.T) {
	const token = "the-token-of-this-test"
	s := New(Config{Tokens: tokensOf(t, "before claim\n"+token+"\nbehind operate\n"), Sales: []executor.Service{&httpdtest.Fake{
		Name:      "movie",
		ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) },
	}}})
	for name, c := range map[string]struct {
		header string
		want   int
	}{
		"right":             {"Bearer " + token, 201},
		"the first":         {"Bearer before", 201},
		"the last":          {"Bearer behind", 201},
		"scheme in capital": {"BEARER " + token, 201},
		"none":              {"", 401},
		"another":           {"Bearer the-token-of-that-test", 401},
		"a part":            {"Bearer the-token", 401},
		"more":              {"Bearer " + token + "s", 401},
		"with its right":    {"Bearer before claim", 401},
		"two":               {"Bearer before\nbehind", 401},
		"empty":             {"Bearer ", 401},
		"no scheme":         {token, 401},
		"another scheme":    {"Basic " + token, 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(t, s, claimsPath, `{"user":"u"}`, http.Header{"Authorization": {c.header}})
			if r.StatusCode != c.want {
				t.Errorf("status %d, want %d", r.StatusCode, c.want)
			}
			want := `Bearer error="invalid_token"`
			if c.header == "" {
				want = "Bearer"
			}
			if c.want == 401 && (r.Header.Get("WWW-Authenticate") != want || strings.Contains(text(t, r), token)) {
				t.Error("the refusal does not ask for a bearer token, or tells it")
			}
		})
	}
	if r := do(s, http.MethodGet, "/v1/sales/movie", "", nil); r.StatusCode != 401 {
		t.Errorf("the sale is told without a token: status %d", r.StatusCode)
	}
	if r := do(s.Admin(), http.MethodGet, "/healthz", "", nil); r.StatusCode != 200 {
		t.Errorf("healthz asks for a token: status %d", r.StatusCode)
	}
}

// guardedSale says yes to everything.
func guardedSale() *operated {
	return &operated{Fake: httpdtest.Fake{
		Name:      "movie",
		ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) },
		SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer {
			return executor.Answer{Outcome: x.How.Done(), Claim: firstClaim}
		},
		UserFunc: func(string) ([]executor.Claim, api.Outcome) { return nil, "" },
		FindFunc: func(executor.ClaimID) (executor.Claim, api.Outcome) { return firstClaim, "" },
		StatusFunc: func() executor.Status {
			return executor.Status{SaleSummary: api.SaleSummary{Phase: "open"}, Sells: true, Nodes: []executor.NodeStatus{{Node: api.Node{Name: "redis-1:6379", Up: true}}},
				Shards: []executor.ShardStatus{{Report: shard.Report{Totals: ledger.Totals{Limit: 1, Owner: "a:1"}}}}, Processes: []api.Process{{Address: "a:1", State: "serving", Up: true}}}
		},
	}}
}

// Each request needs its right, and is told which one its token lacks.
func TestRights(t *testing.T) {
	s := New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokensOf(t, "shop claim\npays confirm\nboth claim confirm\nops operate\nold\n")})
	open := New(Config{Sales: []executor.Service{guardedSale()}})
	for _, c := range []struct {
		admin              bool
		method, path, body string
		needs              string
	}{
		{false, "POST", "/claims", `{"user":"u"}`, "claim"},
		{false, "POST", "/claims/1-2-3/confirm", `{"payment":"p"}`, "confirm"},
		{false, "POST", "/claims/1-2-3/extend", `{}`, "claim"},
		{false, "POST", "/claims/1-2-3/cancel", `{}`, "claim"},
		{false, "GET", "/claims/3-17-2", "", "claim"},
		{false, "GET", "/users/u", "", "claim"},
		{false, "GET", "", "", "claim"},
		{true, "POST", "/claims/1-2-3/refund", `{}`, "operate"},
		{true, "POST", "/drain", `{}`, "operate"},
		{true, "GET", "/drain", "", "operate"},
	} {
		at := func(s *Server) http.Handler {
			if c.admin {
				return s.Admin()
			}
			return s
		}
		ask := func(h http.Handler, token string) *http.Response {
			header := http.Header{}
			if token != "" {
				header.Set("Authorization", "Bearer "+token)
			}
			return do(h, c.method, "/v1/sales/movie"+c.path, c.body, header)
		}
		name := c.method + " " + c.path
		for _, token := range []string{"ops", "old"} {
			if r := ask(at(s), token); r.StatusCode/100 != 2 {
				t.Errorf("%s with token %s: %d", name, token, r.StatusCode)
			}
		}
		if r := ask(at(open), ""); r.StatusCode/100 != 2 {
			t.Errorf("%s without tokens: %d", name, r.StatusCode)
		}
		if r := ask(at(s), ""); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s with no token: %d, %s", name, r.StatusCode, r.Header)
		}
		for token, has := range map[string]string{"shop": "claim", "pays": "confirm", "both": "claim confirm"} {
			r := ask(at(s), token)
			said := text(t, r)
			switch lacks := !strings.Contains(has, c.needs); {
			case !lacks && r.StatusCode/100 != 2:
				t.Errorf("%s with the right to %s: %d %s", name, has, r.StatusCode, said)
			case lacks && (r.StatusCode != 403 || !strings.Contains(said, "the right "+c.needs) ||
				r.Header.Get("Content-Type") != api.TypeProblem || r.Header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope", scope="`+c.needs+`"`):
				t.Errorf("%s with the right to %s: %d %s %s", name, has, r.StatusCode, r.Header, said)
			}
		}
	}
}

// Whoever may claim learns how the sale stands, and nothing of what it runs on.
func TestSaleByRights(t *testing.T) {
	s := New(Config{Clock: atNoon, Sales: []executor.Service{guardedSale()}, Tokens: tokensOf(t, "shop claim\nops operate\n")})
	get := func(h http.Handler, token string) string {
		return text(t, do(h, "GET", "/v1/sales/movie", "", http.Header{"Authorization": {"Bearer " + token}}))
	}
	const want = `{"sale":"movie","uid":"","generation":0,"phase":"open","soldOut":false,"stock":1,"available":0,"held":0,"sold":0,"inFlight":0,"perUserLimit":0,"serverTime":"2026-11-11T12:00:00Z"}`
	if got := get(s, "shop"); got != want {
		t.Errorf("told is %s\nwant %s", got, want)
	}
	if got := get(s, "ops"); !strings.Contains(got, `"nodes":[{"up":true`) || !strings.Contains(got, `"shards":[{"shard":0,"state":"sold-out","owner":"a:1"}],"processes":[{"address":"a:1"`) || strings.Contains(got, "redis-1") {
		t.Errorf("whoever operates is told %s", got)
	}
	if got := get(s.Admin(), ""); !strings.Contains(got, `"nodes":[{"name":"redis-1:6379"`) {
		t.Errorf("the admin address tells %s", got)
	}
	if r := do(s.Admin(), "POST", "/v1/sales/movie", "{}", nil); r.StatusCode != 405 {
		t.Errorf("POST at the admin address: %d", r.StatusCode)
	}
}

// A token that is taken out of the file is good for nothing from then on, one that is added
// is good at once, and a file that is unfit changes nothing.
func TestTokensAreReadAgain(t *testing.T) {
	tokens := tokensOf(t, "old\n")
	s := New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokens})
	good := func() (all []string) {
		for _, token := range []string{"old", "new"} {
			if r := post(t, s, claimsPath, `{"user":"u"}`, http.Header{"Authorization": {"Bearer " + token}}); r.StatusCode == 201 {
				all = append(all, token)
			}
		}
		return all
	}
	for _, step := range []struct {
		content string
		changed bool
		unfit   bool
		good    []string
		shown   string
	}{
		{"old\n", false, false, []string{"old"}, "old"},
		{"old\nnew\n", true, false, []string{"old", "new"}, "old"},
		{"new\nold\n", true, false, []string{"old", "new"}, "new"},
		{"", false, true, []string{"old", "new"}, "new"},
		{"new what\n", false, true, []string{"old", "new"}, "new"},
		{"new claim\n", false, true, []string{"old", "new"}, "new"},
		{"new\n", true, false, []string{"new"}, "new"},
	} {
		httpdtest.WriteFile(t, strings.TrimPrefix(tokens.String(), "token file "), step.content)
		changed, err := tokens.Reload()
		if changed != step.changed || (err != nil) != step.unfit || !slices.Equal(good(), step.good) || tokens.Shown() != step.shown {
			t.Errorf("%q: changed %v, %v, good are %q, shown is %q", step.content, changed, err, good(), tokens.Shown())
		}
	}
}

// Each request of a stream needs its right, as it is when the request comes.
func TestRightsOverStreams(t *testing.T) {
	tokens := tokensOf(t, "shop claim\nops operate\n")
	v := serve(t, New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokens}))
	confirm := &streampb.Request{Id: 2, Kind: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "confirm", Payment: "p"}}}
	cancel := &streampb.Request{Id: 6, Kind: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "cancel"}}}
	extend := &streampb.Request{Id: 3, Kind: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "extend"}}}
	user := &streampb.Request{Id: 4, Kind: &streampb.Request_Query{Query: &streampb.Query{User: "u"}}}
	find := &streampb.Request{Id: 5, Kind: &streampb.Request_Query{Query: &streampb.Query{Claim: &streampb.ClaimID{Slot: 1}}}}
	all := []*streampb.Request{claimOf(1, "ada"), confirm, cancel, extend, user, find}

	shop := listen(t, v.url, func(c *api.StreamConfig) { c.Token = "shop" })
	ops := listen(t, v.url, func(c *api.StreamConfig) { c.Token = "ops" })
	refused := func(l *listener, want ...uint64) {
		t.Helper()
		var got []uint64
		for _, r := range all {
			l.send(r)
			if answer := l.hears(); answer.GetProblem() != nil {
				if answer.GetProblem().Status != 403 || !strings.Contains(answer.GetProblem().Detail, "the right confirm") {
					t.Errorf("request %d gets %v", r.Id, answer)
				}
				got = append(got, answer.Id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("refused are %d, want %d", got, want)
		}
	}
	refused(shop, 2)
	refused(ops)
	rewrite(t, tokens, "shop operate\nops claim\n")
	refused(shop)
	refused(ops, 2)
	rewrite(t, tokens, "shop operate\n")
	refused(shop)
	// Nothing comes on the streams of tokens that are taken out.
	for _, l := range []*listener{ops, shop} {
		if r := l.hears(); r.Id != 0 || r.GetProblem().GetStatus() != 401 {
			t.Errorf("a token that is good no more: %v", r)
		}
		if err := <-l.closed; err != nil {
			t.Errorf("the stream ends with %v", err)
		}
		if l == ops {
			rewrite(t, tokens, "another operate\n")
		}
	}
}

// A link of another process needs a token that may operate, for as long as it lasts.
func TestRightsOfPeers(t *testing.T) {
	tokens := tokensOf(t, "shop claim\nops operate\n")
	p := newParty()
	sale := guardedSale()
	sale.AcceptFunc = p.Accept
	v := serve(t, New(Config{Sales: []executor.Service{sale}, Tokens: tokens}))
	if _, err := api.DialStream(t.Context(), api.StreamConfig{Server: v.url, Sale: "movie", Token: "shop", Peer: true, Received: func(*streampb.Reply) {}}); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a token that may claim links: %v", err)
	}
	l := link(t, v.url, func(c *api.StreamConfig) { c.Token = "ops" })
	l.send(hello("b"))
	if h := <-p.hello; h.PeerId != "b" {
		t.Errorf("hello is %v", h)
	}
	l.send(claimOf(1, "ada"))
	<-p.heard
	rewrite(t, tokens, "new operate\nshop\n") // it shows the new one before it sends anything else
	l.send(&streampb.Request{Kind: &streampb.Request_Hello{Hello: &streampb.Hello{Token: "new"}}})
	l.send(claimOf(2, "ada"))
	if r := <-p.heard; r.Id != 2 {
		t.Errorf("with another token it hears %v", r)
	}
	rewrite(t, tokens, "new claim\nshop\n")
	l.send(claimOf(3, "ada"))
	if r := l.hears(); r.Id != 0 || r.GetProblem().GetStatus() != 403 {
		t.Errorf("a link goes on without its right: %v", r)
	}
	if <-p.gone; len(p.heard) > 0 {
		t.Errorf("heard are %d more", len(p.heard))
	}
}

// A client is told which right its token lacks, the same over HTTP and streams.
func TestClientLacksARight(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokensOf(t, "shop claim\nops operate\n")}))
	for _, stream := range []bool{true, false} {
		c := buyer(t, func(c *api.Config) {
			c.Stream, c.Token = stream, "shop"
			if !stream {
				c.Transport = v.client.Transport
			}
		}, v.url)
		a, err := c.Settle(t.Context(), "1-2-3", api.Confirm, api.Settlement{Payment: "p"})
		if a.Attempts != 1 || a.MayBeAccepted {
			t.Errorf("stream %v: %+v", stream, a)
		}
		var unexpected *api.UnexpectedError
		if !errors.As(err, &unexpected) || unexpected.StatusCode != 403 || !strings.HasSuffix(err.Error(), "answers 403 Forbidden: This request needs a token with the right confirm.") {
			t.Errorf("stream %v: %v", stream, err)
		}
		if a, err := c.Settle(t.Context(), "1-2-3", api.Cancel, api.Settlement{}); err != nil || a.Attempts != 1 {
			t.Errorf("stream %v: %+v, %v", stream, a, err)
		}
	}
}
