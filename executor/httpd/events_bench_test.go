package httpd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/hbase"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// feedReader follows a sale as a program does that looks at little: how late the oldest event is
// of what comes together.
type feedReader struct {
	end    context.CancelFunc
	done   sync.WaitGroup
	claims atomic.Int64

	mu   sync.Mutex
	lags []time.Duration
	err  error
}

func followAt(address, sale string) *feedReader {
	ctx, end := context.WithCancel(context.Background())
	r := &feedReader{end: end}
	begun := make(chan struct{})
	r.done.Go(func() {
		if err := r.read(ctx, "http://"+address+api.EventsPath(sale)+"?from=now", begun); ctx.Err() == nil {
			r.err = err
		}
	})
	<-begun
	return r
}

func (r *feedReader) read(ctx context.Context, url string, begun chan struct{}) error {
	begin := sync.OnceFunc(func() { close(begun) })
	defer begin()
	q, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	var oldest []byte
	for in := bufio.NewReaderSize(a.Body, 1<<20); ; {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case bytes.HasPrefix(line, []byte("event: salectl.claim.sold")):
			r.claims.Add(1)
		case bytes.HasPrefix(line, []byte("id: ")):
			r.late(oldest)
			oldest = oldest[:0]
			begin()
		case bytes.HasPrefix(line, []byte("data: ")):
			_, at, _ := bytes.Cut(line, []byte(`"time":"`))
			at, _, _ = bytes.Cut(at, []byte(`"`))
			if len(oldest) == 0 || string(at) < string(oldest) { // near enough: fractions have no zeros at their ends
				oldest = append(oldest[:0], at...)
			}
		}
	}
}

// late notes how late something is that was committed at a time.
func (r *feedReader) late(at []byte) {
	if t, err := time.Parse(time.RFC3339Nano, string(at)); err == nil {
		r.mu.Lock()
		r.lags = append(r.lags, time.Since(t))
		r.mu.Unlock()
	}
}

// leave ends it once it was told of so many claims, and returns how late they were.
func (r *feedReader) leave(claims int64) ([]time.Duration, error) {
	late := wait.Poll(wait.Limit, func() error {
		if n := r.claims.Load(); n < claims {
			return fmt.Errorf("told of %d claims, want %d", n, claims)
		}
		return nil
	})
	r.end()
	r.done.Wait()
	return r.lags, errors.Join(late, r.err)
}

// offer has that many users claim, so many a second or, with 0, as 200 callers that wait.
func offer(b *testing.B, e *executor.Executor, first, n, rate int) {
	var all sync.WaitGroup
	var wrong atomic.Int64
	request := func(i int) executor.Request {
		return executor.Request{User: fmt.Sprintf("user-%011d", first+i), Key: fmt.Sprintf("key-%012d", first+i), Quantity: 1}
	}
	took := func(a executor.Answer) {
		if a.Outcome != api.Sold {
			wrong.Add(1)
		}
	}
	if rate == 0 {
		var next atomic.Int64
		for range 200 {
			all.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					took(e.Do(context.Background(), request(int(i))))
				}
			})
		}
	} else {
		began := time.Now()
		for i := range n {
			if due := began.Add(time.Duration(i) * time.Second / time.Duration(rate)); i%50 == 0 {
				time.Sleep(time.Until(due)) // the rate is what is asked for
			}
			all.Add(1)
			e.Begin(request(i), func(a executor.Answer) { took(a); all.Done() })
		}
	}
	all.Wait()
	if wrong.Load() > 0 {
		b.Errorf("%d claims were not sold", wrong.Load())
	}
}

// BenchmarkFollowed compares claims while a program follows the feed over HTTP, from the same
// process and on the same cores, with claims while nobody does, and tells how late events come.
// The rounds alternate; the order turns around from one pair to the next.
func BenchmarkFollowed(b *testing.B) {
	for _, where := range []struct {
		name string
		logs func(*testing.B) ledger.Logs
	}{{"embedded", nil}, {"HBase", benchHBase}} {
		for _, rate := range []int{20_000, 0} {
			b.Run(fmt.Sprintf("%s/offered=%d", where.name, rate), func(b *testing.B) { followed(b, where.logs, rate) })
		}
	}
}

func benchHBase(b *testing.B) ledger.Logs {
	store, err := services.StartHBase(b.Context(), services.HBaseOptions{})
	services.Require(b, err)
	b.Cleanup(store.Stop)
	logs, err := hbase.Open(hbase.Options{Zookeeper: []string{store.Zookeeper()}, Table: "sales"})
	if err != nil {
		b.Fatal(err)
	}
	if err := logs.CreateTable(b.Context()); err != nil {
		b.Fatal(err)
	}
	return logs
}

func followed(b *testing.B, open func(*testing.B) ledger.Logs, rate int) {
	const round = 60_000
	var logs ledger.Logs
	if open != nil {
		logs = open(b)
	}
	e := serveOn(b, logs, "full", 1_000_000_000, 5)
	address := start(b, New(Config{Sales: []executor.Service{e}}).Serve)
	var took, worked [2]time.Duration // alone, followed
	var lags []time.Duration
	next := 0
	run := func(followed int) {
		var r *feedReader
		if followed == 1 {
			r = followAt(address, "full")
		}
		began, before := time.Now(), saletest.ProcessorTime(b)
		offer(b, e, next, round, rate)
		took[followed] += time.Since(began)
		next += round
		if r != nil {
			late, err := r.leave(round)
			if err != nil {
				b.Fatal(err)
			}
			lags = append(lags, late...)
		}
		worked[followed] += saletest.ProcessorTime(b) - before
	}
	for range 4 { // a store that has just been started is slower
		run(0)
	}
	run(1)
	took, worked, lags = [2]time.Duration{}, [2]time.Duration{}, nil
	for i := 0; b.Loop(); i++ {
		run(i % 2)
		run(1 - i%2)
	}
	slices.Sort(lags)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N*round)/took[0].Seconds(), "alone/s")
	b.ReportMetric(float64(b.N*round)/took[1].Seconds(), "followed/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "followed:alone")
	b.ReportMetric(worked[1].Seconds()/worked[0].Seconds(), "processor:alone")
	b.ReportMetric(float64(lags[len(lags)/2].Milliseconds()), "lag-p50-ms")
	b.ReportMetric(float64(lags[len(lags)*99/100].Milliseconds()), "lag-p99-ms")
	b.ReportMetric(float64(lags[len(lags)-1].Milliseconds()), "lag-max-ms")
}
