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

// record is one click with its final answer. The times are those of the request
// that got it, but for sent.
type record struct {
	click
	reply
	sent         time.Duration // on the monotonic clock: when it was sent first
	began, ended clock.Now
}

// attempt is one request that was answered, also if it was sent again after that.
type attempt struct {
	ended time.Duration // on the monotonic clock
	took  time.Duration
}

// drive is one rehearsal under way.
type drive struct {
	Config
	api      api.Config
	visits   []visit
	total    int           // clicks
	opened   time.Duration // on the monotonic clock: the begin of the first burst
	answered time.Duration // from there until all claims of it had their answers
	start    clock.Now     // the begin of the last burst

	payers *payers // nil: claims are sold at once
	drawn  *drawn  // of a draw, once its crowd has entered

	next atomic.Int64 // the visit that the next free worker takes

	// mu guards plays, and makes calls of Progress one at a time.
	mu    sync.Mutex
	done  int
	plays []*play
}

// worker is one connection's share. Nothing in it is shared while workers run.
type worker struct {
	*drive
	client   *api.Client
	random   *rand.Rand // jitter
	began    clock.Now  // the attempt under way, or the last one
	ended    clock.Now  // the last attempt
	attempts []attempt
	records  []record
	retries  int
}

// newWorkers makes as many workers as there may be, and no more than there is work.
func (d *drive) newWorkers(work int) ([]*worker, error) {
	workers := make([]*worker, min(d.Concurrency, work))
	for i := range workers {
		workers[i] = &worker{
			drive:    d,
			random:   rand.New(rand.NewPCG(d.Seed, uint64(i)+1)),
			attempts: make([]attempt, 0, work/len(workers)+1),
			records:  make([]record, 0, work/len(workers)+1),
		}
		if err := workers[i].open(); err != nil {
			return nil, err
		}
	}
	return workers, nil
}

// burst lets all visits in, and returns when each has its answers and each story is over.
func (d *drive) burst(ctx context.Context, workers []*worker) error {
	d.start = d.Clock()
	d.next.Store(0)
	g, running := errgroup.WithContext(ctx)
	for _, w := range workers {
		g.Go(func() error { return w.run(running, g) })
	}
	return g.Wait()
}

// run takes visits until there are none left. What buyers do later goes on in the group.
func (w *worker) run(ctx context.Context, g *errgroup.Group) error {
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
			if err := w.payers.perform(ctx, g, r); err != nil {
				return err
			}
		}
	}
}

// open makes the worker's client. The connections are those of all.
func (w *worker) open() (err error) {
	c := w.api
	c.Later = w.Payment != nil // units that nobody pays come back
	c.Attempted, c.Jitter, c.Sleep = w.attempted, w.random.Float64, func(ctx context.Context, d time.Duration) error {
		err := w.Sleep(ctx, d)
		w.began = w.Clock()
		return err
	}
	w.client, err = api.NewClient(c)
	return err
}

// attempted takes down how long an answer took, and says whether the claim is sent
// again if it is worth that.
func (w *worker) attempted(a api.Attempt) bool {
	w.ended = w.Clock()
	if a.Err == nil || errors.As(a.Err, new(*api.UnexpectedError)) {
		w.attempts = append(w.attempts, attempt{w.ended.Mono, w.ended.Mono - w.began.Mono})
	}
	again := a.Again && a.Number < maxAttempts && w.ended.Mono-w.start.Mono < w.Patience
	if again {
		w.retries++
	}
	return again
}

// ask sends one click until it has a final answer, always with the same key, so
// that it is one claim however often it is sent.
func (w *worker) ask(ctx context.Context, k click) (record, error) {
	w.began = w.Clock()
	sent := w.began.Mono
	a, err := w.client.Claim(ctx, api.Request{User: k.user, Key: k.key, Quantity: k.quantity})
	r := record{click: k, reply: reply{status: a.Status, Claim: a.Claim}, sent: sent, began: w.began, ended: w.ended}
	switch r.Outcome = a.Outcome; {
	case r.Outcome == api.NotEligible:
		problem := a.Problem()
		r.rule = problem.Rule
	case ended(r.Outcome) || r.Outcome == api.NotDrawn: // of a claim that was accepted
		if problem := a.Problem(); len(problem.Claims) == 1 {
			r.Claim, r.Outcome = problem.Claims[0], a.Outcome
		}
	}
	var unexpected *api.UnexpectedError
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case errors.As(err, &unexpected):
		r.status, r.Outcome = unexpected.StatusCode, api.Outcome(fmt.Sprintf("http_%d", unexpected.StatusCode))
	case err != nil:
		return r, fmt.Errorf("rehearse: %w: %s was sent %d times: %w", ErrNoAnswer, k.key, a.Attempts, err)
	}
	return r, nil // what it is told to wait for counts as its outcome
}

func (w *worker) progress() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == w.total {
		return // who comes for what is left over is not counted
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
