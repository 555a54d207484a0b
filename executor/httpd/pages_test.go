package httpd

import (
	"context"
	"net/http"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// What browsers say of who asks: for a claim, and for a look, which no page of
// another site can read.
func TestOtherSites(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie",
		ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) },
		UserFunc:  func(string) ([]executor.Claim, api.Outcome) { return nil, "" },
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
			s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}, Tokens: tokensOf(t, c.token)})
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
