package rehearse

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/spec"
)

// paidShop is a small sale whose claims are held until they are paid. It keeps every
// promise, except those that a test makes it break.
type paidShop struct {
	terms        spec.Payment
	stock, limit int64

	// lie, if set, may spoil an answer before it is sent. how is "" for a claim.
	lie func(s *paidShop, how api.How, c *paidClaim, status *int, answer *api.Problem)

	mu     sync.Mutex
	claims []*paidClaim
	byKey  map[string]*paidClaim
	lied   bool
	leaks  bool // holds never end
}

type paidClaim struct {
	api.Claim
	extended bool
	paid     string
	owed     []string
}

func (s *paidShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	rest := strings.TrimPrefix(r.URL.Path, "/v1/sales/movie")
	if r.Method == http.MethodGet && rest == "" {
		json.NewEncoder(w).Encode(api.Sale{SaleSummary: api.SaleSummary{Sale: "movie", Held: int64(len(s.in(api.Held)))}})
		return
	}
	var (
		how    api.How
		c      *paidClaim
		status int
		said   = new(api.Problem)
	)
	if rest == "/claims" {
		var q api.Request
		json.NewDecoder(r.Body).Decode(&q)
		q.Key = r.Header.Get(api.KeyHeader)
		c, status = s.sell(q, said)
	} else {
		parts := strings.Split(rest, "/") // "", claims, id, how
		var q api.Settlement
		json.NewDecoder(r.Body).Decode(&q)
		i := slices.IndexFunc(s.claims, func(c *paidClaim) bool { return c.ID == parts[2] })
		how, c = api.How(parts[3]), s.claims[i]
		status = s.settle(c, how, q, said)
	}
	if s.lie != nil {
		s.lie(s, how, c, &status, said)
	}
	w.WriteHeader(status)
	if status < 300 {
		json.NewEncoder(w).Encode(c.Claim)
	} else {
		json.NewEncoder(w).Encode(said)
	}
}

// in returns the claims in a state.
func (s *paidShop) in(state api.Outcome) (all []*paidClaim) {
	for _, c := range s.claims {
		if c.Outcome == state {
			all = append(all, c)
		}
	}
	return all
}

func (s *paidShop) expire() {
	for _, c := range s.in(api.Held) {
		if !s.leaks && !time.Now().Before(c.HeldUntil.Add(time.Duration(s.terms.Grace))) {
			c.Outcome = api.Expired
		}
	}
}

// free returns so many units that nobody has, nil if there are fewer.
func (s *paidShop) free(n int64) (units []int64) {
	taken := map[int64]bool{}
	for _, c := range slices.Concat(s.in(api.Held), s.in(api.Sold)) {
		for _, unit := range c.Units {
			taken[unit] = true
		}
	}
	for unit := int64(0); unit < s.stock && int64(len(units)) < n; unit++ {
		if !taken[unit] {
			units = append(units, unit)
		}
	}
	if int64(len(units)) < n {
		return nil
	}
	return units
}

func (s *paidShop) has(user string) (n int64) {
	for _, c := range slices.Concat(s.in(api.Held), s.in(api.Sold)) {
		if c.User == user {
			n += int64(len(c.Units))
		}
	}
	return n
}

func (s *paidShop) sell(q api.Request, said *api.Problem) (*paidClaim, int) {
	if c := s.byKey[q.Key]; c != nil {
		if c.Outcome.Accepted() {
			return c, http.StatusOK
		}
		said.Outcome = c.Outcome
		return c, http.StatusConflict
	}
	units := s.free(q.Quantity)
	switch {
	case s.has(q.User)+q.Quantity > s.limit:
		said.Outcome = api.LimitReached
	case units == nil && len(s.in(api.Held)) == 0 && s.free(1) == nil:
		said.Outcome = api.SoldOut
	case units == nil:
		said.Outcome = api.NoneNow
	default:
		now := time.Now()
		c := &paidClaim{Claim: api.Claim{
			Outcome: api.Held, ID: "0-1-" + strconv.Itoa(len(s.claims)), Sale: "movie", User: q.User, Units: units,
			At: now, HeldUntil: now.Add(time.Duration(s.terms.HoldFor)),
		}}
		s.claims, s.byKey[q.Key] = append(s.claims, c), c
		return c, http.StatusCreated
	}
	return nil, http.StatusConflict
}

func (s *paidShop) settle(c *paidClaim, how api.How, q api.Settlement, said *api.Problem) int {
	before := c.Outcome
	switch {
	case how == api.Confirm && c.Outcome == api.Held,
		how == api.Confirm && c.Outcome == api.Expired && s.terms.Late == spec.LateResell && !slices.Contains(c.owed, q.Payment) &&
			s.has(c.User)+int64(len(c.Units)) <= s.limit && s.free(int64(len(c.Units))) != nil:
		if before == api.Expired {
			c.Units = s.free(int64(len(c.Units)))
		}
		c.Outcome, c.paid = api.Sold, q.Payment
		return http.StatusOK
	case how == api.Confirm && c.Outcome == api.Sold && c.paid == q.Payment:
		return http.StatusOK
	case how == api.Confirm:
		c.owed = append(c.owed, q.Payment)
		said.RefundDue = true
	case how == api.Extend && c.Outcome == api.Held && !c.extended:
		c.extended, c.HeldUntil = true, c.HeldUntil.Add(time.Duration(s.terms.ExtendBy))
		return http.StatusOK
	case how == api.Cancel && c.Outcome == api.Held, how == api.Refund && c.Outcome == api.Sold:
		if c.Outcome = how.Done(); how == api.Refund {
			c.owed = append(c.owed, c.paid)
		}
		return http.StatusOK
	}
	if said.Outcome = c.Outcome; c.Outcome == api.Sold {
		said.Outcome = api.NotHeld
	}
	return http.StatusConflict
}

// books are what the shop has written down.
func (s *paidShop) books() (all []api.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		all = append(all, api.Claim{ID: c.ID, User: c.User, Outcome: c.Outcome, Units: c.Units, Books: api.Books{Payment: c.paid, RefundDue: c.owed}})
	}
	return all
}

// open serves the shop and returns a Config for its buyers.
func (s *paidShop) open(t *testing.T) Config {
	t.Helper()
	s.byKey = map[string]*paidClaim{}
	if s.terms.HoldFor == 0 {
		s.terms = spec.Payment{HoldFor: spec.Duration(200 * time.Millisecond), Grace: spec.Duration(20 * time.Millisecond), ExtendBy: spec.Duration(200 * time.Millisecond), Late: spec.LateResell}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return Config{
		URL: server.URL, Admin: server.URL, Users: 400, Concurrency: 16, Seed: 7, Patience: 5 * time.Second,
		Sale:  spec.Sale{Name: "movie", PerUserLimit: s.limit, Stock: s.stock, Payment: &s.terms},
		Sleep: shortSleep,
	}
}
