package httpd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"salectl/executor"
	"salectl/executor/httpd/dashboard"
)

// readers are some who watch the dashboard of a sale, as browsers do that draw nothing.
type readers struct {
	end  context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	errs []error
	news int
}

func watchAll(admin, sale string, n int) *readers {
	ctx, end := context.WithCancel(context.Background())
	r := &readers{end: end}
	for range n {
		r.done.Go(func() {
			if err := r.read(ctx, admin+dashboard.Path+"sales/"+sale+"/events"); err != nil && ctx.Err() == nil {
				r.mu.Lock()
				r.errs = append(r.errs, err)
				r.mu.Unlock()
			}
		})
	}
	return r
}

func (r *readers) read(ctx context.Context, url string) error {
	q, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	for in := bufio.NewReader(a.Body); ; {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // it goes on
		case err != nil:
			return err
		case string(line) == "event: snapshot\n":
			r.mu.Lock()
			r.news++
			r.mu.Unlock()
		}
	}
}

// leave ends them and returns how much news they had.
func (r *readers) leave() (int, error) {
	r.end()
	r.done.Wait()
	return r.news, errors.Join(r.errs...)
}

// BenchmarkWatched compares claims over HTTP while ten watch the dashboard with claims while
// nobody does. The rounds alternate, each of seconds, since news come once a second; the order
// turns around from one pair to the next.
func BenchmarkWatched(b *testing.B) {
	const conns, round, watchers = 200, 60_000, 10
	for _, shards := range []int{5, 1024} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s := New(Config{Sales: []executor.Service{serveShards(b, "full", 1_000_000_000, shards)}})
			addr, admin := start(b, s.Serve), "http://"+start(b, s.ServeAdmin)
			l := newLoad(b, addr, conns, claimRequest("/v1/sales/full/claims"), "201")
			var took [2]time.Duration // alone, watched
			news := 0
			run := func(watched int) {
				r := watchAll(admin, "full", watched*watchers)
				began := time.Now()
				if err := l.run(round); err != nil {
					b.Fatal(err)
				}
				took[watched] += time.Since(began)
				n, err := r.leave()
				if err != nil {
					b.Fatal(err)
				}
				news += n
			}
			run(0) // warms up
			took = [2]time.Duration{}
			for i := 0; b.Loop(); i++ {
				run(i % 2)
				run(1 - i%2)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.N*round)/took[0].Seconds(), "alone/s")
			b.ReportMetric(float64(b.N*round)/took[1].Seconds(), "watched/s")
			b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "watched:alone")
			b.ReportMetric(float64(news)/took[1].Seconds(), "news/s")
		})
	}
}

// BenchmarkLook is what it takes, once a second, to know what the pages of a sale show.
func BenchmarkLook(b *testing.B) {
	for _, shards := range []int{5, 1024} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s := New(Config{Sales: []executor.Service{serveShards(b, "full", 1_000_000, shards)}})
			for b.Loop() {
				s.sales()["full"].dashboardState("")
			}
		})
	}
}
