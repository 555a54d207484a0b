package httpd

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/shard"
	"salectl/internal/services/browser"
)

// watch has somebody watch a sale at an admin address until the test ends.
func (v *serving) watch(t *testing.T, sale string) (status int, in *bufio.Reader) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", v.url+dashboard.Path+"sales/"+sale+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a.StatusCode, bufio.NewReader(a.Body)
}

// TestWatchersLeaveRoom has as many watch as may: health is still told, and the server ends
// without waiting for them.
func TestWatchersLeaveRoom(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	admin := serveWith(t, s, s.ServeAdmin)
	for range dashboard.MostViewers {
		if status, in := admin.watch(t, "movie"); status != 200 {
			t.Fatalf("status %d", status)
		} else if line, err := in.ReadString('\n'); err != nil || line != "event: history\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if status, _ := admin.watch(t, "movie"); status != 503 {
		t.Errorf("one more: status %d", status)
	}
	for range 2 * AdminConnections {
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(admin.url + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
	}
	admin.end()
	if <-admin.done; admin.err != nil {
		t.Error(admin.err)
	}
}

func TestDashboardIsFound(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	for path, want := range map[string]string{"/": "/dashboard/", "/dashboard": "/dashboard/", "/dashboard/": "/dashboard/sales/movie"} {
		if r := do(s.Admin(), "GET", path, "", nil); r.StatusCode/100 != 3 || r.Header.Get("Location") != want {
			t.Errorf("%s leads to %s: %d", path, r.Header.Get("Location"), r.StatusCode)
		}
	}
	if r := do(s, "GET", "/dashboard/sales/movie", "", nil); r.StatusCode != 404 {
		t.Errorf("buyers are shown the dashboard: %d", r.StatusCode)
	}
}

// TestLook holds what the pages are told against what the sale and the server know.
func TestLook(t *testing.T) {
	load := 12.3
	movie := &httpdtest.Fake{Name: "movie", ReadyFunc: func() error { return fmt.Errorf("stalled: shards 1 of 4") }, StatusFunc: func() executor.Status {
		return executor.Status{
			SaleSummary: api.SaleSummary{Sale: "movie", Phase: "open"}, Sells: true, Moves: []api.Move{{Shard: 2}},
			Shards: []executor.ShardStatus{
				{Report: shard.Report{Shard: 0, Totals: ledger.Totals{Limit: 10, Available: 3, Held: 2, Sold: 4, InFlight: 1, Owner: "a:1"}, Load: shard.Load{PerSecond: &load, Queue: 7}}},
				{Report: shard.Report{Shard: 1}, Stall: &executor.Stall{Error: "no answer"}}, {Report: shard.Report{Shard: 2, Totals: ledger.Totals{Owner: "b:1"}}}, {Report: shard.Report{Shard: 3}, Unknown: true, NoLease: true},
			},
		}
	}}
	s := New(Config{Sales: []executor.Service{movie}})
	of := s.sales()["movie"]
	of.Count("", api.Sold, 3*time.Millisecond)
	of.Count("", api.SoldOut, 20*time.Second)
	l := of.dashboardState(s.unready(of))
	if l.Unready != "stalled: shards 1 of 4" || l.Sale.Outcome != "" || l.Sale.Sold != 4 || l.Sale.Shards[1].Error != "no answer" {
		t.Errorf("%+v", l)
	}
	if len(l.Answers) != 2 || l.Answers[api.Sold] != 1 || l.Answers[api.SoldOut] != 1 {
		t.Errorf("answers: %v", l.Answers)
	}
	if b := l.Took.GetBucket(); len(b) != len(durations) || b[4].GetCumulativeCount() != 0 || b[5].GetCumulativeCount() != 1 ||
		b[len(b)-1].GetCumulativeCount() != 1 || l.Took.GetSampleCount() != 2 {
		t.Errorf("durations: %v", l.Took)
	}
	if got, want := l.Sale.Shards[0], (api.Shard{State: api.ShardSelling, Owner: "a:1", Available: 3, Held: 2, Sold: 4, Load: &load, Waiting: 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if s := l.Sale.Shards; s[1].State != api.ShardStalled || s[2].State != api.ShardMoving || s[3].State != api.ShardNoLease {
		t.Errorf("%+v", s)
	}
}

// TestDashboardFollowsClaims watches a real sale in a real browser while claims come over
// HTTP, until it is sold out.
func TestDashboardFollowsClaims(t *testing.T) {
	w := browser.Start(t)
	e := serveReal(t, "movie", 50)
	s := New(Config{Sales: []executor.Service{e}, Address: "127.0.0.1:1"})
	buyers, admin := serve(t, s), serveWith(t, s, s.ServeAdmin)
	browser.Go(t, w, admin.url)
	shown := func(id string) string {
		return `document.querySelector("#` + id + `").innerText.replace(/\s+/g, " ")`
	}
	browser.Until(t, w, shown("tiles")+` === "For sale 50 Sold 0 Stock 50"`)
	browser.Until(t, w, shown("processes")+`.includes("127.0.0.1:1 (this one) serving 5")`)
	claim := func(user string) int {
		r, err := buyers.client.Post(buyers.url+"/v1/sales/movie/claims", "application/json", strings.NewReader(`{"user":"`+user+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		return r.StatusCode
	}
	for i := range 20 {
		if status := claim(fmt.Sprint("u", i)); status != 201 {
			t.Fatalf("status %d", status)
		}
	}
	browser.Until(t, w, shown("tiles")+` === "For sale 30 Sold 20 Stock 50"`)
	browser.Until(t, w, shown("outcomes")+`.includes("sold Accepted")`)
	for i := 20; claim(fmt.Sprint("u", i)) != 409; i++ {
	}
	browser.Until(t, w, shown("phase")+`.includes("Sold out")`)
	browser.Until(t, w, `document.querySelector("#announcement").textContent === "movie: Sold out."`)
	browser.Until(t, w, shown("shards-legend")+`.trim() === "sold out: 5"`)
	browser.Shoot(t, w, "real")
}
