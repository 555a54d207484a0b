package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"salectl/internal/services"
)

// database starts a PostgreSQL for a test.
func database(t *testing.T) (url string) {
	t.Helper()
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{})
	services.Require(t, err)
	t.Cleanup(server.Stop)
	return server.URL()
}

func open(t *testing.T, url string, o Options, by func(context.Context, string, Options) (*Shop, error)) *Shop {
	t.Helper()
	s, err := by(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestShop(t *testing.T) {
	url := database(t)
	t.Run("Answers", func(t *testing.T) { answers(t, open(t, url, Options{Stock: 2, Shards: 1, Connections: 1}, Open)) })
	t.Run("OneBatch", func(t *testing.T) { oneBatch(t, open(t, url, Options{Stock: 2, Shards: 1, Connections: 1}, Open)) })
	t.Run("Race", func(t *testing.T) { race(t, url) })
}

// answers sends one request after the other, over HTTP.
func answers(t *testing.T, s *Shop) {
	for _, c := range []struct {
		user, key string
		status    int
		want      string
	}{
		{"ada", "k1", http.StatusCreated, `"claim":"0-1"`},
		{"ada", "k1", http.StatusOK, `"claim":"0-1"`},
		{"ada", "k2", http.StatusConflict, `"outcome":"limit_reached"`},
		{"bob", "k1", http.StatusCreated, `"units":[2]`},
		{"eve", "k1", http.StatusConflict, `"outcome":"sold_out"`},
		{"bob", "k1", http.StatusOK, `"units":[2]`},
		{"bob", "", http.StatusUnprocessableEntity, `"outcome":"bad_request"`},
	} {
		body, err := json.Marshal(request{c.user, 1})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
		r.Header.Set("Idempotency-Key", c.key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: got %d %s, want %d and %s", c.user, c.key, w.Code, w.Body, c.status, c.want)
		}
	}
	if err := s.Check(t.Context(), 2); err != nil {
		t.Error(err)
	}
	if err := s.Check(t.Context(), 3); err == nil {
		t.Error("a claim that was accepted is not there, and nobody notices")
	}
	if _, err := s.conns[0].Exec(t.Context(), "UPDATE claims SET unit = 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context(), 2); err == nil {
		t.Error("a unit is sold twice, and nobody notices")
	}
}

// oneBatch puts users with repeated requests into one batch with others.
func oneBatch(t *testing.T, s *Shop) {
	b := newBatch(s.conns[0])
	var claims []*claim
	for _, request := range []string{"ada k1", "ada k1", "bob k1", "ada k2", "eve k1", "ada k1"} {
		user, key, _ := strings.Cut(request, " ")
		claims = append(claims, &claim{user: user, key: key, answer: make(chan Answer, 1)})
		b.add(claims[len(claims)-1])
	}
	b.decide(t.Context())
	got := ""
	for _, c := range claims {
		a := <-c.answer
		got += fmt.Sprintf("%s %d %v, ", a.Outcome, a.Unit, a.Again)
	}
	// Requests in between are answered as if they had come one after the other; which of the
	// repeats counts as the first is no matter.
	if want := "sold 1 false, sold 1 true, sold 2 false, limit_reached 0 false, sold_out 0 false, sold 1 true, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if all, err := s.Processes(t.Context()); err != nil || len(all) != 4 {
		t.Errorf("the processes are %v, %v", all, err)
	}
	if len(b.users) != 0 || len(b.waiting) != 0 {
		t.Error("the batch is not empty")
	}
	if err := s.Check(t.Context(), 2); err != nil {
		t.Error(err)
	}
}

// race has two servers of one database sell it out to users who send requests to both of them.
func race(t *testing.T, url string) {
	const stock, shards, users = 40, 5, 400
	o := Options{Stock: stock, Shards: shards, Connections: 5}
	a, b := open(t, url, o, Open), open(t, url, o, Join)
	var sold atomic.Int64
	var all sync.WaitGroup
	for i := range users {
		for _, s := range []*Shop{a, b, a} {
			all.Go(func() {
				x := s.Claim(t.Context(), fmt.Sprint("user-", i), "key")
				if x.Outcome != Sold && x.Outcome != SoldOut {
					t.Errorf("%+v", x)
				}
				if x.Outcome == Sold && !x.Again {
					sold.Add(1)
				}
			})
		}
	}
	all.Wait()
	if sold.Load() != stock*shards {
		t.Errorf("%d of %d units were sold", sold.Load(), stock*shards)
	}
	if err := a.Check(context.Background(), sold.Load()); err != nil {
		t.Error(err)
	}
}
