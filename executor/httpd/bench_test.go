package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// echo is what HTTP costs anyway: a bare net/http handler that reads the same
// body and writes an answer of the same size, both with encoding/json.
func echo(w http.ResponseWriter, r *http.Request) {
	var in struct {
		User     string `json:"user"`
		Quantity int64  `json:"quantity"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(struct {
		Outcome string    `json:"outcome"`
		Claim   string    `json:"claim"`
		Sale    string    `json:"sale"`
		User    string    `json:"user"`
		Units   []int64   `json:"units"`
		At      time.Time `json:"at"`
	}{"sold", "3-1234-56", "movie-tickets", in.User, []int64{in.Quantity}, benchTime})
}

// serveEcho serves echo until ctx ends.
func serveEcho(ctx context.Context, l net.Listener) error {
	bare := &http.Server{Handler: http.HandlerFunc(echo)}
	go func() { <-ctx.Done(); bare.Close() }()
	if err := bare.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

var benchTime = time.Date(2026, 11, 11, 12, 0, 0, 123456789, time.UTC)

// batched answers as an executor does: callers wait in a queue until one
// goroutine has taken all that have gathered and answers them together.
type batched struct {
	httpdtest.Fake
	queue chan *waiting
}

type waiting struct {
	user string
	done chan executor.Answer
}

func (b *batched) Do(ctx context.Context, r executor.Request) executor.Answer {
	w := &waiting{r.User, make(chan executor.Answer, 1)}
	b.queue <- w
	select {
	case a := <-w.done:
		return a
	case <-ctx.Done():
		return executor.Answer{Outcome: api.Unknown}
	}
}

func (b *batched) run(ctx context.Context) {
	var batch []*waiting
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-b.queue:
			batch = append(batch[:0], w)
		}
		for more := true; more; {
			select {
			case w := <-b.queue:
				batch = append(batch, w)
			default:
				more = false
			}
		}
		for _, w := range batch {
			w.done <- httpdtest.SoldTo(w.user)
		}
	}
}

// BenchmarkHTTP compares answers to claims with what HTTP costs anyway. The
// rounds of all of them alternate, so that whatever else the machine does falls
// on each alike; the ratios are what to look at.
func BenchmarkHTTP(b *testing.B) {
	const conns, round = 64, 2000
	queue := &batched{Fake: httpdtest.Fake{Name: "batched"}, queue: make(chan *waiting, 4096)}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); queue.run(ctx) }()
	b.Cleanup(func() { cancel(); <-stopped })

	s := New(Config{Sales: []executor.Service{
		&httpdtest.Fake{Name: "claim", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) }},
		&httpdtest.Fake{Name: "sold-out", ClaimFunc: func(context.Context, executor.Request) executor.Answer {
			return executor.Answer{Outcome: api.SoldOut}
		}},
		queue,
	}})
	echoAddr := start(b, serveEcho)
	addr := start(b, s.Serve)

	of := func(addr, sale, status string) *load {
		return newLoad(b, addr, conns, claimRequest("/v1/sales/"+sale+"/claims"), status)
	}
	loads := []struct {
		name string
		load *load
		took time.Duration
	}{
		{name: "echo", load: of(echoAddr, "echo", "201")},
		{name: "claim", load: of(addr, "claim", "201")},
		{name: "batched", load: of(addr, "batched", "201")},
		{name: "sold_out", load: of(addr, "sold-out", "409")},
	}
	for b.Loop() {
		for i := range loads {
			began := time.Now()
			if err := loads[i].load.run(round); err != nil {
				b.Fatal(err)
			}
			loads[i].took += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op") // a round of four is no operation
	for _, l := range loads {
		b.ReportMetric(float64(b.N*round)/l.took.Seconds(), l.name+"/s")
		if l.name != "echo" {
			b.ReportMetric(loads[0].took.Seconds()/l.took.Seconds(), l.name+":echo")
		}
	}
}
