package payments

import (
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/spec"
)

// Machine decides when the payment service is queried about which claims, and how to settle them.
// It has no goroutine, clock or connection: its shell makes the attempts that Step returns.
type Machine struct {
	sale    Books
	env     Lookup
	logger  *slog.Logger
	metrics *metrics

	seen        executor.HoldsSeen
	declared    *spec.Sale // declaration that check was made from
	check       *check     // nil: no service is queried
	era         int        // incremented when the process serves again
	under       int        // attempts under way
	nextRead    time.Duration
	logged      time.Duration // monotonic: time of the last log entry about a failing service; 0: none
	loggedError string        // last logged error of an unusable check
	schedule    *schedule
	health      api.PaymentCheck // without Watched
}

// maxAttempts limits the attempts under way of one sale. It allows 640 claims a second if the service
// takes 100 ms, and bounds the connections of a service that hangs.
const maxAttempts = 64

// Intervals of reading new holds with a declared check, and without one.
const (
	readEvery = 100 * time.Millisecond
	idleEvery = time.Second
)

// How long the service fails before this is logged, and the interval between repetitions.
const (
	failsFor = 30 * time.Second
	logEvery = time.Minute
)

// Attempt is one turn of a watch. It queries the service, unless the verdict is known already, and
// settles the claim if the verdict decides it.
//
//	if NeedsQuery: send Request, wait for Timeout at most, and call Replied and Observe
//	if Settlement returns one: settle the claim and call Settled
//	in any case: call Machine.Took
type Attempt struct {
	metrics *metrics
	era     int
	watch   *watch
	rank    rank
	check   *check
	hold    executor.Hold
	expired bool   // when the turn began, the claim had expired, or was cancelled and past its former release
	result  result // "": the service was not queried because the verdict was known
	verdict Event
	err     error
	settled executor.Answer // set if there is a verdict
}

// NewMachine returns a Machine. jitter returns values in [0, 1).
func NewMachine(sale Books, env Lookup, logger *slog.Logger, jitter func() float64) *Machine {
	return &Machine{sale: sale, env: env, logger: logger, metrics: newMetrics(sale.Sale()), schedule: newSchedule(jitter)}
}

// Step reads new declarations and holds, and returns the attempts to make. Pass each of them to Took.
func (m *Machine) Step(now clock.Now) []*Attempt {
	if now.Mono >= m.nextRead {
		m.read(now)
	}
	return m.start(now)
}

// Wake returns the monotonic time of the next call of Step, unless an attempt ends before.
func (m *Machine) Wake() time.Duration {
	wake := m.nextRead
	if next := m.schedule.wake(); next != 0 && m.check != nil && m.under < maxAttempts {
		wake = min(wake, next)
	}
	return wake
}

// read reads the declaration and the new holds.
func (m *Machine) read(now clock.Now) {
	m.nextRead = now.Mono + idleEvery
	m.declare(now)
	if m.check == nil {
		m.reset()
		return
	}
	m.nextRead = now.Mono + readEvery
	holds, anew, more := m.sale.NewHolds(&m.seen, now.Wall.Add(-queriedAfter))
	if anew {
		seen := m.seen
		m.reset()
		m.seen = seen
	}
	if more {
		m.nextRead = now.Mono
	}
	for _, h := range holds {
		found := now.Wall.Sub(h.At) > m.schedule.interval
		m.schedule.add(now, h, found)
	}
	m.logFailures(now)
}

// declare applies the declaration of the newest generation.
func (m *Machine) declare(now clock.Now) {
	declared, serves := m.sale.Declared()
	switch {
	case !serves:
		m.declared, m.check = nil, nil
		return
	case m.declared != nil && reflect.DeepEqual(*m.declared, declared):
		return
	}
	m.declared = &declared
	check, err := newCheck(declared, m.env)
	if m.check = check; err != nil {
		if err.Error() != m.loggedError {
			m.loggedError = err.Error()
			m.logger.Error("payments are not checked", "sale", m.sale.Sale(), "why", err)
		}
		m.health = api.PaymentCheck{FailingSince: since(now), Error: err.Error()}
		return
	}
	m.loggedError, m.health = "", api.PaymentCheck{}
	if check != nil {
		m.schedule.interval, m.schedule.timeout = time.Duration(check.Interval), time.Duration(check.Timeout)
	}
}

// reset drops all watches. Attempts under way belong to the previous era.
func (m *Machine) reset() {
	m.seen = executor.HoldsSeen{}
	if len(m.schedule.watches) == 0 && m.under == 0 {
		return
	}
	m.era++
	clear(m.schedule.watches)
	m.schedule.turns = [ranks]turns{}
}

// start returns attempts for the watches that are due, up to maxAttempts under way.
func (m *Machine) start(now clock.Now) (all []*Attempt) {
	for m.check != nil && m.under < maxAttempts {
		w, r := m.schedule.take(now.Mono)
		if w == nil {
			break
		}
		// The verdict on a claim settled meanwhile still counts: its payment may have to be refunded.
		hold, unpaid := m.sale.Unpaid(w.id)
		if !unpaid && w.verdict.How == "" {
			m.schedule.remove(w)
			continue
		}
		a := &Attempt{metrics: m.metrics, era: m.era, watch: w, rank: r, check: m.check, hold: hold, verdict: w.verdict}
		switch hold.State {
		case api.Held:
			if m.schedule.hold(now, w, hold); w.over { // it is about to expire
				m.schedule.end(now.Mono, w)
				continue
			}
		case api.Cancelled:
			if !m.schedule.cancelled(now, w, r, hold.Release) {
				continue
			}
			a.expired = w.release <= now.Mono
		default:
			a.expired = true
		}
		m.under++
		all = append(all, a)
	}
	return all
}

// NeedsQuery reports whether the service must be queried: its verdict is not known yet.
func (a *Attempt) NeedsQuery() bool { return a.verdict.How == "" }

// Timeout returns the timeout of the request.
func (a *Attempt) Timeout() time.Duration { return time.Duration(a.check.Timeout) }

// Replied receives the result of the request, as returned by http.Client.Do.
func (a *Attempt) Replied(response *http.Response, err error) {
	a.result, a.verdict, a.err = a.check.read(response, err, a.hold)
}

// Observe records the result and the duration of the request in the metrics.
func (a *Attempt) Observe(took time.Duration) {
	a.metrics.checks.WithLabelValues(string(a.result)).Inc()
	a.metrics.seconds.Observe(took.Seconds())
}

// Settlement returns the settlement of the claim that the verdict requires. It reports false if
// there is none.
func (a *Attempt) Settlement() (executor.Settlement, bool) {
	v := a.verdict
	return executor.Settlement{Claim: a.watch.id, How: v.How, Settlement: v.Settlement}, v.How == api.Confirm || v.How == api.Cancel && !a.expired
}

// Settled receives the sale's answer to the settlement.
func (a *Attempt) Settled(answer executor.Answer) {
	a.settled = answer
	outcome := answer.Outcome
	if answer.Replayed {
		outcome = api.Replayed
	}
	a.metrics.settlements.WithLabelValues(string(a.verdict.How), string(outcome)).Inc()
}

// Took completes an attempt.
func (m *Machine) Took(now clock.Now, a *Attempt) {
	m.under--
	if a.era != m.era {
		return
	}
	w := a.watch
	if a.result != "" {
		m.noteHealth(now, a.err)
	}
	w.verdict = a.verdict
	switch {
	case a.err != nil:
		m.schedule.failed(now.Mono, w, a.expired)
	case a.verdict.How == "", a.verdict.How == api.Cancel && a.expired:
		m.schedule.pending(now.Mono, w, a.rank, a.expired)
	case a.settled.Outcome.Row().Retry != api.Final:
		m.schedule.failed(now.Mono, w, a.expired)
	default:
		m.schedule.remove(w)
		m.log(a)
	}
}

// log logs payments that bought nothing or were not recorded.
func (m *Machine) log(a *Attempt) {
	log := m.logger.With("sale", m.sale.Sale(), "claim", a.watch.id)
	switch {
	case a.settled.RefundDue:
		log.Warn("a payment bought nothing and is owed back", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	case a.verdict.How == api.Confirm && a.settled.Outcome != api.Sold:
		log.Error("a payment was not recorded", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	}
}

// noteHealth records whether the service returns usable answers.
func (m *Machine) noteHealth(now clock.Now, err error) {
	switch {
	case err == nil && !m.health.FailingSince.IsZero():
		if m.logged != 0 {
			m.logger.Info("the payment service answers again", "sale", m.sale.Sale(), "after", now.Wall.Sub(m.health.FailingSince).Round(time.Second))
		}
		m.health, m.logged = api.PaymentCheck{}, 0
	case err != nil:
		if m.health.FailingSince.IsZero() {
			m.health.FailingSince = since(now)
		}
		m.health.Error = err.Error()
	}
}

// since returns the time of the wall clock, in milliseconds.
func since(now clock.Now) time.Time { return now.Wall.UTC().Truncate(time.Millisecond) }

// logFailures logs that the service has failed for failsFor, at most every logEvery.
func (m *Machine) logFailures(now clock.Now) {
	if m.health.FailingSince.IsZero() || now.Wall.Sub(m.health.FailingSince) < failsFor || m.logged != 0 && now.Mono-m.logged < logEvery {
		return
	}
	m.logged = now.Mono
	host := ""
	if u, err := url.Parse(m.check.Address(spec.CheckedClaim{})); err == nil {
		host = u.Host
	}
	m.logger.Warn("the payment service returns no usable answer", "sale", m.sale.Sale(), "host", host,
		"since", m.health.FailingSince.Format(time.RFC3339), "why", m.health.Error, "watched", len(m.schedule.watches),
		"remedy", "holds expire unless it answers in time: repair the service, or confirm payments manually")
}
