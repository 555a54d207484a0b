package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"salectl/spec"
)

// shop is a small sale that keeps every promise, except those that a test makes
// it break. It sells units 0 to stock-1.
type shop struct {
	stock, limit int64

	// Faults, all optional. before may answer a request instead of the shop;
	// after may spoil the shop's answer.
	before func(s *shop, w http.ResponseWriter, c ask) bool
	after  func(s *shop, c ask, a *answer)

	mu    sync.Mutex
	sold  int64
	units map[string]int64  // by user
	kept  map[string]answer // accepted, by key
	seen  map[string]int    // requests, by key
}

type ask struct {
	User     string
	Quantity int64
	key      string
}

type answer struct {
	status int

	Outcome string    `json:"outcome"`
	Claim   string    `json:"claim,omitempty"`
	Sale    string    `json:"sale,omitempty"`
	User    string    `json:"user,omitempty"`
	Units   []int64   `json:"units,omitempty"`
	At      time.Time `json:"at"`
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/v1/sales/movie" {
		fmt.Fprint(w, `{"sale":"movie"}`)
		return
	}
	c := ask{key: r.Header.Get("Idempotency-Key")}
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || r.URL.Path != "/v1/sales/movie/claims" || c.key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[c.key]++
	if s.before != nil && s.before(s, w, c) {
		return
	}
	a := s.sell(c)
	if s.after != nil {
		s.after(s, c, &a)
	}
	w.WriteHeader(a.status)
	json.NewEncoder(w).Encode(a)
}

// sell is called with mu held.
func (s *shop) sell(c ask) answer {
	if a, ok := s.kept[c.key]; ok {
		a.status = http.StatusOK
		return a
	}
	switch {
	case s.units[c.User]+c.Quantity > s.limit:
		return answer{status: http.StatusConflict, Outcome: "limit_reached"}
	case s.sold == s.stock:
		return answer{status: http.StatusConflict, Outcome: "sold_out"}
	case s.sold+c.Quantity > s.stock:
		return answer{status: http.StatusConflict, Outcome: "none_now"}
	}
	a := answer{
		status: http.StatusCreated, Outcome: "sold", Claim: "0-1-" + strconv.Itoa(len(s.kept)),
		Sale: "movie", User: c.User, At: time.Unix(s.sold, 0).UTC(),
	}
	for range c.Quantity {
		a.Units = append(a.Units, s.sold)
		s.sold++
	}
	s.units[c.User] += c.Quantity
	s.kept[c.key] = a
	return a
}

// open serves the shop and returns a Config for its buyers, whose waits take no
// time.
func (s *shop) open(t *testing.T) Config {
	t.Helper()
	s.units, s.kept, s.seen = map[string]int64{}, map[string]answer{}, map[string]int{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return Config{
		URL: server.URL, Users: 400, Concurrency: 16, Seed: 7,
		Sale:  spec.Sale{Name: "movie", PerUserLimit: s.limit, Stock: s.stock},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}
