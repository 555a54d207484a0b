package httpd

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
)

// callers are goroutines that claim one unit after the other, each waiting for its answer.
type callers struct {
	n    int
	sent atomic.Int64
	ask  func(ctx context.Context, user, key string) error
}

// run makes total claims. Users and keys have 16 bytes.
func (c *callers) run(total int) error {
	end := c.sent.Load() + int64(total)
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range c.n {
		all.Go(func() {
			for i := c.sent.Add(1); i <= end; i = c.sent.Add(1) {
				if err := c.ask(context.Background(), fmt.Sprintf("user-%011d", i), fmt.Sprintf("key-%012d", i)); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	c.sent.Store(end)
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// within asks an executor.
func within(e *executor.Executor) func(context.Context, string, string) error {
	return func(ctx context.Context, user, key string) error {
		if a := e.Claim(ctx, executor.Request{User: user, Key: key, Quantity: 1}); a.Outcome != api.Sold {
			return fmt.Errorf("%+v", a)
		}
		return nil
	}
}

// over asks by a client.
func over(c *api.Client) func(context.Context, string, string) error {
	return func(ctx context.Context, user, key string) error {
		a, err := c.Claim(ctx, api.Request{User: user, Key: key, Quantity: 1})
		if err == nil && a.Outcome != api.Sold {
			err = fmt.Errorf("%+v", a)
		}
		return err
	}
}

// BenchmarkStream compares claims over one stream with claims by a request of HTTP/1.1
// each, and with claims within the process. All end in commits on the embedded store. The
// rounds alternate, so that whatever else the machine does falls on each alike.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			sales := map[string]*executor.Executor{}
			var services []executor.Service
			for _, name := range []string{"within", "stream", "http"} {
				sales[name] = serveReal(b, name, 100_000_000)
				services = append(services, sales[name])
			}
			addr := start(b, New(Config{Sales: services}).Serve)
			client, err := api.NewClient(api.Config{Servers: []string{"http://" + addr}, Sale: "stream", Stream: true})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			inside, streamed := &callers{n: n, ask: within(sales["within"])}, &callers{n: n, ask: over(client)}
			requests := newLoad(b, addr, n, claimRequest("/v1/sales/http/claims"), "201")
			loads := []struct {
				name  string
				run   func(int) error
				round int
				took  time.Duration
			}{
				{name: "within", run: inside.run, round: 60_000},
				{name: "stream", run: streamed.run, round: 60_000},
				{name: "http", run: requests.run, round: 6000},
			}
			for b.Loop() {
				for i := range loads {
					runtime.GC()
					began := time.Now()
					if err := loads[i].run(loads[i].round); err != nil {
						b.Fatal(err)
					}
					loads[i].took += time.Since(began)
				}
			}
			b.ReportMetric(0, "ns/op") // a round of three is no operation
			rate := map[string]float64{}
			for _, l := range loads {
				rate[l.name] = float64(b.N*l.round) / l.took.Seconds()
				b.ReportMetric(rate[l.name], l.name+"/s")
			}
			b.ReportMetric(rate["stream"]/rate["http"], "stream:http")
			b.ReportMetric(rate["stream"]/rate["within"], "stream:within")
		})
	}
}
