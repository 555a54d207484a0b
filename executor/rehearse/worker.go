package rehearse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/api"
	"salectl/backends/clock"
)

// record is one click with its final answer. The times except sent are of the request with that answer.
type record struct {
	click
	reply
	sent         time.Duration // monotonic: time of the first request
	began, ended clock.Now
}

// drive is one rehearsal in progress.
type drive struct {
	Config
	api      api.Config
	visits   []visit
	total    int           // number of planned clicks
	opened   time.Duration // monotonic: start of the first burst
	answered time.Duration // time from opened to the last answer of the first burst
	start    clock.Now     // start of the last burst
	retries  atomic.Int64  // repeated requests

	buyers, operator *api.Client // for queries and settlements; no operator: claims are sold at once
	drawn            *drawn      // of a draw, after its crowd has entered

	// mu guards plays, and serializes calls of Progress.
	mu    sync.Mutex
	done  int
	plays []*play
}

// worker is one client of the crowd. Its fields are not shared while workers run.
type worker struct {
	*drive
	client   *api.Client
	random   *rand.Rand // jitter
	began    clock.Now  // start of the current or last attempt
	ended    clock.Now  // end of the last attempt
	attempts []Attempt
	records  []record
}

// newWorkers returns Concurrency workers, but at most one per visit of work.
func (d *drive) newWorkers(work int) (workers []*worker, err error) {
	workers = make([]*worker, min(d.Concurrency, work))
	for i := range workers {
		workers[i] = &worker{
			drive:    d,
			random:   rand.New(rand.NewPCG(d.Seed, uint64(i)+1)),
			attempts: make([]Attempt, 0, work/len(workers)+1),
			records:  make([]record, 0, work/len(workers)+1),
		}
		w := workers[i]
		c := d.api
		c.Later = d.Payment != nil // unpaid units return
		c.Attempted, c.Jitter, c.Sleep = w.attempted, w.random.Float64, func(ctx context.Context, t time.Duration) error {
			err := d.Sleep(ctx, t)
			w.began = d.Clock()
			return err
		}
		if w.client, err = api.NewClient(c); err != nil { // on the shared transport
			return nil, err
		}
	}
	return workers, nil
}

// burst makes all visits, and returns after all answers and stories. Delayed steps of buyers run in the
// group.
func (d *drive) burst(ctx context.Context, workers []*worker) error {
	return d.work(ctx, workers, len(d.visits), func(ctx context.Context, g *errgroup.Group, w *worker, i int) error {
		for _, k := range d.visits[i] {
			for claims := 1; ; claims++ {
				r, err := w.send(ctx, k)
				if err != nil {
					return err
				}
				w.records = append(w.records, r)
				if err := w.perform(ctx, g, r); err != nil {
					return err
				}
				if r.Outcome != api.UnitsTaken || claims == maxClaims || !k.next(d.Config) {
					break
				}
			}
			w.progress()
		}
		return nil
	})
}

// work calls do for each i below n, at once by each of the workers, and returns after all that runs in the
// group.
func (d *drive) work(ctx context.Context, workers []*worker, n int, do func(ctx context.Context, g *errgroup.Group, w *worker, i int) error) error {
	d.start = d.Clock()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, g, w, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// attempted records the duration of an answer, and reports whether to repeat the request.
func (w *worker) attempted(a api.Attempt) bool {
	w.ended = w.Clock()
	if a.Err == nil || errors.As(a.Err, new(*api.UnexpectedError)) {
		w.attempts = append(w.attempts, Attempt{w.ended.Mono - w.opened, w.ended.Mono - w.began.Mono})
	}
	if a.Answer != nil && (a.Answer.Outcome == api.UnitsTaken || a.Answer.Outcome == api.NotAdjacent) {
		return false // the buyer chooses others
	}
	return w.ended.Mono-w.start.Mono < w.Patience && w.again(a)
}

// again reports whether to repeat a request, and counts the repetitions.
func (d *drive) again(a api.Attempt) bool {
	again := a.Again && a.Number < maxAttempts
	if again {
		d.retries.Add(1)
	}
	return again
}

// send sends one click until it has a final answer, always with the same key, so that it is one claim.
func (w *worker) send(ctx context.Context, k click) (record, error) {
	w.began = w.Clock()
	sent := w.began.Mono
	a, err := w.client.Claim(ctx, api.Request{User: k.user, Key: k.key, Quantity: k.quantity, Units: k.names(w.Config), Adjacent: k.adjacent})
	r := record{click: k, sent: sent, began: w.began, ended: w.ended}
	r.reply, err = replyOf(ctx, k.key, &a, err)
	switch {
	case r.Outcome == api.NotEligible:
		r.rule = a.Problem().Rule
	case ended(r.Outcome) || r.Outcome == api.NotDrawn: // of an accepted claim
		if problem := a.Problem(); len(problem.Claims) == 1 {
			r.Claim, r.Outcome = problem.Claims[0], a.Outcome
		}
	}
	return r, err
}

func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == w.total {
		return // claims of returned units are not counted
	}
	w.done++
	if w.done == w.total || w.done%(w.total/100+1) == 0 {
		w.Progress(w.done, w.total)
	}
}

func recordsOf(workers []*worker) (all []record) {
	for _, w := range workers {
		all = append(all, w.records...)
	}
	return all
}

// Limits of a buyer's retries.
const (
	maxAttempts   = 10
	answerTimeout = 15 * time.Second
	maxWait       = 5 * time.Second // upper limit of Retry-After
)

// Drive sends all buyers to the sale in one burst, and returns their observations. It returns an
// error if it could not: a server elsewhere or without answers, or the end of ctx. Broken promises
// are no error of Drive; Report.Verdict returns them.
func Drive(ctx context.Context, c Config) (*Report, error) {
	c = c.withDefaults()
	transport := newTransport(c)
	defer transport.CloseIdleConnections()
	d := &drive{Config: c, visits: planned(c), api: api.Config{
		Servers: []string{c.URL}, Sale: c.Name, Transport: transport, Timeout: answerTimeout, MaxWait: maxWait,
	}}
	for _, v := range d.visits {
		d.total += len(v)
	}
	if err := d.newClients(); err != nil {
		return nil, fmt.Errorf("rehearse: %w", err)
	}
	if err := check(ctx, d.buyers); err != nil {
		return nil, err
	}
	workers, err := d.newWorkers(len(d.visits))
	if err != nil {
		return nil, err
	}
	d.opened = c.Clock().Mono
	if err := d.burst(ctx, workers); err != nil {
		return nil, err
	}
	took := c.Clock().Mono - d.opened
	records := recordsOf(workers)
	for i := range records {
		d.answered = max(d.answered, records[i].ended.Mono-d.opened)
	}
	left := leftOver{}
	switch {
	case c.Draw != nil:
		err = d.draw(ctx, records)
	case c.Payment != nil:
		left, err = d.sellAgain(ctx, workers)
	}
	if err != nil {
		return nil, err
	}
	return report(d, workers, took, left), nil
}
