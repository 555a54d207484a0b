package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/httpd/wire"
)

// buyersOf is a server of one sale that sells to everybody, and what it logs, as JSON.
func buyersOf(level slog.Level) (*Server, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Config{
		Sales: []executor.Service{&httpdtest.Fake{Name: "movie",
			ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) },
			UserFunc: func(user string) ([]executor.Claim, api.Outcome) {
				if user == "eve" {
					return nil, api.Standby
				}
				return nil, ""
			},
		}},
		Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level})),
	}), &log
}

const (
	traced  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	itsName = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// TestRequestID: the answer has the request's id, or one that the server has made where the
// request's cannot be taken.
func TestRequestID(t *testing.T) {
	s, log := buyersOf(slog.LevelInfo)
	for _, given := range [][]string{
		{"order-17/1"}, {strings.Repeat("x", api.MaxRequestID)},
		nil, {""}, {strings.Repeat("x", api.MaxRequestID+1)}, {"two words"}, {"é"}, {"a", "b"},
	} {
		header := http.Header{}
		if given != nil {
			header["X-Request-Id"] = given
		}
		for _, h := range []http.Handler{s, s.Admin()} {
			got := do(h, "GET", "/v1/sales/movie/none/such", "", header).Header["X-Request-Id"]
			switch {
			case len(given) == 1 && api.GoodRequestID(given[0]):
				if len(got) != 1 || got[0] != given[0] {
					t.Errorf("id %q is answered with %q", given, got)
				}
			case given == nil: // nothing is logged of it
				if got != nil {
					t.Errorf("no id is answered with %q", got)
				}
			case len(got) != 1 || len(got[0]) < 20 || !api.GoodRequestID(got[0]):
				t.Errorf("id %q is answered with %q", given, got)
			}
		}
	}
	if log.Len() > 0 {
		t.Errorf("without debug the log has %s", log)
	}
}

// TestRequestsAreLogged: at level debug each request has one line.
func TestRequestsAreLogged(t *testing.T) {
	s, log := buyersOf(slog.LevelDebug)
	for _, of := range []struct {
		h                  http.Handler
		method, path, body string
		header             http.Header
		want               map[string]any
	}{
		{s, "POST", claimsPath, `{"user":"ada"}`, http.Header{"X-Request-Id": {"r-1"}, "Traceparent": {traced}},
			map[string]any{"request": "r-1", "trace": itsName, "method": "POST", "path": claimsPath, "sale": "movie", "status": 201., "outcome": "sold"}},
		{s, "POST", claimsPath, `{"user":""}`, nil, map[string]any{"sale": "movie", "status": 422., "outcome": "bad_request"}},
		{s, "POST", "/v1/sales/other/claims", `{}`, nil, map[string]any{"sale": nil, "trace": nil, "status": 404., "outcome": "no_such_sale"}},
		{s, "GET", "/v1/sales/movie/users/ada", "", nil, map[string]any{"sale": "movie", "status": 200., "outcome": nil}},
		{s, "GET", "/v1/sales/movie/users/eve", "", nil, map[string]any{"sale": "movie", "status": 503., "outcome": "standby"}},
		{s, "GET", "/", "", nil, map[string]any{"sale": nil, "status": 404., "outcome": nil}},
		{s.Admin(), "GET", "/readyz", "", nil, map[string]any{"path": "/readyz", "status": 200.}},
	} {
		log.Reset()
		r := do(of.h, of.method, of.path, of.body, of.header)
		var line map[string]any
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%s %s: the log has %q", of.method, of.path, log)
		}
		of.want["level"], of.want["request"] = "DEBUG", r.Header.Get("X-Request-Id")
		for key, want := range of.want {
			if line[key] != want {
				t.Errorf("%s %s: %s is %v in the log, want %v", of.method, of.path, key, line[key], want)
			}
		}
		if took, ok := line["duration"].(float64); !ok || took < 0 || line["request"] == "" {
			t.Errorf("%s %s: the log has %s", of.method, of.path, log)
		}
	}
}

// TestRequestIDCostsNothing: an id that is taken costs a claim no allocation.
func TestRequestIDCostsNothing(t *testing.T) {
	s, _ := buyersOf(slog.LevelInfo)
	h := s.identified(func(http.ResponseWriter, *http.Request) *wire.Problem { return nil })
	w := &nowhere{http.Header{}}
	for _, header := range []http.Header{{}, {"X-Request-Id": {"r-1"}, "Traceparent": {traced}}} {
		r := &http.Request{Header: header}
		if n := testing.AllocsPerRun(100, func() { clear(w.header); h(w, r) }); n != 0 {
			t.Errorf("%v: %v allocations", header, n)
		}
	}
}

// TestLocation: 201 says where the claim is looked up, and what was there before does not.
func TestLocation(t *testing.T) {
	a := httpdtest.SoldTo("ada")
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie",
		ClaimFunc: func(context.Context, executor.Request) executor.Answer { return a },
		FindFunc:  func(executor.ClaimID) (executor.Claim, api.Outcome) { return a.Claim, "" },
		UserFunc:  func(string) ([]executor.Claim, api.Outcome) { return []executor.Claim{a.Claim}, "" },
	}}})
	look := func(user, want string) {
		t.Helper()
		r := post(t, s, claimsPath, `{"user":"u"}`, nil)
		at := r.Header.Get("Location")
		if r.StatusCode != 201 || at != want {
			t.Errorf("status %d, Location %q, want %q", r.StatusCode, at, want)
		}
		if r := do(s, "GET", at, "", nil); r.StatusCode != 200 || !strings.Contains(text(t, r), user) {
			t.Errorf("%s: status %d", at, r.StatusCode)
		}
	}
	look("ada", "/v1/sales/movie/claims/3-1234-56")
	a.Claim.ID, a.Claim.User = executor.ClaimID{Shard: 3, Unit: 17}, "a b"
	look("a b", "/v1/sales/movie/users/a%20b")
	a.Replayed = true
	if r := post(t, s, claimsPath, `{"user":"u"}`, nil); r.StatusCode != 200 || r.Header["Location"] != nil {
		t.Errorf("a claim that was there has status %d, Location %q", r.StatusCode, r.Header["Location"])
	}
}

// TestIdleTimeout: an idle connection is closed when its time is over, which is longer than
// that of load balancers unless it is set.
func TestIdleTimeout(t *testing.T) {
	if of := New(Config{}).httpServer(nil).IdleTimeout; of <= time.Minute {
		t.Errorf("connections are kept for %s", of)
	}
	s, _ := buyersOf(slog.LevelInfo)
	s.config.IdleTimeout = time.Millisecond
	v := serve(t, s)
	one := visit(t, v)
	one.ask()
	if status := one.hears(); status != 201 {
		t.Fatalf("status %d", status)
	}
	if status := one.hears(); status != 0 {
		t.Errorf("an idle connection has the answer %d, and was to be closed", status)
	}
}
