package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/internal/wait"
)

// TestMain fails the run if somebody who watches is left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is a dashboard of a sale that counts how often it is looked at, on a clock that
// stands still until it is told to go on, and then goes on by a second.
type counted struct {
	*Dashboard
	url    string
	looks  atomic.Int64
	passed atomic.Int64
}

func newCounted(t *testing.T, viewers int, names ...string) *counted {
	t.Helper()
	c := new(counted)
	c.Dashboard = New("", viewers, func() clock.Now {
		passed := time.Duration(c.passed.Load())
		return clock.Now{Wall: noon.Add(passed), Mono: time.Hour + passed}
	})
	for _, name := range names {
		c.Add(Sale{name, func() State {
			c.looks.Add(1)
			return State{Sale: &api.Sale{SaleSummary: api.SaleSummary{Sale: name, Phase: "open"}}}
		}})
	}
	c.passed.Add(int64(990 * time.Millisecond)) // those who watch ask for the next tick soon
	server := httptest.NewServer(c.Handler())
	t.Cleanup(func() { c.Close(); server.Close() })
	c.url = server.URL
	return c
}

func (c *counted) get(t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", c.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a
}

// events are those of an answer, one by one, by their names.
func events(a *http.Response) func() string {
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	return func() string {
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				return name
			}
		}
		return "none"
	}
}

// TestRecord records a sale without a viewer. A later viewer gets the earlier points.
func TestRecord(t *testing.T) {
	c := newCounted(t, 1, "movie")
	ctx, stop := context.WithCancel(t.Context())
	var recording sync.WaitGroup
	recording.Go(func() { c.Record(ctx) })
	for looks := int64(1); looks <= 3; looks++ {
		wait.Until(t, "the next look", func() bool { return c.looks.Load() == looks })
		c.passed.Add(int64(time.Second))
	}
	stop()
	recording.Wait()
	a := c.get(t, "/dashboard/sales/movie/events")
	lines := bufio.NewScanner(a.Body)
	lines.Scan() // the name of the event
	lines.Scan()
	var history []point
	data, _ := strings.CutPrefix(lines.Text(), "data: ")
	if err := json.Unmarshal([]byte(data), &history); err != nil || len(history) < 4 {
		t.Errorf("%v; the history has %d points: %s", err, len(history), data)
	}
}

// TestWatch has ten watch a sale: without Record, it is looked at once a second for all of
// them, and not at all when they have gone.
func TestWatch(t *testing.T) {
	c := newCounted(t, 10, "movie")
	if c.get(t, "/dashboard/sales/movie"); c.looks.Load() != 0 {
		t.Error("the sale is looked at for a page that nobody watches")
	}
	var all []func() string
	watching, leave := context.WithCancel(t.Context())
	defer leave()
	for range 10 {
		r, err := http.NewRequestWithContext(watching, "GET", c.url+"/dashboard/sales/movie/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("the events are %s", got)
		}
		defer a.Body.Close()
		all = append(all, events(a))
	}
	for _, next := range all {
		if first, second := next(), next(); first != "history" || second != "snapshot" {
			t.Errorf("one who comes is told %s, %s", first, second)
		}
	}
	if n := c.looks.Load(); n != 1 {
		t.Errorf("ten who come in one second look %d times", n)
	}
	c.passed.Add(int64(time.Second))
	for _, next := range all {
		for range 3 { // what was told of the second before comes again, as often as the clock is slow
			if got := next(); got != "snapshot" {
				t.Fatalf("they are told %s", got)
			}
		}
	}
	if n := c.looks.Load(); n != 2 {
		t.Errorf("in two seconds ten look %d times", n)
	}

	a := c.get(t, "/dashboard/sales/movie/events")
	if body, _ := io.ReadAll(a.Body); a.StatusCode != 503 || a.Header.Get("Retry-After") != "10" || !strings.HasPrefix(string(body), "10 pages show this process already") {
		t.Errorf("one more: %d, %s", a.StatusCode, body)
	}
	leave()
	for _, next := range all {
		for next() != "none" {
		}
	}
	// There is room again, when the server has noticed.
	for {
		a := c.get(t, "/dashboard/sales/movie/events")
		if a.StatusCode == 200 {
			next := events(a)
			next()
			c.Close()
			for next() != "none" {
			}
			break
		}
	}
}

// Who watches a sale that is removed gives their place back.
func TestRemove(t *testing.T) {
	c := newCounted(t, 1, "movie", "opera")
	next := events(c.get(t, "/dashboard/sales/movie/events"))
	next()
	c.Remove("movie")
	for next() != "none" {
	}
	if a := c.get(t, "/dashboard/sales/movie/events"); a.StatusCode != 404 {
		t.Errorf("it is shown still: %d", a.StatusCode)
	}
	if lists := c.get(t, "/dashboard/events"); lists.StatusCode != 200 {
		t.Errorf("the place of who watched it is taken: %d", lists.StatusCode)
	}
	if _, names := c.named(""); !slices.Equal(names, []string{"opera"}) {
		t.Errorf("shown are %v", names)
	}
}

func TestPages(t *testing.T) {
	one, two := newCounted(t, 1, "movie"), newCounted(t, 1, "movie", "concert")
	for _, c := range []struct {
		of     *counted
		path   string
		status int
		has    string // in the body, or where it leads
	}{
		{one, "/dashboard/", 302, "/dashboard/sales/movie"},
		{two, "/dashboard/", 200, `<a href="sales/concert">concert</a>`},
		{two, "/dashboard/sales/concert", 200, `<h1>concert</h1>`},
		{two, "/dashboard/sales/concert", 200, `All sales`},
		{two, "/dashboard/sales/concert/", 404, ""},
		{two, "/dashboard/sales/none", 404, "no sale of this name"},
		{two, "/dashboard/sales/none/events", 404, "no sale of this name"},
		{two, "/dashboard/dashboard.css", 200, "Okabe"},
		{two, "/dashboard/sale.js", 200, "import"},
		{two, "/dashboard/sale.html", 404, ""},
		{two, "/dashboard/dashboard.go", 404, ""},
	} {
		a := c.of.get(t, c.path)
		body, _ := io.ReadAll(a.Body)
		if a.StatusCode != c.status || !strings.Contains(string(body)+a.Header.Get("Location"), c.has) {
			t.Errorf("%s: %d, %s", c.path, a.StatusCode, body)
		}
		policy := a.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", c.path, a.Header)
		}
	}
	if body, _ := io.ReadAll(one.get(t, "/dashboard/sales/movie").Body); strings.Contains(string(body), "All sales") {
		t.Error("the page of the only sale leads to others")
	}
	files, err := web.ReadDir("web")
	if err != nil {
		t.Fatal(err)
	}
	media := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	for _, file := range files {
		want, ok := media[path.Ext(file.Name())]
		if a := one.get(t, Path+file.Name()); (a.StatusCode == 200) != ok || ok && a.Header.Get("Content-Type") != want {
			t.Errorf("%s: %d %v", file.Name(), a.StatusCode, a.Header)
		}
	}
}

// A page of another site takes nobody's place. It may lead here.
func TestOtherSites(t *testing.T) {
	c := newCounted(t, 1, "movie")
	for _, site := range []string{"cross-site", "same-site"} {
		if a := c.get(t, "/dashboard/sales/movie/events", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "cors"); a.StatusCode != 403 {
			t.Errorf("%s: %d", site, a.StatusCode)
		}
		if a := c.get(t, "/dashboard/sales/movie", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate"); a.StatusCode != 200 {
			t.Errorf("a link from %s: %d", site, a.StatusCode)
		}
	}
	if c.looks.Load() != 0 {
		t.Error("the sale was looked at")
	}
}

// TestList tells of all sales in one event.
func TestList(t *testing.T) {
	c := newCounted(t, 1, "movie", "concert")
	a := c.get(t, "/dashboard/events")
	in := bufio.NewReader(a.Body)
	name, _ := in.ReadString('\n')
	data, _ := in.ReadString('\n')
	if name != "event: sales\n" || strings.Index(data, `"sale":"concert"`) > strings.Index(data, `"sale":"movie"`) || c.looks.Load() != 2 {
		t.Errorf("%s%s", name, data)
	}
}
