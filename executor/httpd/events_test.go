package httpd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/embedded"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/executor"
	"salectl/executor/httpd/events"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/saletest"
	"salectl/internal/services/browser"
	"salectl/internal/wait"
	"salectl/spec"
)

const eventsPath = "/v1/sales/movie/events"

// resolvedLine is in the last line of a batch that has anything in it.
const resolvedLine = `"type":"salectl.resolved"`

// followable is a sale that can be followed.
type followable struct {
	httpdtest.Fake
	logs ledger.Logs
}

func (f *followable) Logs() ledger.Logs { return f.logs }

// newFollowable is a sale of two shards in a store.
func newFollowable(t *testing.T, logs ledger.Logs) *followable {
	t.Helper()
	saletest.ProvisionAs(t, logs, saletest.Declared("movie", 40_000, 2, 5), []int64{20_000, 20_000}, &pb.Settings{PerUserLimit: 5, Phase: pb.Phase_OPEN})
	f := &followable{httpdtest.Fake{Name: "movie"}, logs}
	for shard := range 2 {
		f.says(t, shard, func(d *ledger.Draft) { d.Own("here") })
	}
	return f
}

// says appends what an owner of a shard says.
func (f *followable) says(t *testing.T, shard int, say func(d *ledger.Draft)) {
	t.Helper()
	log := spec.ShardLog(saletest.UID, shard, 2)
	state := ledger.NewState(log)
	w, err := ledger.Load(t.Context(), f.logs, log, state)
	if err != nil {
		t.Fatal(err)
	}
	d := state.Draft(saletest.Planner, saletest.PlannedUs)
	say(d)
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	saletest.Append(t, f.logs, w, e)
}

func (f *followable) sells(t *testing.T, shard int, user string) {
	t.Helper()
	f.says(t, shard, func(d *ledger.Draft) { d.Claim(user, "k", 1) })
}

// destroys ends the sale, after a follower was told each shard's last word.
func (f *followable) destroys(t *testing.T, sealed func()) {
	t.Helper()
	saletest.Replan(t, f.logs, "movie", func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	op := &pb.Sealed{ExportDigest: []byte{0xab, 0xcd}}
	for shard := range 2 {
		saletest.Take(t, f.logs, "movie", shard)
		f.says(t, shard, func(d *ledger.Draft) { d.Seal() })
		s := saletest.LoadShard(t, f.logs, shard, 2)
		root := s.Root()
		op.Roots, op.Slots = append(op.Roots, root[:]), append(op.Slots, s.Next())
	}
	sealed()
	saletest.AppendSale(t, f.logs, "movie", &pb.Op{Op: &pb.Op_Sealed{Sealed: op}})
	for shard := range 2 {
		if err := f.logs.Delete(t.Context(), spec.ShardLog(saletest.UID, shard, 2), op.Slots[shard]-1); err != nil {
			t.Fatal(err)
		}
	}
	saletest.AppendSale(t, f.logs, "movie", &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}})
}

// hearing is one who follows, and what came until now.
type hearing struct {
	*testing.T
	response *http.Response
	lines    *bufio.Reader
}

// hear follows by a URL, with headers in turn with their values.
func hear(t *testing.T, url string, header ...string) *hearing {
	t.Helper()
	return hearBy(t, &http.Transport{}, url, header...)
}

func hearBy(t *testing.T, transport *http.Transport, url string, header ...string) *hearing {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(wait.Limit, cancel) // what is waited for never comes
	t.Cleanup(func() { hung.Stop(); cancel(); response.Body.Close(); transport.CloseIdleConnections() })
	return &hearing{t, response, bufio.NewReader(response.Body)}
}

// until reads lines until one has a text, and returns all that it has read.
func (l *hearing) until(text string) string {
	l.Helper()
	var all strings.Builder
	for {
		line, err := l.lines.ReadString('\n')
		if all.WriteString(line); err != nil {
			l.Fatalf("no %q, but %v behind\n%.3000s", text, err, all.String())
		}
		if strings.Contains(line, text) {
			return all.String()
		}
	}
}

// refused wants an answer that is no feed.
func refused(t *testing.T, url string, status int, text string, header ...string) http.Header {
	t.Helper()
	l := hear(t, url, header...)
	body, err := io.ReadAll(l.lines)
	if err != nil || l.response.StatusCode != status || !strings.Contains(string(body), text) {
		t.Errorf("%s %q: %d %s, %v; want %d with %q", url, header, l.response.StatusCode, body, err, status, text)
	}
	return l.response.Header
}

// followAll collects what a client is told until it has so many events beside those that end
// batches, or all if that is 0.
func followAll(t *testing.T, c *api.Client, from string, most int) (ids []string, positions []string) {
	t.Helper()
	for events, err := range c.Follow(t.Context(), api.Following{From: from}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Events[:len(events.Events)-1] {
			_, id, _ := strings.Cut(string(e.JSON), `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			ids = append(ids, id+" "+e.Type)
		}
		positions = append(positions, events.Position)
		if most > 0 && len(ids) >= most {
			break
		}
	}
	return ids, positions
}

func clientOf(t *testing.T, urls ...string) *api.Client {
	t.Helper()
	c, err := api.NewClient(api.Config{Servers: urls, Sale: "movie", Transport: &http.Transport{}, MaxWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestEvents follows a sale in a store on disk from its beginning to behind its end.
func TestEvents(t *testing.T) {
	logs, err := embedded.OpenLogs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	sale := newFollowable(t, logs)
	v := serve(t, New(Config{Sales: []executor.Service{sale, &httpdtest.Fake{Name: "other"}}}))
	url, c := v.url+eventsPath, clientOf(t, v.url)

	// What is written: an id with what ends a batch, and nowhere else.
	l := hear(t, url)
	if h := l.response.Header; l.response.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", l.response.StatusCode, h)
	}
	first := l.until(resolvedLine)
	if !strings.HasPrefix(first, `event: salectl.sale.planned`+"\n"+`data: {"specversion":"1.0","type":"salectl.sale.planned","source":"/v1/sales/movie/`) {
		t.Errorf("it begins with %.200s", first)
	}
	_, id, _ := strings.Cut(first, "\nid: ")
	id, _, _ = strings.Cut(id, "\n")
	if strings.Count(first, "\nid: ") != 1 || !strings.Contains(first, "\n\nid: "+id+"\nevent: salectl.resolved\ndata: ") || !strings.Contains(first, `"position":"`+id+`"`) {
		t.Fatalf("the ids in\n%s", first)
	}
	sale.sells(t, 1, "ada & <co>")
	l.until(`"user":"ada & <co>"`)
	l.until(resolvedLine)

	// From each position on there is what comes behind it, by the header also where the URL says
	// something else.
	sale.sells(t, 0, "bob")
	ids, positions := followAll(t, c, "", 6)
	if len(ids) != 6 || !slices.Contains(ids, "0-2-0 salectl.claim.sold") || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 6 {
		t.Fatalf("events %q", ids)
	}
	sale.sells(t, 0, "carl")
	for _, header := range []string{"", "Last-Event-ID"} {
		l = hear(t, url+"?commits=true&from="+positions[len(positions)-1])
		if header != "" {
			l = hear(t, url+"?commits=true&from=now", header, positions[len(positions)-1])
		}
		if rest := l.until("carl"); strings.Count(rest, "event: salectl.claim.sold") != 1 || strings.Count(rest, "event: salectl.commit") != 1 {
			t.Errorf("the rest is\n%s", rest)
		}
	}
	l = hear(t, url+"?from=now&commits=false")
	l.until(resolvedLine)
	sale.sells(t, 0, "dan")
	if rest := l.until("dan"); strings.Contains(rest, "carl") || strings.Contains(rest, "event: salectl.commit") {
		t.Errorf("from now on there is\n%s", rest)
	}

	// What is refused.
	for query, text := range map[string]string{
		"?from=": "from: not a position", "?from=rubbish": "not a position", "?commits=1": "commits: must be true or false",
		"?form=now": "form: unknown parameter", "?from=now&from=now": "from: given twice", "?from=" + id[:len(id)-3]: "not a position", "?%": "the query",
	} {
		refused(t, url+query, 400, text)
	}
	refused(t, url, 400, "Last-Event-ID: not a position", "Last-Event-ID", "rubbish")
	refused(t, v.url+"/v1/sales/none/events", 404, "no_such_sale")
	refused(t, v.url+"/v1/sales/other/events", 404, "There is nothing at this path")
	refused(t, url+"/more", 404, "There is nothing at this path")
	refused(t, url, 403, "Web pages of other sites may not send this request.", "Sec-Fetch-Site", "cross-site")
	if r, err := v.client.Post(url, "application/json", nil); err != nil || r.StatusCode != 405 {
		t.Errorf("POST: %v, %v", r, err)
	} else {
		r.Body.Close()
	}
	if r, err := v.client.Head(url); err != nil || r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %v, %v", r, err)
	} else {
		r.Body.Close()
	}

	// The end: it is told, then there is nothing more, and nothing is left for those behind it.
	l = hear(t, url)
	l.until("dan")
	sale.destroys(t, func() {
		for range 2 {
			l.until(`"type":"salectl.shard.sealed"`)
		}
		l.until(resolvedLine)
	})
	end := l.until(`"ended":true`)
	if !strings.Contains(end, "salectl.sale.sealed") || !strings.Contains(end, "salectl.sale.destroyed") {
		t.Errorf("the end is\n%s", end)
	}
	if rest, err := io.ReadAll(l.lines); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("behind the end there is %q, %v", rest, err)
	}
	last := end[strings.LastIndex(end, `"position":"`)+len(`"position":"`):]
	last, _, _ = strings.Cut(last, `"`)
	refused(t, url, 204, "", "Last-Event-ID", last)
	if ids, _ := followAll(t, c, last, 0); ids != nil {
		t.Errorf("behind the end a client is told %q", ids)
	}
	for _, from := range []string{"", "?from=" + positions[0]} {
		refused(t, url+from, 410, `"exportDigest":"abcd"`)
	}
	var problem *api.Problem
	for _, err := range c.Follow(t.Context(), api.Following{}) {
		if !errors.As(err, &problem) || problem.Status != 410 || problem.ExportDigest != "abcd" {
			t.Errorf("a client that is too late is told %v", err)
		}
	}

	// Another run knows nothing of it.
	other := newFollowable(t, memory.NewStore().Handle(nil))
	w := serve(t, New(Config{Sales: []executor.Service{other}}))
	for shard := range 2 {
		other.sells(t, shard, "eve")
	}
	refused(t, w.url+eventsPath, 409, "the position is not of this sale's ledger", "Last-Event-ID", positions[len(positions)-1])
}

// TestEventsNeedARight: who may claim may not follow, who may follow may do nothing else, and
// whose token goes is told nothing more.
func TestEventsNeedARight(t *testing.T) {
	sale := newFollowable(t, memory.NewStore().Handle(nil))
	tokens := tokensOf(t, "shop claim\nbooks follow\nops\n")
	s := New(Config{Sales: []executor.Service{sale}, Tokens: tokens})
	changeFeeds(s, func(c *events.Config) { c.Heartbeat = 20 * time.Millisecond })
	v := serve(t, s)
	url := v.url + eventsPath
	if h := refused(t, url, 401, "Send a token"); h.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%v", h)
	}
	h := refused(t, url, 403, "This request needs a token with the right follow", "Authorization", "Bearer shop")
	if got := h.Get("WWW-Authenticate"); got != `Bearer error="insufficient_scope", scope="follow"` {
		t.Errorf("%s", got)
	}
	for _, path := range []string{"", "/users/ada", "/claims/0-1-0"} {
		refused(t, v.url+"/v1/sales/movie"+path, 403, "Forbidden", "Authorization", "Bearer books")
	}
	refused(t, v.url+"/v1/sales", 403, "This request needs a token with the right claim", "Authorization", "Bearer books")
	hear(t, url, "Authorization", "Bearer ops").until(resolvedLine)
	l := hear(t, url, "Authorization", "Bearer books")
	l.until(`"type":"salectl.shard.generation"`)
	l.until(`"type":"salectl.shard.generation"`)
	l.until(":\n") // nothing is left to be told
	rewrite(t, tokens, "ops\n")
	l.until(": the token has lost the right follow")
	if rest, err := io.ReadAll(l.lines); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("then there is %q, %v", rest, err)
	}
	refused(t, url, 401, "Send a token", "Authorization", "Bearer books")
}

// TestFollowersAreBounded: there are so many at most, metrics tell of them, and one who leaves
// makes room.
func TestFollowersAreBounded(t *testing.T) {
	sale := newFollowable(t, memory.NewStore().Handle(nil))
	s := New(Config{Sales: []executor.Service{sale, &httpdtest.Fake{Name: "other"}}, Followers: 1})
	v := serve(t, s)
	values := func() (all map[string]float64) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(states{s})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all = make(map[string]float64)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if !strings.HasPrefix(f.GetName(), "salectl_feed_") {
					continue
				}
				all[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return all
	}
	l := hear(t, v.url+eventsPath)
	l.until(resolvedLine)
	h := refused(t, v.url+eventsPath, 503, "This process has 1 followers")
	if h.Get("Retry-After") != "5" {
		t.Errorf("%v", h)
	}
	got := values()
	if lag, there := got["salectl_feed_lag_seconds movie"]; got["salectl_feed_followers movie"] != 1 || got["salectl_feed_followers other"] != 0 || !there || lag < 0 || len(got) != 3 {
		t.Errorf("%v", got)
	}
	l.response.Body.Close()
	wait.Until(t, "nobody follows", func() bool { return values()["salectl_feed_followers movie"] == 0 })
	if got := values(); len(got) != 2 {
		t.Errorf("%v", got)
	}
	hear(t, v.url+eventsPath).until(resolvedLine)
}

// TestFollowersLeave: a server that goes down waits neither for one who follows nor for one who
// takes nothing, and a client goes on elsewhere.
func TestFollowersLeave(t *testing.T) {
	sale := newFollowable(t, memory.NewStore().Handle(nil))
	here, there := serve(t, New(Config{Sales: []executor.Service{sale}})), serve(t, New(Config{Sales: []executor.Service{sale}}))
	// One takes nothing of what is more than a connection keeps.
	for n := range 5 {
		sale.says(t, 0, func(d *ledger.Draft) {
			for i := range 2000 {
				d.Claim(fmt.Sprint(strings.Repeat("u", 240), n, "-", i), strings.Repeat("k", 250), 1)
			}
		})
	}
	deaf, err := net.Dial("tcp", here.url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	fmt.Fprintf(deaf, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", eventsPath)
	wait.Until(t, "one follows", func() bool {
		n, _ := here.feeds.Lag(here.sales()["movie"].feed)
		return n == 1
	})

	l := hear(t, here.url+eventsPath+"?from=now")
	l.until(resolvedLine)
	c, sold, users := clientOf(t, here.url, there.url), false, 0
	for events, err := range c.Follow(t.Context(), api.Following{From: "now"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Events {
			if strings.Contains(string(e.JSON), `"user":"later-`) {
				users++
			}
		}
		if users >= 2 {
			break
		}
		if !sold {
			sale.sells(t, 1, "later-1")
			sold = true
		}
		if users == 1 {
			here.end()
			<-here.done
			if here.err != nil {
				t.Errorf("the server ends with %v", here.err)
			}
			sale.sells(t, 1, "later-2")
		}
	}
	l.until(": the server shuts down: continue at another process of the sale")
	if rest, err := io.ReadAll(l.lines); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("then there is %q, %v", rest, err)
	}
}

// changeFeeds has a server that serves nothing yet serve feeds by another configuration.
func changeFeeds(s *Server, change func(*events.Config)) {
	c := s.feedConfig()
	change(&c)
	s.feeds = events.New(c)
}

// TestEventsOverHTTP2: a feed on which nothing is written for longer than a write may take goes on.
func TestEventsOverHTTP2(t *testing.T) {
	synctest.Test(t, eventsOverHTTP2)
}

func eventsOverHTTP2(t *testing.T) {
	sale := newFollowable(t, memory.NewStore().Handle(nil))
	s := New(Config{Sales: []executor.Service{sale}})
	changeFeeds(s, func(c *events.Config) { c.WriteTimeout, c.Heartbeat = 30*time.Millisecond, 200*time.Millisecond })
	pipe := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	v := serveAt(t, s, pipe, s.Serve)
	two := &http.Transport{Protocols: new(http.Protocols), DialContext: pipe.dial}
	two.Protocols.SetUnencryptedHTTP2(true)
	l := hearBy(t, two, "http://localhost"+eventsPath)
	if l.response.ProtoMajor != 2 {
		t.Fatalf("it is %s", l.response.Proto)
	}
	l.until(`"type":"salectl.shard.generation"`)
	l.until(`"type":"salectl.shard.generation"`)
	l.until(resolvedLine)
	l.until(":\n")
	l.until(":\n")
	sale.sells(t, 0, "ada")
	l.until("ada")
	v.end()
	l.until(": the server shuts down: continue at another process of the sale")
	if <-v.done; v.err != nil {
		t.Errorf("the server ends with %v", v.err)
	}
}

// pipeListener accepts connections in memory, whose deadlines pass in the time of a bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// away is a store that may be away.
type away struct {
	ledger.Logs
	is atomic.Bool
}

var errAway = errors.New("10.0.0.7 is away")

func (a *away) Read(ctx context.Context, log string, from uint64, most int) ([]byte, [][]byte, error) {
	if a.is.Load() {
		return nil, nil, errAway
	}
	return a.Logs.Read(ctx, log, from, most)
}

func (a *away) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if a.is.Load() {
		return nil, errAway
	}
	return a.Logs.Heads(ctx, logs)
}

// TestEventsWithoutAStore: who comes while the store is away is told so, and nobody its address;
// who has come waits, and hears that somebody is there.
func TestEventsWithoutAStore(t *testing.T) {
	store := &away{Logs: memory.NewStore().Handle(nil)}
	sale := newFollowable(t, store)
	s := New(Config{Sales: []executor.Service{sale}})
	changeFeeds(s, func(c *events.Config) { c.Heartbeat, c.BeginTimeout = 20*time.Millisecond, 50*time.Millisecond })
	v := serve(t, s)
	store.is.Store(true)
	if h := refused(t, v.url+eventsPath, 503, "The ledger cannot be read at the moment."); h.Get("Retry-After") != "1" {
		t.Errorf("%v", h)
	}
	store.is.Store(false)
	changeFeeds(s, func(c *events.Config) { c.Heartbeat, c.BeginTimeout = 20*time.Millisecond, time.Hour })
	l := hear(t, v.url+eventsPath)
	l.until(resolvedLine)
	l.until(":\n")
	store.is.Store(true)
	l.until(": the ledger cannot be read, retrying\n")
	l.until(":\n")
	if _, lag := s.feeds.Lag(s.sales()["movie"].feed); lag <= 0 {
		t.Errorf("it lags by %v", lag)
	}
	store.is.Store(false)
	l.until(": the ledger can be read again\n")
	sale.sells(t, 0, "ada")
	if got := l.until("ada"); strings.Contains(got, "10.0.0.7") {
		t.Errorf("it is told\n%s", got)
	}
}

// TestEventSource: an EventSource of a browser takes each event for what docs/feed.md says. Its last
// id is that of the newest batch, it goes on behind that by itself, and it stops at the end.
func TestEventSource(t *testing.T) {
	browsing := browser.Start(t)
	sale := newFollowable(t, memory.NewStore().Handle(nil))
	v := serve(t, New(Config{Sales: []executor.Service{sale}}))
	browser.Go(t, browsing, v.url+api.OpenAPIPath) // a page of the same server
	browser.Run(t, browsing, `(() => {
		window.told = []
		window.source = new EventSource("`+eventsPath+`")
		for (const type of ["planned", "sealed", "destroyed"].map(t => "sale." + t).concat("claim.sold", "shard.generation", "shard.sealed", "resolved"))
			source.addEventListener("salectl." + type, e => told.push(JSON.parse(e.data).id + " " + type + " " + e.lastEventId))
		return "following"
	})()`)
	told := func(until string) (all []string) {
		t.Helper()
		wait.UntilNil(t, until, func() error {
			all = strings.Split(browser.Run(t, browsing, `told.join("\n")`), "\n")
			if slices.ContainsFunc(all, func(one string) bool { return strings.Contains(one, until) }) {
				return nil
			}
			return fmt.Errorf("told %q", all)
		})
		return all
	}
	told("0-0-0 shard.generation")
	told("1-0-0 shard.generation")
	sale.sells(t, 0, "ada")
	last := ""
	for _, one := range told("0-2-0 claim.sold") {
		id, rest, _ := strings.Cut(one, " ")
		kind, lastID, _ := strings.Cut(rest, " ")
		if kind == "resolved" {
			last = id
		}
		if lastID != last {
			t.Errorf("at %q its last id is %q, want %q", one, lastID, last)
		}
	}
	sale.destroys(t, func() { told("0-4-0 shard.sealed"); told("1-3-0 shard.sealed") })
	wait.Until(t, "the source is closed", func() bool { return browser.Run(t, browsing, `source.readyState`) == "2" })
	all := told("sale.destroyed")
	seen := make(map[string]bool)
	for _, one := range all {
		if id, _, _ := strings.Cut(one, " "); seen[id] && !strings.Contains(one, " resolved ") {
			t.Errorf("it is told %q twice", one)
		} else {
			seen[id] = true
		}
	}
}

// A position of the largest sale comes back in a header and in a URL, by either version of HTTP.
func TestLargestPosition(t *testing.T) {
	f := newFollowable(t, memory.NewStore().Handle(nil))
	v := serve(t, New(Config{Sales: []executor.Service{f}, Log: slog.New(slog.DiscardHandler)}))
	place := feed.Place{Slots: 1 << 40, Hash: ledger.Hash{1, 2, 3, 4, 5, 6, 7, 8}}
	position := feed.Position{UID: saletest.UID, Sale: place, Shards: slices.Repeat([]feed.Place{place}, spec.MaxLockCount)}.String()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(version == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(version == "HTTP/2.0")
		defer transport.CloseIdleConnections()
		for _, where := range []string{"a header", "the URL"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+eventsPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			if where == "a header" {
				request.Header.Set("Last-Event-ID", position)
			} else {
				request.URL.RawQuery = "from=" + position
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Errorf("%s, in %s: %v", version, where, err)
				continue
			}
			if body := text(t, response); response.Proto != version || response.StatusCode != http.StatusConflict || !strings.Contains(body, "the position is not of this sale's ledger") {
				t.Errorf("%s, in %s: %d bytes get %s %d, %.200s", version, where, len(position), response.Proto, response.StatusCode, body)
			}
		}
	}
}
