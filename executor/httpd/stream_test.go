package httpd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

func TestStream(t *testing.T) {
	sale := &httpdtest.Fake{Name: "movie", ClaimFunc: sells, At: executor.Place{Shard: 2, Shards: 5, Owner: "there:2"}}
	v := serve(t, New(Config{Sales: []executor.Service{sale}, Address: "here:1"}))
	l := listen(t, v.url, nil)
	if l.Address() != "here:1" {
		t.Errorf("the address %q", l.Address())
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(v.Collectors()...)
	open := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		for _, f := range families {
			if f.GetName() == "salectl_http_streams" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("no metric counts streams", err)
		return 0
	}
	if open() != 1 {
		t.Errorf("%v streams are open", open())
	}
	const n = 5000
	for i := range uint64(n) {
		l.send(claimOf(i+1, fmt.Sprint("user-", i+1)))
	}
	l.CloseSend()
	seen := map[uint64]bool{}
	for r := range l.heard {
		a := r.GetAnswer()
		if a.GetOutcome() != "sold" || a.Claim.User != fmt.Sprint("user-", r.Id) || seen[r.Id] {
			t.Fatalf("heard %v", r)
		}
		if a.Owner != "there:2" || a.Shard != 2 || a.Shards != 5 {
			t.Fatalf("the place in %v", a)
		}
		seen[r.Id] = true
	}
	if err := <-l.closed; err != nil || len(seen) != n {
		t.Errorf("%d answers, and the stream ends with %v", len(seen), err)
	}
	if l.Send(claimOf(1, "u")) == nil {
		t.Error("a request is sent over a stream that has ended")
	}
}

// A stream says the same of a settlement and of what is looked up as HTTP does.
func TestStreamSettlesAndLooks(t *testing.T) {
	held := httpdtest.SoldTo("ada").Claim
	held.State = api.Held
	sale := &httpdtest.Fake{Name: "movie",
		SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer {
			if x.How == api.Confirm && x.Payment == "p-1" && x.Claim == held.ID {
				return httpdtest.SoldTo("ada")
			}
			return executor.Answer{Outcome: api.NotHeld, Claim: held}
		},
		UserFunc: func(user string) ([]executor.Claim, api.Outcome) {
			if user != "ada" {
				return nil, api.Standby
			}
			return []executor.Claim{held}, ""
		},
		FindFunc: func(id executor.ClaimID) (executor.Claim, api.Outcome) {
			switch {
			case id == (executor.ClaimID{Shard: 4, Unit: 7}):
				return httpdtest.SoldTo("bob").Claim, ""
			case id != held.ID:
				return executor.Claim{}, api.NoSuchClaim
			}
			return held, ""
		},
	}
	l := listen(t, serve(t, New(Config{Sales: []executor.Service{sale}})).url, nil)
	id := &streampb.ClaimID{Shard: 3, Slot: 1234, Index: 56}
	settle := func(n uint64, x *streampb.Settlement) *streampb.Request {
		return &streampb.Request{Id: n, Kind: &streampb.Request_Settle{Settle: x}}
	}
	l.send(settle(1, &streampb.Settlement{Claim: id, How: "confirm", Payment: "p-1"}))
	if r := l.hears(); r.GetAnswer().GetOutcome() != "sold" || r.GetAnswer().Claim.Id.Slot != 1234 {
		t.Errorf("a confirm: %v", r)
	}
	l.send(settle(2, &streampb.Settlement{Claim: id, How: "cancel"}))
	if r := l.hears(); r.GetAnswer().GetOutcome() != "not_held" || r.GetAnswer().Claim.User != "ada" {
		t.Errorf("a cancel: %v", r)
	}
	for why, x := range map[string]*streampb.Settlement{
		"admin address":                  {Claim: id, How: "refund"},
		"payment: missing":               {Claim: id, How: "confirm"},
		`"ruin" does not settle a claim`: {Claim: id, How: "ruin"},
		"only a cancel, refund":          {Claim: id, How: "extend", Who: "me"},
	} {
		l.send(settle(3, x))
		if a := l.hears().GetAnswer(); a.GetOutcome() != "bad_request" || !strings.Contains(a.Message, why) {
			t.Errorf("%v: %v, want %s", x, a, why)
		}
	}
	l.send(claimOf(4, "a\xff"))
	if a := l.hears().GetAnswer(); a.GetOutcome() != "bad_request" || !strings.Contains(a.Message, "UTF-8") {
		t.Errorf("a claim of a user that is no text: %v", a)
	}
	user := func(n uint64, user string) *streampb.Request {
		return &streampb.Request{Id: n, Kind: &streampb.Request_Query{Query: &streampb.Query{User: user}}}
	}
	find := func(n uint64, id *streampb.ClaimID) *streampb.Request {
		return &streampb.Request{Id: n, Kind: &streampb.Request_Query{Query: &streampb.Query{Claim: id}}}
	}
	for _, c := range []struct {
		ask  *streampb.Request
		want string
	}{
		{user(4, "ada"), "|held"}, {user(5, "bob"), "standby|"}, {find(6, id), "|held"}, {find(7, &streampb.ClaimID{Slot: 1}), "no_such_claim|"}, {find(8, &streampb.ClaimID{Shard: 4, Unit: 7}), "|sold"},
	} {
		l.send(c.ask)
		r := l.hears()
		got := r.GetAnswer().GetOutcome() + "|"
		for _, claim := range append(r.GetAnswer().GetClaims(), r.GetAnswer().GetClaim()) {
			got += claim.GetState()
		}
		if r.Id != c.ask.Id || got != c.want {
			t.Errorf("%v: %v", c.ask, r)
		}
	}
}

// A request that is given up is answered at once, and so is one whose time is over.
func TestStreamGivesUp(t *testing.T) {
	g := newGate()
	v := serve(t, New(Config{Sales: []executor.Service{g}, ClaimTimeout: time.Hour}))
	l := listen(t, v.url, nil)
	l.send(claimOf(1, "ada"))
	<-g.inside
	l.send(claimOf(2, "bob"))
	<-g.inside
	l.send(&streampb.Request{Id: 1, Kind: &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}})
	if got := l.outcome(1); got != "unknown" {
		t.Errorf("a request that was given up got %s", got)
	}
	l.send(&streampb.Request{Id: 77, Kind: &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}}) // of none
	late := claimOf(1, "eve")                                                                     // the id is free again
	late.TimeoutMs = 1
	l.send(late)
	<-g.inside
	if got := l.outcome(1); got != "unknown" {
		t.Errorf("a request whose time is over got %s", got)
	}
	close(g.open)
	if got := l.outcome(2); got != "sold" {
		t.Errorf("the other one got %s", got)
	}
}

// The server's own time is the most that a request gets.
func TestStreamTimeout(t *testing.T) {
	g := newGate()
	l := listen(t, serve(t, New(Config{Sales: []executor.Service{g}, ClaimTimeout: time.Millisecond})).url, nil)
	long := claimOf(1, "ada")
	long.TimeoutMs = 3_600_000
	l.send(long)
	if got := l.outcome(1); got != "unknown" {
		t.Errorf("got %s", got)
	}
}

// What is wrong with one request is told of that one, and the stream goes on.
func TestStreamRefusesRequests(t *testing.T) {
	g := newGate()
	l := listen(t, serve(t, New(Config{Sales: []executor.Service{g}})).url, nil)
	for why, r := range map[string]*streampb.Request{
		"user: must not be empty": claimOf(1, ""),
		"255":                     claimOf(1, strings.Repeat("x", 300)),
		"control":                 claimOf(1, "a\nb"),
		"quantity":                {Id: 1, Kind: &streampb.Request_Claim{Claim: &streampb.NewClaim{User: "ada", Quantity: -1}}},
		"names":                   {Id: 1, Kind: &streampb.Request_Claim{Claim: &streampb.NewClaim{User: "ada", Quantity: 1, Units: []int64{7}}}},
		"visible ASCII":           {Id: 1, Kind: &streampb.Request_Claim{Claim: &streampb.NewClaim{User: "ada", Key: "ä"}}},
		"user:":                   {Id: 1, Kind: &streampb.Request_Query{Query: &streampb.Query{}}},
		"either":                  {Id: 1, Kind: &streampb.Request_Query{Query: &streampb.Query{User: "a\nb", Claim: &streampb.ClaimID{Slot: 1}}}},
	} {
		l.send(r)
		if a := l.hears().GetAnswer(); a.GetOutcome() != "bad_request" || !strings.Contains(a.Message, why) {
			t.Errorf("%v: %v, want %s", r, a, why)
		}
	}
	l.send(&streampb.Request{Id: 5})
	if r := l.hears(); r.Id != 5 || r.GetProblem().GetStatus() != 400 {
		t.Errorf("a request for nothing: %v", r)
	}
	l.send(claimOf(1, "ada"))
	<-g.inside
	l.send(claimOf(1, "bob"))
	if r := l.hears(); r.Id != 1 || r.GetProblem().GetStatus() != 409 {
		t.Errorf("an id that is in use: %v", r)
	}
	close(g.open)
	if got := l.outcome(1); got != "sold" {
		t.Errorf("the first one got %s", got)
	}
}

// A stream is opened for those that the other paths let in, and by HTTP/2 alone.
func TestStreamIsRefused(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells}}, Tokens: tokensOf(t, "s3cret"), Streams: 1}))
	for name, c := range map[string]struct {
		change func(*api.StreamConfig)
		status int
		detail string
	}{
		"no token":    {func(*api.StreamConfig) {}, 401, "token"},
		"wrong token": {func(c *api.StreamConfig) { c.Token = "secret" }, 401, "token"},
		"no sale":     {func(c *api.StreamConfig) { c.Token, c.Sale = "s3cret", "opera" }, 404, "serves no sale"},
		"HTTP/1.1": {func(c *api.StreamConfig) {
			c.Token, c.Transport = "s3cret", struct{ http.RoundTripper }{v.client.Transport}
		}, 505, "HTTP/2"},
	} {
		cfg := api.StreamConfig{Server: v.url, Sale: "movie", Received: func(*streampb.Reply) {}}
		c.change(&cfg)
		_, err := api.DialStream(t.Context(), cfg)
		unexpected, ok := err.(*api.UnexpectedError)
		if !ok || unexpected.StatusCode != c.status || !strings.Contains(unexpected.Detail, c.detail) {
			t.Errorf("%s: %v", name, err)
		}
	}
	post := func(contentType string) *http.Response {
		t.Helper()
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: protocols}
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", v.url+api.StreamPath("movie"), strings.NewReader(""))
		r.Header = http.Header{"Authorization": {"Bearer s3cret"}, "Content-Type": {contentType}}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		answer.Body = io.NopCloser(strings.NewReader(string(body)))
		return answer
	}
	for _, wrong := range []string{"application/json", api.TypeStream + ";;"} {
		if r := post(wrong); r.StatusCode != 415 || !strings.Contains(text(t, r), api.TypeStream) {
			t.Errorf("the content type %s: %d", wrong, r.StatusCode)
		}
	}
	if r := post(api.TypeStream + "; charset=utf-8"); r.StatusCode != 200 || r.ProtoMajor != 2 {
		t.Errorf("with a parameter: %d over %s", r.StatusCode, r.Proto)
	}
	_ = listen(t, v.url, func(c *api.StreamConfig) { c.Token = "s3cret" })
	if r := post(api.TypeStream); r.StatusCode != 429 || !strings.Contains(text(t, r), "1 streams") {
		t.Errorf("one stream too many: %d", r.StatusCode)
	}
	if r := do(v.Server, "POST", api.StreamPath("movie"), "", http.Header{"Authorization": {"Bearer s3cret"}}); r.StatusCode != 505 || r.Header.Get("Connection") != "close" {
		t.Errorf("POST by HTTP/1.1: %d", r.StatusCode)
	}
}

// slowLookups is a sale that has to wait for a peer to look anything up.
type slowLookups struct {
	httpdtest.Fake
	inside chan struct{}
}

func (f *slowLookups) Begin(r executor.Request, answered func(executor.Answer)) (cancel func()) {
	if r.Query == nil {
		return f.Fake.Begin(r, answered)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		f.inside <- struct{}{}
		<-ctx.Done()
		answered(executor.Answer{Outcome: api.Standby})
	}()
	return cancel
}

// Requests behind a lookup do not wait for it, and it ends when it is given up or its time is over.
func TestStreamLooksBeside(t *testing.T) {
	sale := &slowLookups{httpdtest.Fake{Name: "movie", ClaimFunc: sells}, make(chan struct{})}
	l := listen(t, serve(t, New(Config{Sales: []executor.Service{sale}, ClaimTimeout: time.Hour})).url, nil)
	for _, asks := range []func(*streampb.Request){
		func(r *streampb.Request) { r.Kind = &streampb.Request_Query{Query: &streampb.Query{User: "ada"}} },
		func(r *streampb.Request) {
			r.Kind = &streampb.Request_Query{Query: &streampb.Query{Claim: &streampb.ClaimID{Slot: 1}}}
		},
	} {
		for _, timeout := range []uint32{0, 1} {
			look := &streampb.Request{Id: 1, TimeoutMs: timeout}
			asks(look)
			l.send(look)
			<-sale.inside
			if timeout == 0 {
				l.send(claimOf(2, "bob"))
				if got := l.outcome(2); got != "sold" {
					t.Errorf("a claim behind %v: %s", look, got)
				}
				l.send(&streampb.Request{Id: 1, Kind: &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}})
			}
			if r := l.hears(); r.Id != 1 || r.GetAnswer().GetOutcome() != "standby" {
				t.Errorf("%v: %v", look, r)
			}
		}
	}
}
