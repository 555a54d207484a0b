package httpd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/planner"
	"salectl/spec"
)

// serveReal applies a sale to a new embedded store and runs its executor.
func serveReal(b *testing.B, stock int64) *executor.Executor {
	b.Helper()
	dir := b.TempDir()
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		b.Fatal(err)
	}
	node, err := embedded.OpenNode(dir, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	sale := spec.Sale{
		Name: "real", Run: 1, Stock: stock, LockCount: 5, PerUserLimit: stock,
		LockTTL: quorum.DefaultTTL, Embedded: &spec.Embedded{Dir: dir},
	}
	nodes := []quorum.Node{node}
	cfg := planner.Config{Logs: logs, Nodes: nodes, Clock: clock.System(), Rand: rand.Reader, Writer: []byte("planner1")}
	actual, err := planner.ReadActual(b.Context(), cfg, sale.Name)
	if err != nil {
		b.Fatal(err)
	}
	plan, err := planner.Make(sale, actual)
	if err == nil {
		_, err = planner.Apply(b.Context(), cfg, plan)
	}
	if err != nil {
		b.Fatal(err)
	}
	e := executor.New(executor.Config{Logs: logs, Nodes: nodes, Sale: sale.Name, Address: "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, logs.Close(), node.Close()); err != nil {
			b.Error(err)
		}
	})
	for e.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return e
}

// BenchmarkServe is BenchmarkHTTP with nothing faked: claims end in commits on
// the embedded store.
func BenchmarkServe(b *testing.B) {
	const round = 4000
	for _, conns := range []int{200, 2000} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			s := New(Config{Sales: []executor.Service{serveReal(b, 100_000_000)}})
			echoAddr := start(b, func(ctx context.Context, l net.Listener) error {
				bare := &http.Server{Handler: http.HandlerFunc(echo)}
				go func() { <-ctx.Done(); bare.Close() }()
				if err := bare.Serve(l); !errors.Is(err, http.ErrServerClosed) {
					return err
				}
				return nil
			})
			bare := newLoad(b, echoAddr, conns, claimRequest("/v1/sales/real/claims"), "201")
			claims := newLoad(b, start(b, s.Serve), conns, claimRequest("/v1/sales/real/claims"), "201")
			var echoed, claimed time.Duration
			for b.Loop() {
				for _, l := range []struct {
					load *load
					took *time.Duration
				}{{bare, &echoed}, {claims, &claimed}} {
					began := time.Now()
					if err := l.load.run(round); err != nil {
						b.Fatal(err)
					}
					*l.took += time.Since(began)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.N*round)/echoed.Seconds(), "echo/s")
			b.ReportMetric(float64(b.N*round)/claimed.Seconds(), "claims/s")
			b.ReportMetric(echoed.Seconds()/claimed.Seconds(), "claims:echo")
		})
	}
}
