package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/saletest"
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
		if a := e.Do(ctx, executor.Request{User: user, Key: key, Quantity: 1}); a.Outcome != api.Sold {
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
				{name: "http", run: requests.run, round: 6000}, // first: the server waits 5 s for a connection's first request
				{name: "within", run: inside.run, round: 60_000},
				{name: "stream", run: streamed.run, round: 60_000},
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

// refusals sends claims over one stream, with so many of them under way at a time, and takes
// in the answers, which must all be sold_out. It encodes and reads messages in place: a client
// with a goroutine for each caller takes more of the processors than the server.
func refusals(ctx context.Context, addr, sale string, under, total int) error {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &only}
	defer transport.CloseIdleConnections()
	out, in := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/sales/"+sale+"/stream", out)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", api.TypeStream)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	var decoder streampb.Decoder
	var messages []byte
	buf, to := make([]byte, 64<<10), 0
	user := make([]byte, 0, 16)
	claim := &streampb.NewClaim{Key: "key-000000000001", Quantity: 1}
	request := &streampb.Request{Kind: &streampb.Request_Claim{Claim: claim}}
	for sent, told := 0, 0; told < total; {
		messages = messages[:0]
		for ; sent < min(total, told+under); sent++ {
			user = strconv.AppendInt(append(user[:0], "user-"...), int64(10_000_000_000+sent), 10)
			claim.User, request.Id = string(user), uint64(sent+1)
			messages = streampb.Append(messages, request)
		}
		if len(messages) > 0 {
			if _, err := in.Write(messages); err != nil {
				return err
			}
		}
		n, err := answer.Body.Read(buf[to:])
		if err != nil {
			return err
		}
		rest := buf[:to+n]
		for {
			message, after, err := streampb.Cut(rest, streampb.MaxMessage)
			if err != nil {
				return err
			}
			if message == nil {
				break
			}
			reply, err := decoder.Reply(message)
			if err != nil {
				return err
			}
			if outcome := reply.GetAnswer().GetOutcome(); outcome != string(api.SoldOut) {
				return fmt.Errorf("an answer is %v", reply)
			}
			told, rest = told+1, after
		}
		to = copy(buf, rest)
	}
	return in.Close()
}

// BenchmarkStreamRefusals is how fast claims are refused over streams once all is sold, of
// clients that have many under way.
func BenchmarkStreamRefusals(b *testing.B) {
	empty := serveReal(b, "empty", 5)
	sellOut(b, empty)
	addr := start(b, New(Config{Sales: []executor.Service{empty}}).Serve)
	for _, streams := range []int{1, 4} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			const round = 200_000
			before := saletest.ProcessorTime(b)
			for b.Loop() {
				var all errgroup.Group
				for range streams {
					all.Go(func() error { return refusals(b.Context(), addr, "empty", 2000, round/streams) })
				}
				if err := all.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			made := float64(b.N * round)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(made/b.Elapsed().Seconds(), "refusals/s")
			b.ReportMetric(float64((saletest.ProcessorTime(b)-before).Nanoseconds())/1e3/made, "µs-cpu/refusal")
		})
	}
}
