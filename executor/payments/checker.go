package payments

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
)

// SettleTimeout is the timeout of one settlement in the ledger.
const SettleTimeout = 5 * time.Second

// Checker queries the payment service of a sale about all held claims. Run does the work; all other
// methods are safe for concurrent use.
type Checker struct {
	sale     Sale
	clock    clock.Clock
	client   *http.Client
	attempts chan *Attempt // completed; it has room for all

	// The following fields belong to Run.
	serving context.Context // context of the requests under way; canceled when the machine begins a new era
	forget  context.CancelFunc
	running sync.WaitGroup

	// mu guards the rest.
	mu      sync.Mutex
	machine *Machine
}

// NewChecker returns a Checker. It does nothing until Run is called.
func NewChecker(sale Sale, env Lookup, logger *slog.Logger) *Checker {
	return &Checker{
		sale: sale, clock: clock.System(), client: newClient(), attempts: make(chan *Attempt, maxAttempts),
		machine: NewMachine(sale, env, logger, rand.Float64),
	}
}

// Health returns the health of the checks.
func (c *Checker) Health() api.PaymentCheck {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.machine.health
	h.Watched = len(c.machine.schedule.watches)
	return h
}

// Run queries the service until ctx ends. It returns when no request is under way.
func (c *Checker) Run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	defer c.running.Wait()
	c.serving, c.forget = context.WithCancel(ctx)
	defer func() { c.forget() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var made *Attempt
		select {
		case <-ctx.Done():
			return
		case made = <-c.attempts:
		case <-timer.C:
		}
		timer.Reset(c.next(ctx, made))
	}
}

// next processes a completed attempt, or nil, and starts others. It returns the time until the next
// call, unless an attempt completes before.
func (c *Checker) next(ctx context.Context, made *Attempt) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if made != nil {
		c.machine.Took(c.clock(), made)
	}
	era := c.machine.era
	all := c.machine.Step(c.clock())
	if c.machine.era != era {
		c.forget()
		c.serving, c.forget = context.WithCancel(ctx)
	}
	for _, a := range all {
		serving := c.serving
		c.running.Go(func() { c.attempt(serving, a) })
	}
	return max(c.machine.Wake()-c.clock().Mono, 0)
}

// attempt queries the service, and settles the claim if the response decides it.
func (c *Checker) attempt(ctx context.Context, a *Attempt) {
	if a.NeedsQuery() {
		began := c.clock().Mono
		querying, cancel := context.WithTimeout(ctx, a.Timeout())
		r, err := a.Request(querying)
		var response *http.Response
		if err == nil {
			response, err = c.client.Do(r)
		}
		a.Replied(response, err)
		cancel()
		if ctx.Err() == nil {
			a.Observe(c.clock().Mono - began)
		}
	}
	if x, ok := a.Settlement(); ok {
		settling, cancel := context.WithTimeout(ctx, SettleTimeout)
		a.Settled(c.sale.Do(settling, executor.Request{Settle: &x}))
		cancel()
	}
	c.attempts <- a // when Run has ended, the next process that serves repeats it
}
