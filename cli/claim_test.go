package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// seller is a server that gives its answers in turn, the last one for ever.
type seller struct {
	mu      sync.Mutex
	answers []sellerAnswer
	keys    []string // of the requests that came
	bodies  []string
	tokens  []string
	paths   []string
}

type sellerAnswer struct {
	status int
	body   string
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.bodies = append(s.bodies, string(body))
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	s.paths = append(s.paths, r.URL.EscapedPath())
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if a.status == 0 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	if a.status == http.StatusMovedPermanently {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func refused(status int, outcome string) sellerAnswer {
	return sellerAnswer{status, fmt.Sprintf(`{"type":"about:blank","title":"x","status":%d,"detail":"because","outcome":%q}`, status, outcome)}
}

var soldOne = sellerAnswer{201, `{"outcome":"sold","claim":"1-2-3","sale":"tickets","user":"ann","units":[7],"at":"2026-11-11T12:00:00Z"}`}

func claimFrom(t *testing.T, s *seller, extra ...string) (c *capture, code int) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	c = newCapture()
	args := append([]string{"salectl", "claim", "--server", server.URL, "--sale", "tickets", "--user", "ann", "--json"}, extra...)
	return c, c.run(args, nil)
}

// Each outcome has its exit code, and the answer says it.
func TestClaimOutcomes(t *testing.T) {
	for _, test := range []struct {
		status  int
		outcome string
		code    int
	}{
		{409, "sold_out", 10}, {409, "none_now", 10}, {409, "limit_reached", 11},
		{403, "not_open", 12}, {403, "paused", 12}, {403, "closed", 12}, {403, "not_eligible", 3},
		{409, "expired", 3}, {409, "cancelled", 3}, {409, "refunded", 3},
		{400, "bad_request", 4}, {413, "bad_request", 4}, {422, "bad_request", 4}, {422, "key_reused", 4},
		{404, "no_such_sale", 1},
		{429, "overloaded", 7}, {503, "no_quorum", 7}, {503, "unknown", 7}, {503, "standby", 7}, {503, "draining", 7},
	} {
		t.Run(test.outcome, func(t *testing.T) {
			t.Parallel()
			timeout := "1m"
			if test.code == exitTimeout { // the claim is sent again until then
				timeout = "2s"
			}
			s := &seller{answers: []sellerAnswer{refused(test.status, test.outcome)}}
			c, code := claimFrom(t, s, "--timeout", timeout)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			var got decision
			if err := json.Unmarshal(c.out.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, &c.out)
			}
			if string(got.Outcome) != test.outcome || got.Detail != "because" || !strings.HasPrefix(c.out.String(), `{"formatVersion":1,`) || got.Sale != "tickets" {
				t.Errorf("it answers %s", &c.out)
			}
		})
	}
}

// A server that is not in charge is asked again with the same key, also when it
// broke off and may have accepted the claim.
func TestClaimAsksAgainWithTheSameKey(t *testing.T) {
	s := &seller{answers: []sellerAnswer{{}, refused(503, "unknown"), soldOne}}
	c, code := claimFrom(t, s, "--timeout", "1m")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, &c.err)
	}
	if len(s.keys) != 3 || s.keys[0] == "" || s.keys[0] != s.keys[1] || s.keys[1] != s.keys[2] {
		t.Errorf("the requests had the keys %q", s.keys)
	}
	if want := `{"user":"ann","quantity":1}`; s.bodies[2] != want {
		t.Errorf("the body is %s, want %s", s.bodies[2], want)
	}
	if !strings.Contains(c.err.String(), "unknown: because; retrying.") {
		t.Errorf("it says %s", &c.err)
	}
	if !strings.Contains(c.out.String(), `"units":[7]`) {
		t.Errorf("it answers %s", &c.out)
	}
}

// While a try may have been accepted the key is kept and told, whatever else the
// servers say that do not know.
func TestClaimInDoubt(t *testing.T) {
	lost, unknown := sellerAnswer{}, refused(503, "unknown")
	for name, test := range map[string]struct {
		answers []sellerAnswer
		code    int
		doubt   bool
	}{
		"unknown, then no quorum":      {[]sellerAnswer{unknown, refused(503, "no_quorum")}, 7, true},
		"no answer, then standby":      {[]sellerAnswer{lost, refused(503, "standby")}, 7, true},
		"unknown, then overloaded":     {[]sellerAnswer{unknown, refused(429, "overloaded")}, 7, true},
		"unknown, then draining":       {[]sellerAnswer{unknown, refused(503, "draining")}, 7, true},
		"unknown, then closed":         {[]sellerAnswer{unknown, refused(403, "closed")}, 12, true},
		"unknown, then no such sale":   {[]sellerAnswer{unknown, refused(404, "no_such_sale")}, 1, true},
		"unknown, then another server": {[]sellerAnswer{unknown, {404, "<html>"}}, 1, true},
		"no answer":                    {[]sellerAnswer{lost}, 7, true},
		"a proxy gave up":              {[]sellerAnswer{{504, "<html>"}}, 7, true},
		"unknown, then sold out":       {[]sellerAnswer{unknown, refused(409, "sold_out")}, 10, false},
		"unknown, then the limit":      {[]sellerAnswer{unknown, refused(409, "limit_reached")}, 11, false},
		"unknown, then sold":           {[]sellerAnswer{unknown, soldOne}, 0, false},
		"no quorum":                    {[]sellerAnswer{refused(503, "no_quorum")}, 7, false},
		"another server":               {[]sellerAnswer{{404, "<html>"}}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "1m"
			if test.code == 7 { // else the last answer ends it
				timeout = "1500ms"
			}
			run := func(extra ...string) (*capture, string) {
				server := httptest.NewServer(&seller{answers: append([]sellerAnswer(nil), test.answers...)})
				defer server.Close()
				c := newCapture()
				args := []string{"salectl", "claim", "--server", server.URL, "--sale", "tickets", "--user", "ann lee",
					"--quantity", "2", "--key", "k1", "--timeout", timeout}
				if code := c.run(append(args, extra...), nil); code != test.code {
					t.Errorf("exit code %d, want %d\n%s", code, test.code, &c.err)
				}
				return c, "salectl claim --server " + server.URL + " --sale tickets --user 'ann lee' --key k1 --quantity 2\n"
			}
			c, again := run()
			if said := c.out.String() + c.err.String(); strings.Contains(said, again) != test.doubt || strings.Contains(said, "unknown whether") != test.doubt {
				t.Errorf("in doubt: %v, and it says\n%s", test.doubt, said)
			}
			c, _ = run("--json")
			var got struct {
				Key           string `json:"key"`
				MayBeAccepted bool   `json:"mayBeAccepted"`
			}
			if err := json.Unmarshal(c.out.Bytes(), &got); err != nil || got.Key != "k1" || got.MayBeAccepted != test.doubt {
				t.Errorf("in doubt: %v, and it answers %s (%v)", test.doubt, &c.out, err)
			}
		})
	}
}

// What will not get better is not asked again.
func TestClaimGivesUpAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		answer sellerAnswer
		says   string
	}{
		"not salectl":  {sellerAnswer{404, "<html>"}, "which is not a response of salectl serve"},
		"no token":     {sellerAnswer{401, `{"status":401}`}, "the bearer token is missing"},
		"a redirect":   {sellerAnswer{301, ""}, "301"},
		"a wrong body": {sellerAnswer{200, `{"hello":"world"}`}, "not a response of salectl"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &seller{answers: []sellerAnswer{test.answer}}
			c, code := claimFrom(t, s, "--timeout", "1m")
			if code != 1 || !strings.Contains(c.err.String(), test.says) {
				t.Errorf("exit code %d, and it says %s", code, &c.err)
			}
			if len(s.keys) != 1 {
				t.Errorf("it asked %d times", len(s.keys))
			}
			var got decision
			if err := json.Unmarshal(c.out.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, &c.out)
			}
			want := decision{Sale: "tickets", User: "ann", Key: s.keys[0], Error: got.Error, ExitCode: 1}
			if !reflect.DeepEqual(got, want) || !strings.Contains(got.Error, test.says) {
				t.Errorf("it answers %s", &c.out)
			}
		})
	}
}

func TestClaimWithNobodyThere(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	c := newCapture()
	code := c.run([]string{"salectl", "claim", "--server", server.URL, "--sale", "s", "--user", "u", "--timeout", "50ms"}, nil)
	if code != 7 || !strings.Contains(c.err.String(), "timed out after 50ms: ") {
		t.Errorf("exit code %d, and it says %s", code, &c.err)
	}
}

// A claim that a signal cuts short has not timed out, at most been accepted.
func TestClaimInterrupted(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the server does not see that the client has gone
		close(asked)
		<-r.Context().Done()
	}))
	defer server.Close()
	signals := make(chan os.Signal, 2)
	go func() {
		<-asked
		signals <- os.Interrupt
	}()
	c := newCapture()
	args := []string{"salectl", "claim", "--server", server.URL, "--sale", "tickets", "--user", "ann", "--key", "k1", "--json"}
	if code := c.run(args, signals); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	want := "Interrupted.\nError: interrupted: it is unknown whether the claim was accepted\n" +
		"  Repeat the request: salectl claim --server " + server.URL + " --sale tickets --user ann --key k1\n"
	if got := c.err.String(); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	var got decision
	if err := json.Unmarshal(c.out.Bytes(), &got); err != nil || got.Key != "k1" || got.ExitCode != 130 {
		t.Errorf("it answers %s (%v)", &c.out, err)
	}
}

func TestClaimSendsWhatItWasTold(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &seller{answers: []sellerAnswer{{200, soldOne.body}}}
	c, code := claimFrom(t, s, "--key", "k1", "--quantity", "3", "--token-file", token, "--sale", "a/b?c")
	if code != 0 || !strings.Contains(c.out.String(), `"replayed":true`) {
		t.Errorf("exit code %d, and it answers %s", code, &c.out)
	}
	if s.keys[0] != "k1" || s.tokens[0] != "Bearer s3cret" || s.bodies[0] != `{"user":"ann","quantity":3}` ||
		s.paths[0] != "/v1/sales/a%2Fb%3Fc/claims" {
		t.Errorf("the request was %q %q %q %q", s.keys, s.tokens, s.bodies, s.paths)
	}
}
