// Package crowd has callers in this process make claims, each waiting for an answer before
// the next.
package crowd

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"salectl/testdata/peers/internal/processor"
)

// Claimer makes the i-th claim, from 1 on, and reports whether it was sold. Where it can wait
// for long it ends with ctx.
type Claimer func(ctx context.Context, i int64) (sold bool, err error)

// Options are how many claims are made.
type Options struct {
	Callers int
	For     time.Duration // or until Most were made
	Most    int64
	// Timed is of how many claims one is timed, to spare the others the time that this
	// takes; 0: none is.
	Timed int64
}

// Result is what became of the claims.
type Result struct {
	Rate float64                 // claims sold a second, while all were asking
	Sold int64                   // in all, with those that were under way at the end
	Took *hdrhistogram.Histogram // in microseconds; one cut short counts for as long as it had lasted
	Cut  int64                   // how many of those that were timed were cut short
	Used time.Duration           // of the processors, by this process, from the first claim to the last
}

// patience is how long claims may take that are under way at the end. Then they are cut
// short: where callers wait for each other in line, it could take minutes.
const patience = 2 * time.Second

// errOver cuts claims short.
var errOver = errors.New("the measurement is over")

// Call has callers make claims. The first error ends it.
func Call(ctx context.Context, o Options, claim Claimer) (Result, error) {
	runtime.GC() // what others left behind is not its burden
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, sold, cut atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	took := make([][]time.Duration, o.Callers)
	before, err := processor.Used()
	if err != nil {
		return Result{}, err
	}
	begin := time.Now()
	for caller := range o.Callers {
		all.Go(func() {
			for i := next.Add(1); i <= o.Most && !over.Load(); i = next.Add(1) {
				timed := o.Timed > 0 && i%o.Timed == 0
				var began time.Time
				if timed {
					began = time.Now()
				}
				ok, err := claim(ctx, i)
				if timed {
					took[caller] = append(took[caller], time.Since(began))
				}
				switch {
				case err != nil && context.Cause(ctx) == errOver:
					if timed {
						cut.Add(1)
					}
					return
				case err != nil:
					cancel(err)
					return
				case ok:
					sold.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(o.For):
	case <-ctx.Done():
	}
	rate := float64(sold.Load()) / time.Since(begin).Seconds()
	over.Store(true)
	select {
	case <-done:
	case <-time.After(patience):
		cancel(errOver)
		<-done
	}
	after, err := processor.Used()
	if cause := context.Cause(ctx); cause != errOver {
		err = cmp.Or(cause, err)
	}
	return Result{rate, sold.Load(), histogram(took), cut.Load(), after - before}, err
}

// longest is what a longer wait counts for.
const longest = time.Minute

func histogram(took [][]time.Duration) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, longest.Microseconds(), 3)
	for _, one := range took {
		for _, d := range one {
			_ = h.RecordValue(min(d, longest).Microseconds()) // it has room for these
		}
	}
	return h
}

// User and Key have 16 bytes, about as many as the names of accounts and random
// ids have, and cost next to nothing, since salectl's callers share the processor
// with what they measure.
func User(i int64) string { return "user-" + strconv.FormatInt(10_000_000_000+i, 10) }

// Key is the idempotency key of the i-th claim.
func Key(i int64) string { return "key-" + strconv.FormatInt(100_000_000_000+i, 10) }
