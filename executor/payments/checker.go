package payments

import (
	"context"
	"log/slog"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/spec"
)

// Config is what a Checker is made of. Sale and Env are required.
type Config struct {
	Sale   Sale
	Env    Lookup
	Clock  clock.Clock  // nil: the host's
	Logger *slog.Logger // nil: nobody is told
}

// Checker asks the payment service of a sale about all claims that are held. Run does the
// work; all other methods are safe for concurrent use.
type Checker struct {
	cfg     Config
	client  *http.Client
	metrics *metrics
	answers chan answer

	// The following belongs to Run.
	stopped   <-chan struct{}
	seen      executor.HoldsSeen
	declared  *spec.Sale      // of which check is
	check     *check          // nil: nobody is asked
	serving   context.Context // of the requests under way; ended when the process serves anew
	forget    context.CancelFunc
	era       int // counts how often the process has served anew
	under     int // requests under way
	running   sync.WaitGroup
	nextLook  time.Duration
	told      time.Duration // when the log was last told of a service that fails
	toldError string        // what it was last told of a check that cannot be carried out

	// mu guards the rest.
	mu       sync.Mutex
	schedule *schedule
	health   Health
}

// Health is how the checks of a sale go.
type Health struct {
	Watched int       // claims that it is asked about
	Since   time.Time // since when the service gives no answer that can be used; zero: it does
	Error   string    // why
}

// maxAsks bounds the requests under way of one sale. With a service that takes 100 ms that
// is 640 claims a second, and one that hangs keeps no more connections than these.
const maxAsks = 64

// How often new holds are looked for, and how often where no check is declared.
const (
	lookEvery = 100 * time.Millisecond
	idleEvery = time.Second
)

// How long the service fails before the log is told, and how often it is.
const (
	failsFor  = 30 * time.Second
	tellEvery = time.Minute
)

// answer is what came of one turn of a watch.
type answer struct {
	era     int
	watch   *watch
	rank    rank
	expired bool   // the claim was so when the turn began, or was cancelled and its release had passed
	result  result // "": the service was not asked, as it has said it before
	verdict verdict
	err     error
	settled executor.Answer // where there is a verdict
}

// NewChecker returns a checker. Run makes it work.
func NewChecker(cfg Config) *Checker {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Checker{cfg: cfg, client: newClient(), answers: make(chan answer), schedule: newSchedule(mrand.Float64)}
	c.metrics = newMetrics(c)
	return c
}

// Health says how the checks go.
func (c *Checker) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health
	h.Watched = len(c.schedule.watches)
	return h
}

// Run asks until ctx ends, and returns when no request is under way any more.
func (c *Checker) Run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	defer c.running.Wait()
	c.stopped = ctx.Done()
	c.serving, c.forget = context.WithCancel(ctx)
	defer func() { c.forget() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-c.answers:
			c.took(a)
		case <-timer.C:
		}
		if c.cfg.Clock().Mono >= c.nextLook {
			c.look(ctx)
		}
		c.start()
		timer.Reset(c.pause())
	}
}

// pause is how long there is nothing to do, unless an answer comes.
func (c *Checker) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake := c.nextLook
	if next := c.schedule.wake(); next != 0 && c.check != nil && c.under < maxAsks {
		wake = min(wake, next)
	}
	return max(wake-c.cfg.Clock().Mono, 0)
}

// look takes over what is declared, and the holds that are new.
func (c *Checker) look(ctx context.Context) {
	now := c.cfg.Clock()
	c.nextLook = now.Mono + idleEvery
	c.declare()
	if c.check == nil {
		c.reset(ctx)
		return
	}
	c.nextLook = now.Mono + lookEvery
	holds, anew, more := c.cfg.Sale.NewHolds(&c.seen, now.Wall.Add(-askedAfter))
	if anew {
		seen := c.seen
		c.reset(ctx)
		c.seen = seen
	}
	if more {
		c.nextLook = now.Mono
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range holds {
		found := now.Wall.Sub(h.At) > c.schedule.interval
		c.schedule.add(now, h, found)
	}
	c.tellTrouble(now)
}

// declare takes over what the newest generation declares.
func (c *Checker) declare() {
	declared, serves := c.cfg.Sale.Declared()
	switch {
	case !serves:
		c.declared, c.check = nil, nil
		return
	case c.declared != nil && reflect.DeepEqual(*c.declared, declared):
		return
	}
	c.declared = &declared
	check, err := newCheck(declared, c.cfg.Env)
	if c.check = check; err != nil {
		c.cannot(err)
		return
	}
	c.toldError = ""
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health.Since, c.health.Error = time.Time{}, ""
	if check != nil {
		c.schedule.interval, c.schedule.timeout = check.Interval, check.Timeout
	}
}

// cannot says that a check was declared that this process cannot carry out.
func (c *Checker) cannot(err error) {
	if err.Error() != c.toldError {
		c.toldError = err.Error()
		c.cfg.Logger.Error("payments are not checked", "sale", c.cfg.Sale.Sale(), "why", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = Health{Since: c.cfg.Clock().Wall, Error: err.Error()}
}

// reset forgets all holds, and ends the requests under way.
func (c *Checker) reset(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = executor.HoldsSeen{}
	if len(c.schedule.watches) == 0 && c.under == 0 {
		return
	}
	c.forget()
	c.serving, c.forget = context.WithCancel(ctx)
	c.era++
	interval, timeout := c.schedule.interval, c.schedule.timeout
	c.schedule = newSchedule(c.schedule.jitter)
	c.schedule.interval, c.schedule.timeout = interval, timeout
}

// start has the service asked about claims that are due, as many at a time as may be.
func (c *Checker) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.check != nil && c.under < maxAsks {
		now := c.cfg.Clock()
		w, r := c.schedule.take(now.Mono)
		if w == nil {
			return
		}
		// The verdict on a claim that was settled meanwhile still counts: its payment may be owed back.
		hold, unpaid := c.cfg.Sale.Unpaid(w.id)
		if !unpaid && w.verdict.how == "" {
			c.schedule.remove(w)
			continue
		}
		a := answer{era: c.era, watch: w, rank: r, verdict: w.verdict}
		switch hold.State {
		case api.Held:
			if c.schedule.hold(now, w, hold); w.over { // it is about to expire
				c.schedule.end(now.Mono, w)
				continue
			}
		case api.Cancelled:
			if !c.schedule.cancelled(now, w, r, hold.Release) {
				continue
			}
			a.expired = w.release <= now.Mono
		default:
			a.expired = true
		}
		c.under++
		ctx, check := c.serving, c.check
		c.running.Go(func() { c.turn(ctx, check, hold, a) })
	}
}

// turn asks the service, and has the sale settle the claim if the answer says so.
func (c *Checker) turn(ctx context.Context, check *check, hold executor.Hold, a answer) {
	if a.verdict.how == "" {
		began := c.cfg.Clock().Mono
		a.result, a.verdict, a.err = check.ask(ctx, c.client, hold)
		if ctx.Err() == nil {
			c.metrics.asked(a.result, c.cfg.Clock().Mono-began)
		}
	}
	if a.verdict.how == api.Confirm || a.verdict.how == api.Cancel && !a.expired {
		a.settled = settle(ctx, c.cfg.Sale, a.watch.id, a.verdict)
		c.metrics.settled(a.verdict.how, a.settled)
	}
	select {
	case c.answers <- a:
	case <-c.stopped: // whoever serves next asks again
	}
}

// took takes in what came of a turn.
func (c *Checker) took(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
	if a.era != c.era {
		return
	}
	now, w := c.cfg.Clock(), a.watch
	if a.result != "" {
		c.feel(now, a.err)
	}
	w.verdict = a.verdict
	switch {
	case a.err != nil:
		c.schedule.failed(now.Mono, w, a.expired)
	case a.verdict.how == "", a.verdict.how == api.Cancel && a.expired:
		c.schedule.pending(now.Mono, w, a.rank, a.expired)
	case a.settled.Outcome.Row().Retry != api.Final:
		c.schedule.failed(now.Mono, w, a.expired)
	default:
		c.schedule.remove(w)
		c.tell(a)
	}
}

// tell tells the log of payments that bought nothing, or could not be recorded.
func (c *Checker) tell(a answer) {
	log := c.cfg.Logger.With("sale", c.cfg.Sale.Sale(), "claim", a.watch.id)
	switch {
	case a.settled.RefundDue:
		log.Warn("a payment bought nothing and is owed back", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	case a.verdict.how == api.Confirm && a.settled.Outcome != api.Sold:
		log.Error("a payment was not recorded", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	}
}

// feel notes whether the service gives answers that can be used.
func (c *Checker) feel(now clock.Now, err error) {
	switch {
	case err == nil && !c.health.Since.IsZero():
		if c.told != 0 {
			c.cfg.Logger.Info("the payment service answers again", "sale", c.cfg.Sale.Sale(), "after", now.Wall.Sub(c.health.Since).Round(time.Second))
		}
		c.health.Since, c.health.Error, c.told = time.Time{}, "", 0
	case err != nil:
		if c.health.Since.IsZero() {
			c.health.Since = now.Wall
		}
		c.health.Error = err.Error()
	}
}

// tellTrouble tells the log of a service that has been failing for long.
func (c *Checker) tellTrouble(now clock.Now) {
	if c.health.Since.IsZero() || now.Wall.Sub(c.health.Since) < failsFor || c.told != 0 && now.Mono-c.told < tellEvery {
		return
	}
	c.told = now.Mono
	host := ""
	if u, err := url.Parse(c.check.Address(spec.CheckedClaim{})); err == nil {
		host = u.Host
	}
	c.cfg.Logger.Warn("the payment service gives no answer that can be used", "sale", c.cfg.Sale.Sale(), "host", host,
		"since", c.health.Since.UTC().Format(time.RFC3339), "why", c.health.Error, "watched", len(c.schedule.watches),
		"remedy", "holds expire unless it answers in time: see to it, or confirm by hand")
}
