package httpd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/reload"
	"salectl/internal/wait"
)

// TestMain fails the run if a server has left a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a listener that tells when it has been closed.
type watched struct {
	net.Listener
	closed chan struct{}
}

func (w *watched) Close() error {
	defer close(w.closed)
	return w.Listener.Close()
}

// serving is a Server under Serve on a real socket.
type serving struct {
	*Server
	url    string
	end    context.CancelFunc
	closed chan struct{} // the listener is closed
	done   chan struct{} // Serve has returned
	err    error         // what it returned, once done
	client *http.Client
}

func serve(t *testing.T, s *Server) *serving {
	t.Helper()
	return serveWith(t, s, s.Serve)
}

func serveWith(t *testing.T, s *Server, run func(context.Context, net.Listener) error) *serving {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveAt(t, s, l, run)
}

func serveAt(t *testing.T, s *Server, l net.Listener, run func(context.Context, net.Listener) error) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{}
	v := &serving{
		Server: s, url: "http://" + l.Addr().String(), end: cancel,
		closed: make(chan struct{}), done: make(chan struct{}), client: &http.Client{Transport: transport},
	}
	go func() {
		defer close(v.done)
		v.err = run(ctx, &watched{l, v.closed})
	}()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		<-v.done
	})
	return v
}

// claim posts a claim and sends its status, or 0 if there was no answer.
func (v *serving) claim(status chan<- int) {
	r, err := v.client.Post(v.url+claimsPath, "application/json", strings.NewReader(`{"user":"u"}`))
	if err != nil {
		status <- 0
		return
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	status <- r.StatusCode
}

// gate is a sale whose claims stop inside until the test lets them go on.
type gate struct {
	httpdtest.Fake
	inside chan struct{} // one for each claim that has arrived
	open   chan struct{}
}

func newGate() *gate {
	g := &gate{Fake: httpdtest.Fake{Name: "movie"}, inside: make(chan struct{}, 10), open: make(chan struct{})}
	g.Fake.ClaimFunc = func(ctx context.Context, r executor.Request) executor.Answer {
		g.inside <- struct{}{}
		select {
		case <-g.open:
			return httpdtest.SoldTo(r.User)
		case <-ctx.Done():
			return executor.Answer{Outcome: api.Unknown}
		}
	}
	return g
}

func TestDrain(t *testing.T) {
	g := newGate()
	v := serve(t, New(Config{Sales: []executor.Service{g}}))
	admin := v.Admin()
	if r := do(admin, "GET", "/readyz", "", nil); r.StatusCode != 200 {
		t.Fatalf("readyz before: status %d", r.StatusCode)
	}
	status := make(chan int, 1)
	go v.claim(status)
	<-g.inside

	v.end()
	<-v.closed
	if r := do(admin, "GET", "/readyz", "", nil); r.StatusCode != 503 || !strings.Contains(text(t, r), "shutting down") {
		t.Errorf("readyz while draining: status %d", r.StatusCode)
	}
	if r := do(admin, "GET", "/healthz", "", nil); r.StatusCode != 200 {
		t.Errorf("healthz while draining: status %d", r.StatusCode)
	}
	r := post(t, v.Server, claimsPath, `{"user":"u"}`, nil)
	if body := text(t, r); r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"outcome":"draining"`) {
		t.Errorf("a new claim while draining: status %d, %s", r.StatusCode, body)
	}
	select {
	case <-v.done:
		t.Fatalf("Serve returned %v over a claim under way", v.err)
	case got := <-status:
		t.Fatalf("the claim under way was answered %d before it was decided", got)
	default:
	}

	close(g.open)
	if got := <-status; got != 201 {
		t.Errorf("the claim under way got %d, want 201", got)
	}
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}

func TestDrainIsBounded(t *testing.T) {
	g := newGate()
	v := serve(t, New(Config{
		Sales: []executor.Service{g}, ClaimTimeout: time.Hour, DrainTimeout: time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	}))
	status := make(chan int, 1)
	go v.claim(status)
	<-g.inside
	v.end()
	if <-v.done; !errors.Is(v.err, context.DeadlineExceeded) || !strings.Contains(v.err.Error(), "cut off") {
		t.Errorf("Serve returned %v, want that requests were cut off", v.err)
	}
	if got := <-status; got != 0 {
		t.Errorf("the claim that was cut off got %d", got)
	}
}

func TestServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := New(Config{}).Serve(t.Context(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve on a closed listener: %v", err)
	}
}

// TestClaimTimeout lets a claim run out of time: the executor answers unknown by
// itself, and the buyer is told to ask again.
func TestClaimTimeout(t *testing.T) {
	s := New(Config{Sales: []executor.Service{newGate()}, ClaimTimeout: time.Millisecond})
	r := post(t, s, claimsPath, `{"user":"u"}`, nil)
	if body := text(t, r); r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"outcome":"unknown"`) {
		t.Errorf("status %d, %s", r.StatusCode, body)
	}
}

// TestBuyerGone ends a claim's context when its buyer hangs up.
func TestBuyerGone(t *testing.T) {
	inside, gone := make(chan struct{}), make(chan error, 1)
	v := serve(t, New(Config{ClaimTimeout: time.Hour, Sales: []executor.Service{&httpdtest.Fake{
		Name: "movie",
		ClaimFunc: func(ctx context.Context, _ executor.Request) executor.Answer {
			close(inside)
			<-ctx.Done()
			gone <- ctx.Err()
			return executor.Answer{Outcome: api.Unknown}
		},
	}}}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(claimRequest(claimsPath)); err != nil {
		t.Fatal(err)
	}
	<-inside
	conn.Close()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the claim's context ended with %v", err)
	}
	v.end()
	if <-v.done; v.err != nil {
		t.Errorf("Serve: %v", v.err)
	}
}

// TestDeadlinesLeaveRoomForAClaim: were the connection's deadlines shorter than
// a claim may take, a slow append would look like a buyer who has gone.
func TestDeadlinesLeaveRoomForAClaim(t *testing.T) {
	s := New(Config{ClaimTimeout: time.Minute})
	h := s.httpServer(s.answerBuyer)
	if h.ReadTimeout <= h.ReadHeaderTimeout+time.Minute || h.WriteTimeout <= h.ReadTimeout {
		t.Errorf("read %s, write %s for claims of a minute", h.ReadTimeout, h.WriteTimeout)
	}
	if h.ReadHeaderTimeout <= 0 || h.IdleTimeout <= 0 || h.MaxHeaderBytes <= 0 {
		t.Error("a connection may take for ever, or any amount")
	}
}

func TestHeaderTooLarge(t *testing.T) {
	v := serve(t, New(Config{}))
	r, err := http.NewRequest(http.MethodGet, v.url+"/v1/sales/movie", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	answer, err := v.client.Do(r)
	if err != nil {
		return // hung up while we were still sending: as good
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", answer.StatusCode)
	}
}

func TestReadyz(t *testing.T) {
	reasons := map[string]error{}
	ready := func(name string) *httpdtest.Fake {
		return &httpdtest.Fake{Name: name, ReadyFunc: func() error { return reasons[name] }}
	}
	registry := prometheus.NewRegistry()
	s := New(Config{Metrics: registry, Sales: []executor.Service{ready("opera"), ready("movie")}})
	registry.MustRegister(s.Collectors()...)
	admin := s.Admin()
	for _, c := range []struct {
		name   string
		reason error
		status int
		body   string
	}{
		{"all well", nil, 200, `{"ready":true,"sales":[{"sale":"movie","ready":true},{"sale":"opera","ready":true}]}`},
		{"one stalls", fmt.Errorf("shard 3 stalls"), 503,
			`{"ready":false,"sales":[{"sale":"movie","ready":true},{"sale":"opera","ready":false,"reason":"shard 3 stalls"}]}`},
	} {
		reasons["opera"] = c.reason
		r := do(admin, "GET", "/readyz", "", nil)
		if body := text(t, r); r.StatusCode != c.status || body != c.body {
			t.Errorf("%s: %d %s\nwant %d %s", c.name, r.StatusCode, body, c.status, c.body)
		}
		metrics, err := io.ReadAll(do(admin, "GET", "/metrics", "", nil).Body)
		if err != nil {
			t.Fatal(err)
		}
		ready := 1
		if c.reason != nil {
			ready = 0
		}
		for _, want := range []string{`salectl_ready{sale="movie"} 1`, fmt.Sprintf(`salectl_ready{sale="opera"} %d`, ready)} {
			if !strings.Contains(string(metrics), want+"\n") {
				t.Errorf("%s: no %s in\n%s", c.name, want, metrics)
			}
		}
	}
}

// A sale that has ended for good is told of as it is, and takes no other out of service; but one
// of which another run is declared does, until that is served.
func TestReadyBesideOver(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}, &httpdtest.Fake{
		Name: "opera", ReadyFunc: func() error { return errors.New("it is destroyed") },
		StatusFunc: func() executor.Status {
			return executor.Status{SaleSummary: api.SaleSummary{Outcome: api.NoSuchSale, Phase: ledger.PhaseDestroyed}}
		},
	}}})
	told := func(want string) {
		t.Helper()
		if body := text(t, do(s.Admin(), "GET", "/readyz", "", nil)); body != want {
			t.Errorf("readyz says %s\nwant %s", body, want)
		}
	}
	told(`{"ready":true,"sales":[{"sale":"movie","ready":true},{"sale":"opera","ready":false,"reason":"it is destroyed"}]}`)
	s.Declare(map[string]reload.Lack{"opera": {Why: "run 2 is not applied", Absent: true}, "circus": {Why: "destroyed, too", Absent: true, Over: true}})
	told(`{"ready":false,"sales":[{"sale":"circus","ready":false,"reason":"destroyed, too"},{"sale":"movie","ready":true},{"sale":"opera","ready":false,"reason":"run 2 is not applied"}]}`)
	s.Declare(nil)
	s.Retire()
	told(`{"ready":false,"sales":[{"sale":"movie","ready":false,"reason":"the server is shutting down"},{"sale":"opera","ready":false,"reason":"the server is shutting down"}]}`)
}

// Who has a stream of a sale that is removed is told to go elsewhere; others are not.
func TestRemove(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: sells}}})
	v := serve(t, s)
	gone := listen(t, v.url, nil)
	s.Add(&httpdtest.Fake{Name: "opera", ClaimFunc: sells}, nil, nil)
	stays := listen(t, v.url, func(c *api.StreamConfig) { c.Sale = "opera" })
	s.Remove("movie")
	if r := gone.hears(); r.GetGoingAway() == nil {
		t.Errorf("heard %v", r)
	}
	if err := <-gone.closed; err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	stays.send(claimOf(1, "ada"))
	if got := stays.outcome(1); got != "sold" {
		t.Errorf("the other sale's stream got %s", got)
	}
	s.Remove("movie") // once more, which removes nothing
	stays.send(claimOf(2, "bob"))
	if got := stays.outcome(2); got != "sold" {
		t.Errorf("the other sale's stream got %s", got)
	}
	if r := do(s, "POST", "/v1/sales/movie/claims", `{"user":"ada"}`, nil); r.StatusCode != 404 {
		t.Errorf("a claim gets %d", r.StatusCode)
	}
	s.Add(&httpdtest.Fake{Name: "movie", ClaimFunc: sells}, nil, nil)
	again := listen(t, v.url, nil)
	again.send(claimOf(1, "ada"))
	if got := again.outcome(1); got != "sold" {
		t.Errorf("the sale that is served again says %s", got)
	}
}

// A sale that is declared and not served makes a server unready. Who asks for it is told that
// there is none only where that is known.
func TestDeclared(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	s.Declare(map[string]reload.Lack{"opera": {Why: "not applied", Absent: true}, "circus": {Why: "the ledger cannot be read"}})
	want := `{"ready":false,"sales":[{"sale":"circus","ready":false,"reason":"the ledger cannot be read"},{"sale":"movie","ready":true},{"sale":"opera","ready":false,"reason":"not applied"}]}`
	if body := text(t, do(s.Admin(), "GET", "/readyz", "", nil)); body != want {
		t.Errorf("readyz says %s", body)
	}
	for name, outcome := range map[string]api.Outcome{"opera": api.NoSuchSale, "circus": api.Standby, "ballet": api.NoSuchSale} {
		for i, r := range []*http.Response{
			do(s, "GET", "/v1/sales/"+name, "", nil), do(s, "POST", "/v1/sales/"+name+"/claims", `{"user":"ada"}`, nil),
			do(s, "POST", "/v1/sales/"+name+"/webhooks/payment", "{}", nil), do(s, "POST", "/v1/sales/"+name+"/claims/0-1-0/confirm", `{"payment":"p"}`, nil),
			do(s.Admin(), "GET", "/v1/sales/"+name+"/drain", "", nil),
		} {
			again := r.Header.Get("Retry-After") != ""
			if body := text(t, r); r.StatusCode != outcome.Row().Status || !strings.Contains(body, `"outcome":"`+string(outcome)+`"`) || again != (outcome == api.Standby) {
				t.Errorf("%s, request %d: status %d, %s, Retry-After %v", name, i, r.StatusCode, body, again)
			}
		}
	}
}

func TestAdmin(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := New(Config{Metrics: registry, Sales: []executor.Service{&httpdtest.Fake{Name: "movie"}}})
	registry.MustRegister(s.Collectors()...)
	for path, want := range map[string]string{
		"/healthz": "ok\n",
		"/metrics": `salectl_http_claims_total{outcome="sold_out",sale="movie"} 0`,
	} {
		r := do(s.Admin(), "GET", path, "", nil)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %v, want %q in\n%s", path, r.StatusCode, err, want, body)
		}
	}
	if r := do(New(Config{}).Admin(), "GET", "/metrics", "", nil); r.StatusCode != 404 {
		t.Errorf("metrics without a registry: status %d", r.StatusCode)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.ServeAdmin(ctx, l) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != 200 {
		t.Errorf("readyz on the admin listener: status %d", r.StatusCode)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeAdmin: %v", err)
	}
}

// The bodies that anybody sends on one connection by HTTP/2 take bounded memory until they are read,
// whatever the number of requests: the server's first frames name its windows (RFC 9113, 6.5 and 6.9).
func TestReceiveWindows(t *testing.T) {
	v := serve(t, New(Config{}))
	c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait.Limit))
	const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00salectl!"
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"+ping); err != nil {
		t.Fatal(err)
	}
	const settings, pong, windowUpdate, initialWindow = 4, 6, 8, 4
	stream, connection := uint32(0), uint32(65535) // of the RFC, until changed
	for kind := byte(0); kind != pong; {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatal(err)
		}
		switch kind = head[3]; kind {
		case settings:
			for ; len(payload) >= 6; payload = payload[6:] {
				if binary.BigEndian.Uint16(payload) == initialWindow {
					stream = binary.BigEndian.Uint32(payload[2:])
				}
			}
		case windowUpdate:
			connection += binary.BigEndian.Uint32(payload)
		}
	}
	if stream != streamWindow || connection != maxUnread {
		t.Errorf("a request may send %d bytes and a connection %d, want %d and %d", stream, connection, streamWindow, maxUnread)
	}
}

// ServeHTTP handles a request of buyers without a listener.
func (server *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	server.identified(server.answerBuyer)(w, r)
}

// Admin returns a handler for requests of operators without a listener.
func (server *Server) Admin() http.Handler { return server.identified(server.adminHandler()) }
