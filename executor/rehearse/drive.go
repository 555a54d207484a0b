package rehearse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"salectl/backends/clock"
)

// How a buyer asks again.
const (
	maxAttempts = 10
	maxWait     = 5 * time.Second        // whatever Retry-After says
	firstWait   = 100 * time.Millisecond // after no answer at all; doubled each time
)

// record is one click with its final answer. The times are those of the request
// that got it.
type record struct {
	click
	reply
	began, ended clock.Now
}

// drive is one rehearsal under way.
type drive struct {
	Config
	client *client
	visits []visit
	total  int // clicks
	start  clock.Now

	next atomic.Int64 // the visit that the next free worker takes

	// mu makes calls of Progress one at a time.
	mu   sync.Mutex
	done int
}

// worker is one connection's share. Nothing in it is shared while workers run.
type worker struct {
	*drive
	random  *rand.Rand // jitter
	latency *hdrhistogram.Histogram
	records []record
	retries int
}

// Drive sends all buyers to the sale in one burst, and returns what they saw. It
// returns an error if it could not: a Config that makes no sense, a server that
// is elsewhere or stops answering, or the end of ctx. Broken promises are no
// error of Drive's: Report.Verdict tells them.
func Drive(ctx context.Context, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &drive{Config: c, client: newClient(c), visits: planned(c)}
	defer d.client.close()
	for _, v := range d.visits {
		d.total += len(v)
	}
	if err := d.client.check(ctx); err != nil {
		return nil, err
	}

	workers := make([]*worker, min(c.Concurrency, len(d.visits)))
	for i := range workers {
		workers[i] = &worker{
			drive:   d,
			random:  rand.New(rand.NewPCG(c.Seed, uint64(i)+1)),
			latency: newHistogram(),
			records: make([]record, 0, d.total/len(workers)+1),
		}
	}
	d.start = c.Clock()
	g, running := errgroup.WithContext(ctx)
	for _, w := range workers {
		g.Go(func() error { return w.run(running) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return report(d, workers, c.Clock().Mono-d.start.Mono), nil
}

// run takes visits until there are none left.
func (w *worker) run(ctx context.Context) error {
	for {
		i := int(w.next.Add(1)) - 1
		if i >= len(w.visits) {
			return nil
		}
		for _, k := range w.visits[i] {
			r, err := w.ask(ctx, k)
			if err != nil {
				return err
			}
			w.records = append(w.records, r)
			w.progress()
		}
	}
}

// ask sends one click until it has a final answer, always with the same key, so
// that it is one claim however often it is sent.
func (w *worker) ask(ctx context.Context, k click) (record, error) {
	for attempt := 1; ; attempt++ {
		r := record{click: k, began: w.Clock()}
		var err error
		r.reply, err = w.client.claim(ctx, k)
		r.ended = w.Clock()
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		wait := min(firstWait<<(attempt-1), maxWait)
		if err == nil {
			w.latency.RecordValue(latencyUnits(r.ended.Mono - r.began.Mono))
			if !r.later() {
				return r, nil
			}
			wait = min(r.retryAfter, maxWait)
		}
		if attempt == maxAttempts || r.ended.Mono-w.start.Mono >= w.Patience {
			if err != nil {
				return r, fmt.Errorf("rehearse: %w: %s was sent %d times: %w", ErrNoAnswer, k.key, attempt, err)
			}
			return r, nil // what it is told to wait for counts as its outcome
		}
		// Without jitter, all that were refused together come back together.
		wait += time.Duration(w.random.Int64N(int64(wait)/4 + 1))
		if err := w.Sleep(ctx, wait); err != nil {
			return r, err
		}
		w.retries++
	}
}

func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	if w.done == w.total || w.done%(w.total/100+1) == 0 {
		w.Progress(w.done, w.total)
	}
}
