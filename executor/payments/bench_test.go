package payments

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"salectl/spec"
)

// One turn of a watch among 100,000, from the moment that it is due to its next one.
func BenchmarkTurn(b *testing.B) {
	s := newSchedule(rand.Float64)
	s.interval, s.timeout = 5*time.Second, 3*time.Second
	for i := range 100_000 {
		s.add(at(0), held(i, time.Hour, 2*time.Hour), true)
	}
	now := at(0).Mono
	for b.Loop() {
		w, r := s.take(now)
		if w == nil {
			now = s.wake()
			w, r = s.take(now)
		}
		s.pending(now, w, r, false)
	}
}

// What an answer of the service costs to read.
func BenchmarkRead(b *testing.B) {
	sale := spec.Sale{Name: "movie", Payment: &spec.Payment{Check: &spec.PaymentCheck{
		URL: "https://pay.example/{claim}", Interval: spec.Duration(time.Second), Timeout: spec.Duration(time.Second),
		Success: `response.status == 200 && response.body.state == "paid" && response.body.claim == claim.id`,
		Failure: `response.status == 200 && response.body.state == "failed"`, Payment: "response.body.id",
	}}}
	c, err := newCheck(sale, environment(nil))
	if err != nil {
		b.Fatal(err)
	}
	h := held(1, time.Hour, time.Hour)
	body := `{"id":"pay-1-0-1","claim":"0-1-1","state":"pending","amount":1990,"currency":"EUR","created":"2026-11-11T12:00:00Z"}`
	for b.Loop() {
		if r, _, err := c.read(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil, h); r != pending {
			b.Fatal(r, err)
		}
	}
}
