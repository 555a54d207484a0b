package httpd

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/httpd/wire"
)

// nowhere is where answers go that nobody reads.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

// BenchmarkAnswer is what the handler of claims costs, without net/http and the sale.
func BenchmarkAnswer(b *testing.B) {
	s := New(Config{Log: slog.New(slog.DiscardHandler), Sales: []executor.Service{&httpdtest.Fake{Name: "movie",
		ClaimFunc: func(context.Context, executor.Request) executor.Answer { return httpdtest.SoldTo("ada") }}}})
	serve := s.identified(s.answerBuyer)
	for _, with := range []struct {
		name   string
		header http.Header
	}{
		{"plain", http.Header{}},
		{"traced", http.Header{"X-Request-Id": {"4f1c9d"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}},
	} {
		b.Run(with.name, func(b *testing.B) {
			body := strings.NewReader("")
			r, err := http.NewRequest(http.MethodPost, api.SalesPath+"movie/claims", io.NopCloser(body))
			if err != nil {
				b.Fatal(err)
			}
			r.Header = with.header
			r.Header["Content-Type"] = wire.JSONType
			w := &nowhere{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				body.Reset(`{"user":"ada","quantity":1}`)
				clear(w.header)
				serve(w, r)
			}
		})
	}
}
