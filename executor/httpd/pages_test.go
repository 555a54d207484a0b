package httpd

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"salectl/api"
	"salectl/executor"
)

// What browsers say of who asks: for a claim, and for a look, which no page of
// another site can read.
func TestOtherSites(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&fake{name: "movie",
		claim: func(_ context.Context, r executor.Request) executor.Answer { return soldTo(r.User) },
		user:  func(string) ([]executor.Claim, api.Outcome) { return nil, "" },
	}}})
	for name, c := range map[string]struct {
		header http.Header
		claims int
	}{
		"no browser":               {http.Header{}, 201},
		"the server's own page":    {http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://shop.test"}}, 201},
		"a person":                 {http.Header{"Sec-Fetch-Site": {"none"}}, 201},
		"another site's":           {http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://evil.test"}}, 403},
		"another port of the site": {http.Header{"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://shop.test:81"}}, 403},
		"an old browser":           {http.Header{"Origin": {"http://evil.test"}}, 403},
		"an old browser, in a box": {http.Header{"Origin": {"null"}}, 403},
		"an old browser, own page": {http.Header{"Origin": {"http://shop.test"}}, 201},
	} {
		t.Run(name, func(t *testing.T) {
			c.header.Set("Host", "x") // which is not where the host stands
			if r := do(s, "POST", "http://shop.test"+claimsPath, `{"user":"u"}`, c.header); r.StatusCode != c.claims {
				t.Errorf("a claim: status %d, want %d", r.StatusCode, c.claims)
			}
			if r := do(s, "GET", "http://shop.test/v1/sales/movie/users/u", "", c.header); r.StatusCode != 200 {
				t.Errorf("a look: status %d", r.StatusCode)
			}
		})
	}
}

// On loopback only those names are answered to that mean this machine everywhere.
func TestHosts(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for name, c := range map[string]struct {
		at   net.Addr
		more []string
		ok   []string
		not  []string
	}{
		"loopback": {loopback, nil,
			[]string{"127.0.0.1:8080", "127.0.0.1", "localhost", "LocalHost:9090", "localhost.", "[::1]:8080", "[::1]", ""},
			[]string{"evil.test", "evil.test:8080", "127.0.0.1.evil.test", "localhost.evil.test:8080", "127.8.0.1:8080", "192.168.0.1:8080", "box:8080", "127.0.0.1:8080:1"}},
		"its own name": {loopback, []string{"Box"}, []string{"box:8080", "localhost"}, []string{"boxes:8080"}},
		"another of 127": {&net.TCPAddr{IP: net.IPv4(127, 8, 0, 1), Port: 1}, nil,
			[]string{"127.8.0.1:1", "127.8.0.1:2", "localhost"}, []string{"127.9.0.1:1"}},
		"IPv6":     {&net.TCPAddr{IP: net.IPv6loopback, Port: 8080}, nil, []string{"[::1]:8080", "localhost:8080"}, []string{"evil.test:8080", "[::2]:8080"}},
		"beyond":   {&net.TCPAddr{IP: net.IPv4(192, 168, 0, 1), Port: 8080}, nil, []string{"shop.test", "192.168.0.1"}, nil},
		"anywhere": {&net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}, nil, []string{"shop.test"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := withHosts(c.at, c.more, inner)
			ask := func(host string, want int) {
				r := httptest.NewRequest("GET", "/", nil)
				r.Host = host
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("Host %q: status %d, want %d", host, w.Code, want)
				}
			}
			for _, host := range c.ok {
				ask(host, 200)
			}
			for _, host := range c.not {
				ask(host, 403)
			}
		})
	}
}

// Both listeners are guarded; with a token the buyers' is by that.
func TestListenersAreGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		token string
		admin bool
		want  int
	}{
		"buyers": {"", false, 403}, "buyers with a token": {"secret", false, 401}, "admin": {"", true, 403}, "admin beside a token": {"secret", true, 403},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Sales: []executor.Service{&fake{name: "movie"}}, Tokens: tokensOf(t, c.token)})
			run, path := s.Serve, "/v1/sales/movie/users/u"
			if c.admin {
				run, path = s.ServeAdmin, "/healthz"
			}
			v := serveWith(t, s, run)
			r, err := http.NewRequest("GET", v.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "evil.test"
			got, err := v.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode != c.want {
				t.Errorf("status %d, want %d", got.StatusCode, c.want)
			}
		})
	}
}
