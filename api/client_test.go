package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain fails the run if a client has left a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seller is a server that gives its answers in turn, the last one for ever.
type seller struct {
	url string

	mu      sync.Mutex
	answers []reply
	keys    []string // of the claims that came
	bodies  []string
}

// reply is one answer. With status 0 the connection breaks.
type reply struct {
	status int
	body   string
	after  string // Retry-After
}

// word is the answer that a server gives for an outcome.
func word(o Outcome) reply {
	row := o.Row()
	if o.Accepted() {
		return reply{status: row.Status, body: fmt.Sprintf(`{"outcome":%q,"claim":"1-2-3","sale":"movie","user":"ann","units":[7],"at":"2026-11-11T12:00:00Z"}`, o)}
	}
	return reply{status: row.Status, body: fmt.Sprintf(`{"status":%d,"detail":"because","outcome":%q}`, row.Status, o)}
}

var broken = reply{}

func sells(t *testing.T, answers ...reply) *seller {
	t.Helper()
	s := &seller{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.keys = append(s.keys, r.Header.Get(KeyHeader))
	s.bodies = append(s.bodies, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization")+" "+string(body))
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler)
	}
	if a.after != "" {
		w.Header().Set("Retry-After", a.after)
	}
	if a.status == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func (s *seller) came() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// buyer is a client whose waits take no time and are taken down.
type buyer struct {
	*Client
	waits []time.Duration
	tries []Attempt
}

// buys returns a client. It gives up after so many attempts.
func buys(t *testing.T, most int, change func(*Config), servers ...string) *buyer {
	t.Helper()
	b := new(buyer)
	cfg := Config{
		Servers: servers, Sale: "movie",
		// On a kept connection that breaks, net/http sends a claim again by itself.
		Transport: &http.Transport{DisableKeepAlives: true},
		Jitter:    func() float64 { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			b.waits = append(b.waits, d)
			return ctx.Err()
		},
		Attempted: func(a Attempt) bool {
			b.tries = append(b.tries, a)
			return a.Number < most
		},
	}
	if change != nil {
		change(&cfg)
	}
	c, err := NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b.Client = c
	return b
}

var forAnn = Request{User: "ann", Quantity: 2, Key: "k1"}

// A client repeats what the table requires, and nothing else.
func TestClientAsksAsTheTableSays(t *testing.T) {
	for _, row := range Outcomes() {
		for _, later := range []bool{false, true} {
			s := sells(t, word(row.Outcome))
			b := buys(t, 3, func(c *Config) { c.Later = later }, s.url)
			a, err := b.Claim(t.Context(), forAnn)
			want := 1
			if row.Retry == Again || row.Retry == Later && later {
				want = 3
			}
			if err != nil || a.Outcome != row.Outcome || a.Attempts != want || s.came() != want || len(b.waits) != want-1 {
				t.Errorf("%s: %v, %+v after %d requests and %v; want %d", row.Outcome, err, a, s.came(), b.waits, want)
			}
			if a.Status != row.Status || a.Outcome.Accepted() != (a.Claim.ID == "1-2-3" && a.Problem().Detail == "") {
				t.Errorf("%s: it reports %+v", row.Outcome, a)
			}
			if a.MayBeAccepted != (row.Outcome == Unknown) {
				t.Errorf("%s: may be accepted: %v", row.Outcome, a.MayBeAccepted)
			}
		}
	}
}

// All attempts are the same request, also where no key was given.
func TestClientKeepsTheKey(t *testing.T) {
	for _, key := range []string{"k1", ""} {
		s := sells(t, broken, word(Unknown), word(Standby), word(Sold))
		b := buys(t, 9, func(c *Config) { c.Token = "s3cret" }, s.url+"/")
		a, err := b.Claim(t.Context(), Request{User: `a"n`, Quantity: 2, Key: key})
		if err != nil || a.Outcome != Sold || a.Attempts != 4 || a.MayBeAccepted || a.Server != s.url || a.Replayed {
			t.Errorf("%v, %+v", err, a)
		}
		if same := slices.Compact(slices.Clone(s.keys)); len(same) != 1 || same[0] == "" || same[0] != a.Key || key != "" && key != a.Key {
			t.Errorf("the keys %q, and it reports %q", s.keys, a.Key)
		}
		if want := `POST /v1/sales/movie/claims Bearer s3cret {"user":"a\"n","quantity":2}`; s.bodies[0] != want || len(slices.Compact(s.bodies)) != 1 {
			t.Errorf("the requests %q, want %s", s.bodies, want)
		}
	}
	quoted := sells(t, word(Sold))
	if a, err := buys(t, 1, nil, quoted.url).Claim(t.Context(), Request{User: "ann", Key: `"k\1"`}); err != nil || a.Key != `"k\1"` || quoted.keys[0] != `"\"k\\1\""` {
		t.Errorf("a key with quotes: %v, %+v, sent as %q", err, a, quoted.keys)
	}
	first, second := sells(t, word(Sold)), sells(t, reply{200, word(Sold).body, ""})
	a, _ := buys(t, 1, nil, first.url).Claim(t.Context(), Request{User: "ann", Quantity: 1})
	again, _ := buys(t, 1, nil, second.url).Claim(t.Context(), Request{User: "ann", Quantity: 1})
	if a.Key == again.Key || a.Replayed || !again.Replayed {
		t.Errorf("two claims without a key: %+v, %+v", a, again)
	}
}

// Whether an attempt may have been accepted is reported until an answer has what
// became of it.
func TestClientTellsOfDoubt(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		answers []reply // none: nobody listens
		doubt   bool
	}{
		"nobody there":           {nil, false},
		"no answer":              {[]reply{broken}, true},
		"no answer, standby":     {[]reply{broken, word(Standby)}, true},
		"unknown, no quorum":     {[]reply{word(Unknown), word(NoQuorum)}, true},
		"unknown, closed":        {[]reply{word(Unknown), word(Closed)}, true},
		"unknown, no such sale":  {[]reply{word(Unknown), word(NoSuchSale)}, true},
		"unknown, bad request":   {[]reply{word(Unknown), word(BadRequest)}, true},
		"unknown, other server":  {[]reply{word(Unknown), {404, "<html>", ""}}, true},
		"a proxy gave up":        {[]reply{{504, "<html>", ""}}, true},
		"other server":           {[]reply{{404, "<html>", ""}}, false},
		"overloaded":             {[]reply{word(Overloaded)}, false},
		"unknown, sold out":      {[]reply{word(Unknown), word(SoldOut)}, false},
		"unknown, limit reached": {[]reply{word(Unknown), word(LimitReached)}, false},
		"no answer, sold":        {[]reply{broken, word(Sold)}, false},
	} {
		url := gone.URL
		if c.answers != nil {
			url = sells(t, c.answers...).url
		}
		if a, err := buys(t, max(len(c.answers), 2), nil, url).Claim(t.Context(), forAnn); a.MayBeAccepted != c.doubt {
			t.Errorf("%s: may be accepted: %v, %v", name, a.MayBeAccepted, err)
		}
	}
}

// A client waits as long as answers require, and up to a quarter more; and longer each
// time after attempts without an answer.
func TestClientWaits(t *testing.T) {
	for name, c := range map[string]struct {
		answers []reply
		change  func(*Config)
		want    []time.Duration
	}{
		"by Retry-After": {[]reply{{503, word(NoQuorum).body, "7"}, word(Overloaded), word(Sold)}, nil, []time.Duration{7 * time.Second, time.Second}},
		"a bound":        {[]reply{{503, word(NoQuorum).body, "7"}, word(Sold)}, func(c *Config) { c.MaxWait = 5 * time.Second }, []time.Duration{5 * time.Second}},
		"jitter": {[]reply{{503, word(NoQuorum).body, "8"}, word(Sold)}, func(c *Config) { c.Jitter = func() float64 { return 0.5 } },
			[]time.Duration{9 * time.Second}},
		"no answer": {[]reply{broken, broken, broken, broken, broken, broken, word(Sold)}, nil,
			[]time.Duration{100e6, 200e6, 400e6, 800e6, 1e9, 1e9}},
		"no answer, a bound": {[]reply{broken, broken, broken, broken, broken, broken, word(Sold)}, func(c *Config) { c.MaxWait = 2 * time.Second },
			[]time.Duration{100e6, 200e6, 400e6, 800e6, 1600e6, 2e9}},
		"an answer between":        {[]reply{broken, broken, word(Unknown), broken, word(Sold)}, nil, []time.Duration{100e6, 200e6, 1e9, 100e6}},
		"a proxy":                  {[]reply{{502, "<html>", ""}, {429, "<html>", "3"}, word(Sold)}, nil, []time.Duration{1e9, 3e9}},
		"a word of a later server": {[]reply{{503, `{"outcome":"asleep"}`, "3"}, word(Sold)}, nil, []time.Duration{3e9}},
	} {
		b := buys(t, 99, c.change, sells(t, c.answers...).url)
		if a, err := b.Claim(t.Context(), forAnn); err != nil || a.Outcome != Sold || !slices.Equal(b.waits, c.want) {
			t.Errorf("%s: %v, %s, waits %v; want %v", name, err, a.Outcome, b.waits, c.want)
		}
	}
}

// Where one server does not decide, each of the others is tried before the client
// waits. The next claim goes to the one that decided.
func TestClientAsksSeveralServers(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	standby, owner := sells(t, word(Standby)), sells(t, word(Sold))
	b := buys(t, 9, nil, gone.URL, standby.url, owner.url)
	for range 2 {
		if a, err := b.Claim(t.Context(), forAnn); err != nil || a.Outcome != Sold || a.Server != owner.url {
			t.Fatalf("%v, %+v", err, a)
		}
	}
	if standby.came() != 1 || owner.came() != 2 || len(b.waits) != 0 {
		t.Errorf("%d requests to the standby, %d to the owner, waits %v", standby.came(), owner.came(), b.waits)
	}

	one, two := sells(t, word(Standby), word(Standby), word(Sold)), sells(t, word(Draining))
	b = buys(t, 9, nil, one.url, two.url)
	if a, err := b.Claim(t.Context(), forAnn); err != nil || a.Outcome != Sold || a.Attempts != 5 || one.came() != 3 || two.came() != 2 {
		t.Errorf("%v, %+v, %d and %d requests", err, a, one.came(), two.came())
	}
	if want := []time.Duration{time.Second, time.Second}; !slices.Equal(b.waits, want) {
		t.Errorf("waits %v, want %v", b.waits, want)
	}
	if one.keys[0] != "k1" || two.keys[1] != "k1" {
		t.Errorf("the keys %q and %q", one.keys, two.keys)
	}

	// A server may answer for ever that it does not know, while another one does. The
	// longest wait of a round counts.
	lost, other := sells(t, word(Unknown)), sells(t, reply{429, word(Overloaded).body, "3"}, word(Standby), word(Sold))
	b = buys(t, 9, nil, lost.url, other.url)
	if a, err := b.Claim(t.Context(), forAnn); err != nil || a.Outcome != Sold || a.MayBeAccepted || lost.came() != 3 || other.came() != 3 {
		t.Errorf("%v, %+v, %d and %d requests", err, a, lost.came(), other.came())
	}
	if want := []time.Duration{3 * time.Second, time.Second}; !slices.Equal(b.waits, want) {
		t.Errorf("waits %v, want %v", b.waits, want)
	}
}

// deadlined is a context that ends as by its deadline, when the test ends it.
type deadlined struct{ context.Context }

func (d deadlined) Err() error {
	if d.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// When its context ends, a claim ends with what it knows.
func TestClientEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	for name, c := range map[string]struct {
		answers []reply
		want    string
		outcome Outcome
	}{
		"after an answer": {[]reply{word(Standby)}, "enough", Standby},
		"after none":      {[]reply{broken}, "enough: Post", ""},
	} {
		for _, ended := range []string{"deadline", "cancelled"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			if ended == "deadline" {
				ctx = deadlined{ctx}
			}
			b := buys(t, 99, func(cfg *Config) {
				cfg.Sleep = func(ctx context.Context, _ time.Duration) error {
					cancel(why)
					return Sleep(ctx, time.Minute)
				}
			}, sells(t, c.answers...).url)
			a, err := b.Claim(ctx, forAnn)
			cancel(nil)
			want := c.want
			if ended == "cancelled" {
				want = "enough"
			}
			if !errors.Is(err, why) || !strings.HasPrefix(err.Error(), want) || a.Outcome != c.outcome || a.Key != "k1" || a.Attempts != 1 {
				t.Errorf("%s, %s: %v, %+v; want %s", name, ended, err, a, want)
			}
		}
	}
	// A server that does not answer in time.
	received, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(received)
		<-release
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, why)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	go func() { <-received; stop(why) }()
	a, err := buys(t, 99, nil, server.URL).Claim(ctx, forAnn)
	if !errors.Is(err, why) || !a.MayBeAccepted || a.Outcome != "" {
		t.Errorf("%v, %+v", err, a)
	}
}

// What is no server of a sale gets no further request, and nothing follows a redirect.
func TestClientKnowsStrangers(t *testing.T) {
	for _, c := range []reply{{404, "<html>", ""}, {201, "<html>", ""}, {200, `{"hello":"world"}`, ""}, {401, "", ""}, {307, "", ""}, {403, `{"detail":"no"}`, ""}} {
		s := sells(t, c)
		b := buys(t, 9, nil, s.url)
		a, err := b.Claim(t.Context(), forAnn)
		var unexpected *UnexpectedError
		if !errors.As(err, &unexpected) || unexpected.StatusCode != c.status || a.Outcome != "" || s.came() != 1 || !strings.Contains(err.Error(), s.url) {
			t.Errorf("%+v: %v, %+v after %d requests", c, err, a, s.came())
		}
	}
	for body, want := range map[string]string{
		"":                       " answers 401 Unauthorized",
		`{"detail":"No token."}`: " answers 401 Unauthorized: No token.",
	} {
		if _, err := buys(t, 9, nil, sells(t, reply{401, body, ""}).url).Claim(t.Context(), forAnn); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("401 with %q: %v, want %q", body, err, want)
		}
	}
	if a, err := buys(t, 9, nil, "http://no-such-host.invalid").Claim(t.Context(), forAnn); err == nil || a.Attempts != 1 {
		t.Errorf("no such host: %v, %+v", err, a)
	}
	for _, url := range []string{"", "127.0.0.1:80", "ftp://h", "http://", "http://h?x=1", "http://h/#x"} {
		if _, err := NewClient(Config{Servers: []string{url}}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:8080") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := NewClient(Config{}); err == nil {
		t.Error("no server is enough")
	}
}

// Queries go to the servers in turn, and each kind of answer is distinguished.
func TestClientLooks(t *testing.T) {
	noon := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	sale, _ := json.Marshal(Sale{SaleSummary: SaleSummary{Sale: "movie", Phase: "open", OpensAt: noon}, Known: Known{Nodes: []Node{{Name: "a:1", Since: noon}}}})
	user, _ := json.Marshal(User{Sale: "movie", User: "a/b", Claims: []Claim{{ID: "1-2-3", Units: []int64{7}}}})
	standby := sells(t, word(Standby))

	s := sells(t, reply{200, string(sale), ""})
	if got, err := buys(t, 1, nil, standby.url, s.url).Status(t.Context()); err != nil || got.Phase != "open" || !got.OpensAt.Equal(noon) || got.Nodes[0].Name != "a:1" {
		t.Errorf("%v, %+v", err, got)
	}
	if want := "GET /v1/sales/movie  "; s.bodies[0] != want {
		t.Errorf("requested %q, want %q", s.bodies[0], want)
	}
	s = sells(t, reply{200, string(user), ""})
	if got, err := buys(t, 1, nil, s.url).User(t.Context(), "a/b", Page{}); err != nil || got.Claims[0].ID != "1-2-3" {
		t.Errorf("%v, %+v", err, got)
	}
	if want := "GET /v1/sales/movie/users/a%2Fb  "; s.bodies[0] != want {
		t.Errorf("requested %q, want %q", s.bodies[0], want)
	}
	if got, err := buys(t, 1, nil, s.url).User(t.Context(), "c", Page{}); err == nil {
		t.Errorf("another user: %+v", got)
	}
	claim, _ := json.Marshal(Claim{Outcome: Sold, ID: "1-2-3", Sale: "movie", Units: []int64{7}, Books: Books{Payment: "p1", RefundDue: []string{"p2"}}})
	s = sells(t, reply{200, string(claim), ""})
	if got, err := buys(t, 1, nil, standby.url, s.url).LookUp(t.Context(), "1-2-3", Page{}); err != nil || got.Payment != "p1" || !slices.Equal(got.RefundDue, []string{"p2"}) {
		t.Errorf("%v, %+v", err, got)
	}
	if want := "GET /v1/sales/movie/claims/1-2-3  "; s.bodies[0] != want {
		t.Errorf("requested %q, want %q", s.bodies[0], want)
	}
	if got, err := buys(t, 1, nil, s.url).LookUp(t.Context(), "1-2-4", Page{}); err == nil {
		t.Errorf("another claim: %+v", got)
	}
	_, err := buys(t, 1, nil, standby.url).Status(t.Context())
	var problem *Problem
	if !errors.As(err, &problem) || problem.Outcome != Standby || err.Error() != "standby: because" {
		t.Errorf("a standby: %v", err)
	}
	// The answer of one server is not lost behind another that has less.
	for _, order := range [][]reply{
		{word(NoSuchClaim), broken}, {broken, word(NoSuchClaim)}, {word(NoSuchClaim), word(Standby), word(NoSuchSale)},
		{word(NoSuchSale), broken}, {word(Standby), word(NoSuchSale)}, {word(NoSuchSale), {401, "", ""}},
	} {
		var urls []string
		want := order[0].body
		for _, answer := range order {
			urls = append(urls, sells(t, answer).url)
			want = cmp.Or(want, answer.body)
		}
		_, err := buys(t, 1, nil, urls...).LookUp(t.Context(), "1-2-3", Page{})
		if !errors.As(err, &problem) || !strings.Contains(want, string(problem.Outcome)) {
			t.Errorf("%v: %v", order, err)
		}
	}
	for _, c := range []reply{{200, `{"sale":"other"}`, ""}, {200, "hello", ""}, {302, "{}", ""}, {401, "", ""}} {
		_, err := buys(t, 1, nil, sells(t, c).url).Status(t.Context())
		if !errors.As(err, new(*UnexpectedError)) {
			t.Errorf("%+v: %v", c, err)
		}
	}

	for status, ready := range map[int]bool{200: true, 503: false} {
		body := fmt.Sprintf(`{"ready":%v,"sales":[{"sale":"movie","ready":%v}]}`, ready, ready)
		s := sells(t, reply{status, body, ""})
		got, err := buys(t, 1, nil, s.url).Ready(t.Context())
		if err != nil || got.Ready != ready || len(got.Sales) != 1 || s.bodies[0] != "GET /readyz  " {
			t.Errorf("%v, %+v after %q", err, got, s.bodies)
		}
	}
	for _, status := range []int{200, 404} {
		if got, err := buys(t, 1, nil, sells(t, reply{status, "{}", ""}).url).Ready(t.Context()); err == nil {
			t.Errorf("status %d, no admin address: %+v", status, got)
		}
	}
}
