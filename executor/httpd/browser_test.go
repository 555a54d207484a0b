package httpd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/internal/services/browser"
)

// TestWebPages lets web pages try to claim on a server that listens on loopback,
// and to read what it knows: as a page of another site, and as one whose name has
// been made to mean this machine after it was loaded (DNS rebinding).
func TestWebPages(t *testing.T) {
	browsing := browser.Start(t)
	run := func(page, script string) string {
		t.Helper()
		browser.Go(t, browsing, page)
		return browser.Run(t, browsing, script)
	}
	var mu sync.Mutex
	claimed := make(map[string]bool)
	movie := &httpdtest.Fake{Name: "movie",
		ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
			mu.Lock()
			defer mu.Unlock()
			claimed[r.User] = true
			return httpdtest.SoldTo(r.User)
		},
		UserFunc: func(string) ([]executor.Claim, api.Outcome) { return []executor.Claim{firstClaim}, "" },
	}
	has := func(user string) bool {
		mu.Lock()
		defer mu.Unlock()
		return claimed[user]
	}
	registry := prometheus.NewRegistry()
	s := New(Config{Sales: []executor.Service{movie}, Metrics: registry})
	registry.MustRegister(s.Collectors()...)
	buyers := serve(t, s)
	admin := serveWith(t, s, s.ServeAdmin)
	port := buyers.url[strings.LastIndex(buyers.url, ":"):]
	adminPort := admin.url[strings.LastIndex(admin.url, ":"):]

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>win a prize</title>")
	}))
	defer evil.Close()
	_, evilPort, _ := net.SplitHostPort(evil.Listener.Addr().String())

	bytes := `new TextEncoder().encode('{"user":"%s"}')`
	for user, script := range map[string]string{
		"bytes":  `fetch("` + buyers.url + claimsPath + `", {method: "POST", mode: "no-cors", body: ` + bytes + `})`,
		"text":   `fetch("` + buyers.url + claimsPath + `", {method: "POST", mode: "no-cors", body: '{"user":"%s"}'})`,
		"json":   `fetch("` + buyers.url + claimsPath + `", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"user":"%s"}'})`,
		"beacon": `navigator.sendBeacon("` + buyers.url + claimsPath + `", ` + bytes + `)`,
		"local":  `fetch("http://localhost` + port + claimsPath + `", {method: "POST", mode: "no-cors", body: ` + bytes + `})`,
	} {
		for _, site := range []string{"http://evil.example:" + evilPort, evil.URL} {
			t.Run(user+" from "+strings.Split(site, ":")[1][2:], func(t *testing.T) {
				got := run(site, fmt.Sprintf(script, user))
				if user == "beacon" { // it does not wait for an answer
					run(site, `fetch("`+buyers.url+`/v1/sales/movie", {mode: "no-cors"})`)
				}
				t.Logf("the page sees %s", got)
				if has(user) {
					t.Error("a page of another site has claimed")
				}
			})
		}
	}
	for name, c := range map[string]struct{ page, script string }{
		"claims": {"http://evil.example" + port, `fetch("` + claimsPath + `", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"user":"rebound"}'}).then(r => r.status)`},
		"reads":  {"http://evil.example" + port, `fetch("/v1/sales/movie/users/u").then(r => r.status)`},
		"health": {"http://evil.example" + adminPort, `fetch("/metrics").then(r => r.status)`},
	} {
		t.Run("rebound name "+name, func(t *testing.T) {
			if got := run(c.page, c.script); got != "403" || has("rebound") {
				t.Errorf("it gets %s", got)
			}
		})
	}
	// What a person does on their own machine still works.
	if got := run("http://localhost"+port+"/v1/sales/movie", `fetch("`+claimsPath+`", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"user":"me"}'}).then(r => r.status)`); got != "201" || !has("me") {
		t.Errorf("a page of the server itself gets %s", got)
	}
	if got := run("http://127.0.0.1"+adminPort+"/healthz", `document.body.innerText.trim()`); got != "ok" {
		t.Errorf("a person who looks at /healthz sees %q", got)
	}
}
