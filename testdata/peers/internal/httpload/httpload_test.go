package httpload

import (
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// requests has the requests to a server.
type requests struct {
	mu    sync.Mutex
	users map[string]int
	keys  map[string]int
}

// serve answers the n-th claim, from 1 on, with a status.
func serve(t *testing.T, status func(n int) int) (*requests, string) {
	a := &requests{users: map[string]int{}, keys: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.users[string(body)]++
		a.keys[r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(status(len(a.keys)))
		_, _ = io.WriteString(w, "an answer")
	}))
	t.Cleanup(s.Close)
	return a, strings.TrimPrefix(s.URL, "http://")
}

func TestRun(t *testing.T) {
	a, address := serve(t, func(n int) int { return map[bool]int{true: 201, false: 409}[n <= 30] })
	l, err := DialTwice(address, "/claims", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, want := range []Result{{Sold: 30, Refused: 10}, {Refused: 40}} { // it goes on where it was
		r, err := l.Run(t.Context(), time.Hour, 40)
		if err != nil || r.Sold != want.Sold || r.Refused != want.Refused || r.Took.TotalCount() != 40 || r.Rate <= 0 {
			t.Errorf("got %+v with %d times, %v, want %+v", r, r.Took.TotalCount(), err, want)
		}
	}
	if len(a.keys) != 80 || len(a.users) != 40 {
		t.Errorf("%d keys of %d users, want 80 of 40", len(a.keys), len(a.users))
	}
	if times := slices.Compact(slices.Sorted(maps.Values(a.users))); !slices.Equal(times, []int{2}) {
		t.Errorf("users sent %v requests, want 2", times)
	}
}

func TestRunEndsWithAnError(t *testing.T) {
	_, address := serve(t, func(n int) int { return map[bool]int{true: 201, false: 500}[n <= 5] })
	l, err := Dial(address, "/claims", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r, err := l.Run(t.Context(), time.Hour, math.MaxInt64); err == nil || r.Sold != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestRetry has a server that has not decided the first claim at its second request, and
// the second at its first.
func TestRetry(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.WriteHeader([]int{503, 429, 200, 503, 201, 200}[requests-1])
	}))
	defer s.Close()
	l, err := Dial(strings.TrimPrefix(s.URL, "http://"), "/claims", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.pause = time.Nanosecond
	if r, err := l.Run(t.Context(), time.Hour, 2); err != nil || r.Sold != 2 || r.Again != 3 || r.Took.TotalCount() != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := l.Run(t.Context(), time.Hour, 1); err == nil {
		t.Errorf("of a claim that was accepted before it was made: got %+v", r)
	}
}

// TestReconnect has a server that closes each connection after two answers, without saying so.
func TestReconnect(t *testing.T) {
	answers := map[string]int{} // by connection
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers[r.RemoteAddr]++; answers[r.RemoteAddr] > 2 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer s.Close()
	l, err := Dial(strings.TrimPrefix(s.URL, "http://"), "/claims", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r, err := l.Run(t.Context(), time.Hour, 5); err != nil || r.Sold != 5 || r.Again != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	s.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if r, err := l.Run(t.Context(), time.Hour, 1); err == nil {
		t.Errorf("of a server that never answers: got %+v", r)
	}
}
