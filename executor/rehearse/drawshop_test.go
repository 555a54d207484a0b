package rehearse

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/draw"
	"salectl/spec"
)

// drawShop is a small sale that is a draw. Where paid, what is won is held until it is paid.
// It keeps every promise, except those that a test makes it break.
type drawShop struct {
	paidShop
	paid        bool
	substitutes int64

	// lie, if set, may spoil an answer to a claim before it is sent. c is nil where there is
	// no entry of that key.
	lie func(s *drawShop, q api.Request, c *paidClaim, a *drawAnswer)

	closed, revealed bool
	order            []*paidClaim // that are ranked
	awarded          int64
	stuck            bool                // nothing is awarded
	lost             map[*paidClaim]bool // whose first answer after the draw was lost
}

type drawAnswer struct {
	status int
	claim  api.Claim   // of 200 and 201
	said   api.Problem // of all others
}

func (a *drawAnswer) refuse(o api.Outcome) {
	a.status, a.said.Outcome = http.StatusConflict, o
}

func (s *drawShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.award()
	rest := strings.TrimPrefix(r.URL.Path, "/v1/sales/movie")
	a := drawAnswer{}
	switch {
	case rest == "":
		json.NewEncoder(w).Encode(api.Sale{SaleSummary: api.SaleSummary{Sale: "movie", Held: int64(len(s.in(api.Held))), Sold: int64(len(s.in(api.Sold))), Draw: &draw.Status{
			Published: draw.Published{Winners: s.stock, Ranks: int64(len(s.order)), Lapsed: s.lapsed()}, Complete: s.revealed,
		}}})
		return
	case rest == "/claims":
		var q api.Request
		json.NewDecoder(r.Body).Decode(&q)
		q.Key = r.Header.Get(api.KeyHeader)
		a = s.enter(q)
		if s.lie != nil {
			s.lie(s, q, s.byKey[q.Key], &a)
		}
	default:
		parts := strings.Split(rest, "/") // "", claims, id, how
		var q api.Settlement
		json.NewDecoder(r.Body).Decode(&q)
		for _, c := range s.claims {
			if c.ID == parts[2] {
				a.status = s.settle(c, api.How(parts[3]), q, &a.said)
				a.claim = c.Claim
			}
		}
	}
	w.WriteHeader(a.status)
	if a.status < 300 {
		json.NewEncoder(w).Encode(a.claim)
	} else {
		json.NewEncoder(w).Encode(a.said)
	}
}

func (s *drawShop) lapsed() int64 {
	return int64(len(s.in(api.Expired)) + len(s.in(api.Cancelled)) + len(s.in(api.Refunded)))
}

// award gives ranked entries the units that are free.
func (s *drawShop) award() {
	s.expire()
	for s.revealed && !s.stuck && s.awarded < min(int64(len(s.order)), s.stock+s.lapsed()) {
		c := s.order[s.awarded]
		s.awarded++
		c.Units, c.Outcome = s.free(1), api.Sold
		if s.paid {
			c.Outcome, c.HeldUntil = api.Held, time.Now().Add(time.Duration(s.terms.HoldFor))
		}
	}
}

func (s *drawShop) enter(q api.Request) (a drawAnswer) {
	c := s.byKey[q.Key]
	mine := false
	for _, other := range s.claims {
		mine = mine || other.User == q.User
	}
	switch {
	case c == nil && s.closed:
		a.refuse(api.Closed)
	case c == nil && (mine || q.Quantity > 1):
		a.refuse(api.LimitReached)
	case c == nil:
		return s.accept(q)
	case c.Outcome == api.Entered && s.revealed && !s.isRanked(c):
		a.refuse(api.NotDrawn)
		a.said.Claims = []api.Claim{c.Claim}
	case c.Outcome.Accepted():
		a.status, a.claim = http.StatusOK, c.Claim
	default:
		a.refuse(c.Outcome)
		a.said.Claims = []api.Claim{c.Claim}
	}
	return a
}

func (s *drawShop) accept(q api.Request) drawAnswer {
	c := &paidClaim{Claim: api.Claim{
		Outcome: api.Entered, ID: "0-1-" + strconv.Itoa(len(s.claims)), Sale: "movie", User: q.User, At: time.Now(),
	}}
	s.claims, s.byKey[q.Key] = append(s.claims, c), c
	return drawAnswer{status: http.StatusCreated, claim: c.Claim}
}

func (s *drawShop) isRanked(c *paidClaim) bool {
	for _, ranked := range s.order {
		if ranked == c {
			return true
		}
	}
	return false
}

func (s *drawShop) close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *drawShop) reveal(context.Context) (ranked []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revealed = true
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(s.claims))[:min(int64(len(s.claims)), s.stock+s.substitutes)] {
		s.order = append(s.order, s.claims[i])
		ranked = append(ranked, s.claims[i].ID)
	}
	return ranked, nil
}

// found is what whoever works the draw of an honest shop out again finds.
func (s *drawShop) found() *draw.Report {
	return &draw.Report{OK: true, Revealed: true, Entries: int64(len(s.claims)), Awarded: s.awarded}
}

// open serves the shop and returns a Config for its buyers.
func (s *drawShop) open(t *testing.T) Config {
	t.Helper()
	s.byKey, s.lost, s.limit = map[string]*paidClaim{}, map[*paidClaim]bool{}, 1
	s.terms = spec.Payment{HoldFor: spec.Duration(300 * time.Millisecond), Grace: spec.Duration(20 * time.Millisecond), ExtendBy: spec.Duration(200 * time.Millisecond), Late: spec.LateRefuse}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := Config{
		URL: server.URL, Users: 400, Concurrency: 16, Seed: 7,
		Sale: spec.Sale{Name: "movie", PerUserLimit: 1, Stock: s.stock},
		Draw: &Drawing{Close: s.close, Reveal: s.reveal}, Patience: time.Second, Sleep: shortSleep,
	}
	if s.paid {
		c.Payment, c.Admin = &s.terms, server.URL
	}
	return c
}
