package rehearse

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/api"
	"salectl/backends/clock"

	"salectl/spec"
)

// TestMain fails the run if a rehearsal has left a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustDrive(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Drive(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range r.Outcomes {
		sum += n
	}
	if sum != r.Requests {
		t.Errorf("%d outcomes of %d requests", sum, r.Requests)
	}
	return r
}

func TestHonestShop(t *testing.T) {
	for name, s := range map[string]*shop{
		"one each":       {stock: 100, limit: 1},
		"up to five":     {stock: 200, limit: 5},
		"more than come": {stock: 1_000_000, limit: 2},
		"no limit":       {stock: 100, limit: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			c := s.open(t)
			calls, last := 0, 0
			c.Progress = func(done, total int) {
				if calls++; done <= last || done > total {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}
			r := mustDrive(t, c)
			if err := r.Verdict(); err != nil {
				t.Error(err, r.Violations)
			}
			if r.UnitsSold != s.sold || r.Outcomes["sold"] != len(s.kept) {
				t.Errorf("reported %d units and %d claims, the shop sold %d and %d", r.UnitsSold, r.Outcomes["sold"], s.sold, len(s.kept))
			}
			if s.stock < 1000 && s.sold != s.stock {
				t.Errorf("sold %d of %d", s.sold, s.stock)
			}
			if s.limit < 10 && (r.Outcomes["replayed"] == 0 || r.Outcomes["limit_reached"] == 0) {
				t.Errorf("nobody asked again with the same key, or nobody for too much: %v", r.Outcomes)
			}
			if last != r.Requests || calls < 50 || calls > 150 {
				t.Errorf("progress ended at %d of %d after %d calls", last, r.Requests, calls)
			}
			l := r.Timing.LatencyMs
			if l.P50 <= 0 || l.P99 < l.P50 || l.P999 < l.P99 || l.Max < l.P999 || r.Timing.ThroughputPerSecond <= 0 {
				t.Errorf("latency %+v, throughput %v", l, r.Timing.ThroughputPerSecond)
			}
		})
	}
}

// TestBrokenShops breaks one promise at a time and wants to read of it.
func TestBrokenShops(t *testing.T) {
	for name, c := range map[string]struct {
		shop *shop
		want string // a part of one violation
	}{
		"sells a unit twice": {&shop{after: func(s *shop, _ ask, a *answer) {
			if a.status == http.StatusCreated && s.sold == 50 {
				a.Units = []int64{7}
			}
		}}, "unit 7 was sold twice"},
		"sells more than there is": {&shop{before: func(s *shop, _ http.ResponseWriter, _ ask) bool {
			s.stock = 101
			return false
		}}, "101 units sold of a stock of 100"},
		"forgets the limit": {&shop{before: func(s *shop, _ http.ResponseWriter, _ ask) bool {
			clear(s.units)
			return false
		}}, "has 2 units, the limit is 1"},
		"sells twice for one key": {&shop{before: func(s *shop, _ http.ResponseWriter, c ask) bool {
			clear(s.units)
			delete(s.kept, c.key)
			return false
		}}, "had two answers"},
		"changes the time of a claim": {&shop{after: func(_ *shop, _ ask, a *answer) {
			if a.status == http.StatusOK {
				a.At = a.At.Add(1)
			}
		}}, "had two answers"},
		"says twice that it is new": {&shop{after: func(_ *shop, _ ask, a *answer) {
			if a.status == http.StatusOK {
				a.status = http.StatusCreated
			}
		}}, "twice reported as new"},
		"forgets what it accepted": {&shop{before: func(s *shop, _ http.ResponseWriter, c ask) bool {
			delete(s.kept, c.key)
			return false
		}}, "was accepted as claim"},
		"gives two buyers one claim": {&shop{after: func(_ *shop, _ ask, a *answer) {
			if a.status == http.StatusCreated {
				a.Claim = "0-1-0"
			}
		}}, "claim 0-1-0 was given to"},
		"gives up early": {&shop{before: func(s *shop, _ http.ResponseWriter, _ ask) bool {
			s.stock = 99
			return false
		}}, "only 99 of 100 units are"},
		"refuses for no reason": {&shop{after: func(_ *shop, _ ask, a *answer) {
			if a.Outcome == "sold_out" {
				a.Outcome = "limit_reached"
			}
		}}, "received limit_reached, but has 0 units"},
		"answers another buyer": {&shop{after: func(_ *shop, _ ask, a *answer) { a.User = "somebody" }}, `of user "somebody"`},
		"leaves units out":      {&shop{after: func(_ *shop, _ ask, a *answer) { a.Units = nil }}, "and 0 units"},
		"talks nonsense": {&shop{before: func(_ *shop, w http.ResponseWriter, _ ask) bool {
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, "<html>")
			return true
		}}, `received 201 http_201 with claim ""`},
	} {
		t.Run(name, func(t *testing.T) {
			c.shop.stock, c.shop.limit = 100, 1
			config := c.shop.open(t)
			r := mustDrive(t, config)
			if !slices.ContainsFunc(r.Violations, func(v string) bool { return strings.Contains(v, c.want) }) {
				t.Errorf("want %q among %d violations, such as\n%s", c.want, len(r.Violations), strings.Join(r.Violations, "\n"))
			}
			if len(r.Violations) > maxViolations+1 {
				t.Errorf("%d violations are too many to read", len(r.Violations))
			}
			if err := r.Verdict(); !errors.Is(err, ErrViolated) {
				t.Errorf("verdict %v", err)
			}
		})
	}
}

// TestAskedAgain makes buyers come back, in all the ways in which an answer may
// be late. None of them breaks a promise.
func TestAskedAgain(t *testing.T) {
	busy := func(status int, outcome string) func(*shop, http.ResponseWriter, ask) bool {
		return func(s *shop, w http.ResponseWriter, c ask) bool {
			if s.seen[c.key] > 1 {
				return false
			}
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(status)
			io.WriteString(w, `{"outcome":"`+outcome+`"}`)
			return true
		}
	}
	for name, before := range map[string]func(*shop, http.ResponseWriter, ask) bool{
		"unknown, not accepted": busy(503, "unknown"),
		"overloaded":            busy(429, "overloaded"),
		"unknown, yet accepted": func(s *shop, w http.ResponseWriter, c ask) bool {
			if s.seen[c.key] == 1 {
				s.sell(c)
			}
			return busy(503, "unknown")(s, w, c)
		},
		"accepted, answer lost": func(s *shop, w http.ResponseWriter, c ask) bool {
			if s.seen[c.key] > 1 {
				return false
			}
			s.sell(c)
			hangUp(w)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{stock: 100, limit: 1, before: before}
			c := s.open(t)
			var waited atomic.Int64
			c.Sleep = func(ctx context.Context, d time.Duration) error {
				if d < 100*time.Millisecond || d > 2*time.Second*5/4 {
					t.Errorf("waits %s", d)
				}
				waited.Add(1)
				return ctx.Err()
			}
			r := mustDrive(t, c)
			if err := r.Verdict(); err != nil {
				t.Error(err, r.Violations)
			}
			if r.UnitsSold != 100 || r.Retries == 0 || r.Retries != int(waited.Load()) {
				t.Errorf("%d units sold, %d retries, %d waits", r.UnitsSold, r.Retries, waited.Load())
			}
			if r.Outcomes["unknown"]+r.Outcomes["overloaded"] != 0 {
				t.Errorf("left unresolved: %v", r.Outcomes)
			}
		})
	}
}

// hangUp ends the connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func TestPatience(t *testing.T) {
	never := func(_ *shop, w http.ResponseWriter, _ ask) bool {
		w.WriteHeader(503)
		io.WriteString(w, `{"outcome":"no_quorum"}`)
		return true
	}
	t.Run("attempts run out", func(t *testing.T) {
		s := &shop{stock: 100, limit: 1, before: never}
		c := s.open(t)
		c.Users = 20
		r := mustDrive(t, c)
		if want := map[string]int{"no_quorum": r.Requests}; !maps.Equal(r.Outcomes, want) || r.Verdict() != nil {
			t.Errorf("outcomes %v, want %v; violations %v", r.Outcomes, want, r.Violations)
		}
		if want := r.Requests * (maxAttempts - 1); r.Retries != want {
			t.Errorf("%d retries, want %d", r.Retries, want)
		}
	})
	t.Run("time runs out", func(t *testing.T) {
		s := &shop{stock: 100, limit: 1, before: never}
		c := s.open(t)
		c.Users, c.Concurrency = 20, 1
		var now atomic.Int64
		c.Clock = func() clock.Now { return clock.Now{Mono: time.Duration(now.Load())} }
		c.Sleep = func(_ context.Context, d time.Duration) error { now.Add(int64(d)); return nil }
		c.Patience = 3 * time.Second
		if r := mustDrive(t, c); r.Retries == 0 || r.Retries > 4 {
			t.Errorf("%d retries of a second or more within three", r.Retries)
		}
	})
}

func TestDriveFails(t *testing.T) {
	t.Run("server goes away", func(t *testing.T) {
		s := &shop{stock: 100, limit: 1, before: func(s *shop, w http.ResponseWriter, _ ask) bool {
			if s.sold < 50 {
				return false
			}
			hangUp(w)
			return true
		}}
		if _, err := Drive(t.Context(), s.open(t)); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("got %v, want ErrNoAnswer", err)
		}
	})
	t.Run("server never was there", func(t *testing.T) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		_, err := Drive(t.Context(), Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 1, Stock: 1}, URL: gone.URL, Users: 1})
		if !errors.Is(err, ErrNoAnswer) {
			t.Errorf("got %v, want ErrNoAnswer", err)
		}
	})
	t.Run("another sale", func(t *testing.T) {
		c := (&shop{stock: 100, limit: 1}).open(t)
		c.Name = "opera"
		if _, err := Drive(t.Context(), c); err == nil || !strings.Contains(err.Error(), "is the sale served there?") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		s := &shop{stock: 100, limit: 1, before: func(s *shop, _ http.ResponseWriter, _ ask) bool {
			if s.sold == 50 {
				cancel(stop)
			}
			return false
		}}
		if _, err := Drive(ctx, s.open(t)); !errors.Is(err, stop) {
			t.Errorf("got %v, want the cause", err)
		}
	})
	t.Run("interrupted while waiting", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("enough")
		s := &shop{stock: 100, limit: 1, before: func(_ *shop, w http.ResponseWriter, _ ask) bool {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(503)
			return true
		}}
		c := s.open(t)
		c.Sleep = func(ctx context.Context, d time.Duration) error {
			cancel(stop)
			return api.Sleep(ctx, time.Hour)
		}
		if _, err := Drive(ctx, c); !errors.Is(err, stop) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

func TestOnlyThisMachine(t *testing.T) {
	for address, want := range map[string]error{
		"127.0.0.1:80": nil, "[::1]:80": nil, "[::ffff:127.0.0.1]:80": nil,
		"192.0.2.1:80": ErrElsewhere, "[2001:db8::1]:80": ErrElsewhere, "nonsense": ErrElsewhere,
	} {
		if err := onlyLoopback("tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("connect to %s: got %v, want %v", address, err, want)
		}
	}
}

// TestRedirect sends requests to a server that redirects them: nothing follows.
func TestRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, `{"sale":"movie"}`)
		} else {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	r := mustDrive(t, Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 1, Stock: 1}, URL: server.URL, Users: 10})
	if r.Outcomes["http_307"] != r.Requests {
		t.Errorf("outcomes %v", r.Outcomes)
	}
}
