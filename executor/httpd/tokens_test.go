package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
)

// tokensOf are the tokens of a file with that content; nil of none.
func tokensOf(t testing.TB, content string) *Tokens {
	t.Helper()
	if content == "" {
		return nil
	}
	path := filepath.Join(t.TempDir(), "tokens")
	write(t, path, content)
	tokens, err := ReadTokens(path, false)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// now changes the file of tokens, and has it read again.
func (v *Tokens) now(t testing.TB, content string) {
	t.Helper()
	write(t, v.path, content)
	if changed, err := v.Reload(); err != nil || !changed {
		t.Fatalf("read again: %v, %v", changed, err)
	}
}

func TestReadTokens(t *testing.T) {
	many := strings.Builder{}
	for i := range 65 {
		fmt.Fprintln(&many, "token", i)
	}
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		tokens  string // with their rights
		shown   string
		remedy  string // "": no error
	}{
		"one line":         {content: "s3cret\n", tokens: "s3cret 15", shown: "s3cret"},
		"for a group":      {content: "s3cret", mode: 0o640, tokens: "s3cret 15", shown: "s3cret"},
		"Windows line end": {content: "a claim\r\nb\r\n", tokens: "a 1, b 15", shown: "b"},
		"rights":           {content: "# of the shop\n\n a  claim \ne follow\nb operate\n#c\nd", tokens: "a 1, e 4, b 15, d 15", shown: "b"},
		"several rights":   {content: "a claim  confirm\ne follow claim\nf confirm\nb claim operate", tokens: "a 9, e 5, f 8, b 15", shown: "b"},

		"empty":             {content: "", remedy: "write a random one"},
		"only comments":     {content: "\n# none\n", remedy: "write a random one"},
		"nobody operates":   {content: "a claim\nb follow\n", remedy: "a line with a token alone"},
		"another right":     {content: "a\nb everything", remedy: "line 2"},
		"a comment behind":  {content: "a claim # the shop", remedy: "claim, confirm, follow or operate, and nothing else"},
		"one token twice":   {content: "a claim\n\na operate", remedy: "has the token of line 1 again"},
		"not ASCII":         {content: "né", remedy: "visible ASCII"},
		"a tab":             {content: "a\tclaim", remedy: "visible ASCII"},
		"something long":    {content: strings.Repeat("x", 5000), remedy: "more than 4096"},
		"something longer":  {content: strings.Repeat("# x\n", 20_000), remedy: "more than 65536"},
		"too many":          {content: strings.ReplaceAll(many.String(), " ", "-"), remedy: "65 tokens, at most 64"},
		"open for everyone": {content: "s3cret", mode: 0o644, remedy: "defaultMode: 0400"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			write(t, path, c.content)
			if c.mode != 0 { // whatever the umask
				if err := os.Chmod(path, c.mode); err != nil {
					t.Fatal(err)
				}
			}
			tokens, err := ReadTokens(path, false)
			switch {
			case c.remedy == "" && err != nil:
				t.Fatal(err)
			case c.remedy != "" && (!errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), path)):
				t.Fatalf("got %v, want ErrBadToken with %q and the path", err, c.remedy)
			case c.remedy != "":
				return
			}
			var all []string
			for _, token := range tokens.set.Load().all {
				all = append(all, fmt.Sprint(token.text, " ", token.rights))
			}
			if got := strings.Join(all, ", "); got != c.tokens || tokens.Shown() != c.shown {
				t.Errorf("tokens %q, shown is %q", got, tokens.Shown())
			}
			if first, err := ReadToken(path); err != nil || !strings.HasPrefix(c.tokens, first+" ") {
				t.Errorf("a client sends %q, %v", first, err)
			}
		})
	}
	if _, err := ReadTokens(filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if tokens, err := ReadTokens("", false); tokens != nil || err != nil || tokens.Shown() != "" {
		t.Errorf("no path: %v, %v", tokens, err)
	}
	// Where other machines can show one, a token that can be guessed is refused; a mark of an
	// editor before the first is no part of it.
	path := filepath.Join(t.TempDir(), "tokens")
	for content, fine := range map[string]bool{"\ufeff0123456789abcdef\r\n": true, "0123456789abcdef\n0123456789abcde claim\n": false} {
		write(t, path, content)
		tokens, err := ReadTokens(path, true)
		if fine && (err != nil || tokens.Shown() != "0123456789abcdef") {
			t.Errorf("%q: %v", content, err)
		}
		if !fine && (!errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), "the token in line 2 of "+path+" has 15 bytes, and at least 16 are needed")) {
			t.Errorf("%q: %v", content, err)
		}
	}
	for addr, open := range map[string]bool{"127.0.0.1:80": false, "[::1]:80": false, "localhost:0": false, ":80": true, "0.0.0.0:80": true, "shop:80": true} {
		if Open(addr) != open {
			t.Errorf("%s is open: %v", addr, !open)
		}
	}
	if token, err := ReadToken(""); token != "" || err != nil {
		t.Errorf("no path of a client: %q, %v", token, err)
	}
}

func TestToken(t *testing.T) {
	const token = "the-token-of-this-test"
	s := New(Config{Tokens: tokensOf(t, "before claim\n"+token+"\nbehind operate\n"), Sales: []executor.Service{&fake{
		name:  "movie",
		claim: func(_ context.Context, r executor.Request) executor.Answer { return soldTo(r.User) },
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
	return &operated{fake: fake{
		name:  "movie",
		claim: func(_ context.Context, r executor.Request) executor.Answer { return soldTo(r.User) },
		settle: func(_ context.Context, x executor.Settlement) executor.Answer {
			return executor.Answer{Outcome: x.How.Done(), Claim: firstClaim}
		},
		user: func(string) ([]executor.Claim, api.Outcome) { return nil, "" },
		find: func(executor.ClaimID) (executor.Claim, api.Outcome) { return firstClaim, "" },
		status: func() executor.Status {
			return executor.Status{Phase: "open", Sells: true, Nodes: []executor.NodeStatus{{Name: "redis-1:6379", Up: true}},
				Shards: []executor.ShardStatus{{Limit: 1, Owner: "a:1"}}, Members: []executor.MemberStatus{{Address: "a:1", Up: true}}}
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
		{true, "POST", "/shards/1/move", `{}`, "operate"},
		{true, "GET", "/shards/1/move", "", "operate"},
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
			case lacks && (r.StatusCode != 403 || !strings.Contains(said, "the right to "+c.needs) ||
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
	const want = `{"sale":"movie","uid":"","phase":"open","soldOut":false,"stock":1,"available":0,"held":0,"sold":0,"inFlight":0,"perUserLimit":0,"generation":0,"serverTime":"2026-11-11T12:00:00Z"}`
	if got := get(s, "shop"); got != want {
		t.Errorf("told is %s\nwant %s", got, want)
	}
	if got := get(s, "ops"); !strings.Contains(got, `"nodes":[{"up":true`) || !strings.Contains(got, `"shards":[],"processes":[{"address":"a:1"`) || strings.Contains(got, "redis-1") {
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
		write(t, tokens.path, step.content)
		changed, err := tokens.Reload()
		if changed != step.changed || (err != nil) != step.unfit || !slices.Equal(good(), step.good) || tokens.Shown() != step.shown {
			t.Errorf("%q: changed %v, %v, good are %q, shown is %q", step.content, changed, err, good(), tokens.Shown())
		}
	}
}

// A fault of a file is logged once, and so is a change.
func TestReloadLogs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	tokens := tokensOf(t, "old\n")
	said := ""
	for _, c := range []struct{ content, want string }{
		{"old\n", ""},
		{"", "level=ERROR msg=\"a file is not fit for use as it is now; what was read before remains in force\" file=\"token file "},
		{"", ""},
		{"a b", "level=ERROR"},
		{"old\n", ""},
		{"a b", "level=ERROR"},
		{"new\n", "level=INFO msg=\"a file has changed and was read again\" file=\"token file "},
		{"new\n", ""},
	} {
		write(t, tokens.path, c.content)
		out.Reset()
		said = reloadFile(log, tokens, said)
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q: logged is %q, want %q", c.content, got, c.want)
		}
		if strings.Contains(out.String(), "old") || strings.Contains(out.String(), "new") {
			t.Errorf("a token is logged: %s", &out)
		}
	}
}

// Each request of a stream needs its right, as it is when the request comes.
func TestRightsOverStreams(t *testing.T) {
	tokens := tokensOf(t, "shop claim\nops operate\n")
	v := serve(t, New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokens}))
	confirm := &streampb.Request{Id: 2, Asks: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "confirm", Payment: "p"}}}
	cancel := &streampb.Request{Id: 6, Asks: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "cancel"}}}
	extend := &streampb.Request{Id: 3, Asks: &streampb.Request_Settle{Settle: &streampb.Settlement{Claim: &streampb.ClaimID{Slot: 1}, How: "extend"}}}
	user := &streampb.Request{Id: 4, Asks: &streampb.Request_User{User: &streampb.User{User: "u"}}}
	find := &streampb.Request{Id: 5, Asks: &streampb.Request_Find{Find: &streampb.Find{Claim: &streampb.ClaimID{Slot: 1}}}}
	all := []*streampb.Request{claimOf(1, "ada"), confirm, cancel, extend, user, find}

	shop := listen(t, v, func(c *api.StreamConfig) { c.Token = "shop" })
	ops := listen(t, v, func(c *api.StreamConfig) { c.Token = "ops" })
	refused := func(l *listener, want ...uint64) {
		t.Helper()
		var got []uint64
		for _, r := range all {
			l.send(r)
			if answer := l.hears(); answer.GetProblem() != nil {
				if answer.GetProblem().Status != 403 || !strings.Contains(answer.GetProblem().Detail, "the right to confirm") {
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
	tokens.now(t, "shop operate\nops claim\n")
	refused(shop)
	refused(ops, 2)
	tokens.now(t, "shop operate\n")
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
			tokens.now(t, "another operate\n")
		}
	}
}

// A link of another process needs a token that may operate, for as long as it lasts.
func TestRightsOfPeers(t *testing.T) {
	tokens := tokensOf(t, "shop claim\nops operate\n")
	p := newParty()
	v := serve(t, New(Config{Sales: []executor.Service{guardedSale()}, Tokens: tokens, Peers: p}))
	if _, err := api.DialStream(t.Context(), api.StreamConfig{Server: v.url, Sale: "movie", Token: "shop", Peer: true, Received: func(*streampb.Reply) {}}); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a token that may claim links: %v", err)
	}
	l := link(t, v, func(c *api.StreamConfig) { c.Token = "ops" })
	l.send(hello("b"))
	if h := <-p.hello; h.PeerId != "b" {
		t.Errorf("hello is %v", h)
	}
	l.send(claimOf(1, "ada"))
	<-p.heard
	tokens.now(t, "new operate\nshop\n") // it shows the new one before it sends anything else
	l.send(&streampb.Request{Asks: &streampb.Request_Hello{Hello: &streampb.Hello{Token: "new"}}})
	l.send(claimOf(2, "ada"))
	if r := <-p.heard; r.Id != 2 {
		t.Errorf("with another token it hears %v", r)
	}
	tokens.now(t, "new claim\nshop\n")
	l.send(claimOf(3, "ada"))
	if r := l.hears(); r.Id != 0 || r.GetProblem().GetStatus() != 403 {
		t.Errorf("a link goes on without its right: %v", r)
	}
	if err := <-p.gone; err != nil || len(p.heard) > 0 {
		t.Errorf("gone with %v; heard are %d more", err, len(p.heard))
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
		if !errors.As(err, &unexpected) || unexpected.StatusCode != 403 || !strings.HasSuffix(err.Error(), "answers 403 Forbidden: The token has not the right to confirm, which this request needs.") {
			t.Errorf("stream %v: %v", stream, err)
		}
		if a, err := c.Settle(t.Context(), "1-2-3", api.Cancel, api.Settlement{}); err != nil || a.Attempts != 1 {
			t.Errorf("stream %v: %+v, %v", stream, a, err)
		}
	}
}
