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

// asked is what a server was asked.
type asked struct {
	mu    sync.Mutex
	users map[string]int
	keys  map[string]int
}

// serve answers the n-th claim, from 1 on, with a status.
func serve(t *testing.T, status func(n int) int) (*asked, string) {
	a := &asked{users: map[string]int{}, keys: map[string]int{}}
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
		t.Errorf("users asked %v times, want 2", times)
	}
}

func TestRunEndsWithAnError(t *testing.T) {
	_, address := serve(t, func(n int) int { return map[bool]int{true: 201, false: 503}[n <= 5] })
	l, err := Dial(address, "/claims", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if r, err := l.Run(t.Context(), time.Hour, math.MaxInt64); err == nil || r.Sold != 5 {
		t.Errorf("got %+v, %v", r, err)
	}
}
