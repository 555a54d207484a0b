package payments

import (
	"context"
	"log/slog"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/spec"
)

// machine decides which claims the payment service is asked about, when, and what follows from
// its responses. It has no goroutine, clock or connection: Checker and Stepped make the
// attempts that it wants made.
type machine struct {
	sale    Books
	env     Lookup
	logger  *slog.Logger
	metrics *metrics

	seen      executor.HoldsSeen
	declared  *spec.Sale // of which check is
	check     *check     // nil: nobody is asked
	era       int        // counts how often the process has served anew
	under     int        // attempts under way
	nextLook  time.Duration
	told      time.Duration // when the log was last told of a service that fails
	toldError string        // what it was last told of a check that cannot be carried out
	schedule  *schedule
	health    Health
}

// Health is how the checks of a sale go.
type Health struct {
	Watched int       // claims that it is asked about
	Since   time.Time // since when the service gives no answer that can be used; zero: it does
	Error   string    // why
}

// maxAsks bounds the attempts under way of one sale. With a service that takes 100 ms that
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

// attempt is one turn of a watch: the service is asked, unless it has given its verdict before,
// and the claim is settled if the verdict says so.
type attempt struct {
	era     int
	watch   *watch
	rank    rank
	check   *check
	hold    executor.Hold
	expired bool   // the claim was so when the turn began, or was cancelled and its release had passed
	result  result // "": the service was not asked, as it has said it before
	verdict verdict
	err     error
	settled executor.Answer // where there is a verdict
}

// newMachine returns a machine. jitter nil: it is random.
func newMachine(sale Books, env Lookup, logger *slog.Logger, jitter func() float64) machine {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if jitter == nil {
		jitter = mrand.Float64
	}
	return machine{sale: sale, env: env, logger: logger, schedule: newSchedule(jitter)}
}

// step takes over what is new, and returns the attempts to be made. took has to be called for
// each of them.
func (m *machine) step(now clock.Now) []*attempt {
	if now.Mono >= m.nextLook {
		m.look(now)
	}
	return m.start(now)
}

// wake is when there is something to do, unless an attempt ends before.
func (m *machine) wake() time.Duration {
	wake := m.nextLook
	if next := m.schedule.wake(); next != 0 && m.check != nil && m.under < maxAsks {
		wake = min(wake, next)
	}
	return wake
}

// look takes over what is declared, and the holds that are new.
func (m *machine) look(now clock.Now) {
	m.nextLook = now.Mono + idleEvery
	m.declare(now)
	if m.check == nil {
		m.reset()
		return
	}
	m.nextLook = now.Mono + lookEvery
	holds, anew, more := m.sale.NewHolds(&m.seen, now.Wall.Add(-askedAfter))
	if anew {
		seen := m.seen
		m.reset()
		m.seen = seen
	}
	if more {
		m.nextLook = now.Mono
	}
	for _, h := range holds {
		found := now.Wall.Sub(h.At) > m.schedule.interval
		m.schedule.add(now, h, found)
	}
	m.tellTrouble(now)
}

// declare takes over what the newest generation declares.
func (m *machine) declare(now clock.Now) {
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
		m.cannot(now, err)
		return
	}
	m.toldError = ""
	m.health.Since, m.health.Error = time.Time{}, ""
	if check != nil {
		m.schedule.interval, m.schedule.timeout = check.Interval, check.Timeout
	}
}

// cannot says that a check was declared that this process cannot carry out.
func (m *machine) cannot(now clock.Now, err error) {
	if err.Error() != m.toldError {
		m.toldError = err.Error()
		m.logger.Error("payments are not checked", "sale", m.sale.Sale(), "why", err)
	}
	m.health = Health{Since: now.Wall, Error: err.Error()}
}

// reset forgets all holds. The attempts under way are of another era.
func (m *machine) reset() {
	m.seen = executor.HoldsSeen{}
	if len(m.schedule.watches) == 0 && m.under == 0 {
		return
	}
	m.era++
	interval, timeout := m.schedule.interval, m.schedule.timeout
	m.schedule = newSchedule(m.schedule.jitter)
	m.schedule.interval, m.schedule.timeout = interval, timeout
}

// start returns attempts for claims that are due, as many at a time as may be under way.
func (m *machine) start(now clock.Now) (all []*attempt) {
	for m.check != nil && m.under < maxAsks {
		w, r := m.schedule.take(now.Mono)
		if w == nil {
			break
		}
		// The verdict on a claim that was settled meanwhile still counts: its payment may be owed back.
		hold, unpaid := m.sale.Unpaid(w.id)
		if !unpaid && w.verdict.how == "" {
			m.schedule.remove(w)
			continue
		}
		a := &attempt{era: m.era, watch: w, rank: r, check: m.check, hold: hold, verdict: w.verdict}
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

// asks reports whether the service is to be asked: it has not given its verdict before.
func (a *attempt) asks() bool { return a.verdict.how == "" }

// request is what the service is asked.
func (a *attempt) request(ctx context.Context) (*http.Request, error) {
	return a.check.request(ctx, a.hold)
}

// replied takes in what came of the request, as http.Client.Do returns it.
func (a *attempt) replied(response *http.Response, err error) {
	a.result, a.verdict, a.err = a.check.replied(response, err, a.hold)
}

// settlement is what the sale is asked for by the verdict; false: nothing.
func (a *attempt) settlement() (executor.Settlement, bool) {
	v := a.verdict
	return executor.Settlement{Claim: a.watch.id, How: v.how, Settlement: v.Settlement}, v.how == api.Confirm || v.how == api.Cancel && !a.expired
}

// took takes in what came of an attempt.
func (m *machine) took(now clock.Now, a *attempt) {
	m.under--
	if a.era != m.era {
		return
	}
	w := a.watch
	if a.result != "" {
		m.feel(now, a.err)
	}
	w.verdict = a.verdict
	switch {
	case a.err != nil:
		m.schedule.failed(now.Mono, w, a.expired)
	case a.verdict.how == "", a.verdict.how == api.Cancel && a.expired:
		m.schedule.pending(now.Mono, w, a.rank, a.expired)
	case a.settled.Outcome.Row().Retry != api.Final:
		m.schedule.failed(now.Mono, w, a.expired)
	default:
		m.schedule.remove(w)
		m.tell(a)
	}
}

// tell tells the log of payments that bought nothing, or could not be recorded.
func (m *machine) tell(a *attempt) {
	log := m.logger.With("sale", m.sale.Sale(), "claim", a.watch.id)
	switch {
	case a.settled.RefundDue:
		log.Warn("a payment bought nothing and is owed back", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	case a.verdict.how == api.Confirm && a.settled.Outcome != api.Sold:
		log.Error("a payment was not recorded", "payment", a.verdict.Payment, "outcome", a.settled.Outcome)
	}
}

// feel notes whether the service gives answers that can be used.
func (m *machine) feel(now clock.Now, err error) {
	switch {
	case err == nil && !m.health.Since.IsZero():
		if m.told != 0 {
			m.logger.Info("the payment service answers again", "sale", m.sale.Sale(), "after", now.Wall.Sub(m.health.Since).Round(time.Second))
		}
		m.health.Since, m.health.Error, m.told = time.Time{}, "", 0
	case err != nil:
		if m.health.Since.IsZero() {
			m.health.Since = now.Wall
		}
		m.health.Error = err.Error()
	}
}

// tellTrouble tells the log of a service that has been failing for long.
func (m *machine) tellTrouble(now clock.Now) {
	if m.health.Since.IsZero() || now.Wall.Sub(m.health.Since) < failsFor || m.told != 0 && now.Mono-m.told < tellEvery {
		return
	}
	m.told = now.Mono
	host := ""
	if u, err := url.Parse(m.check.Address(spec.CheckedClaim{})); err == nil {
		host = u.Host
	}
	m.logger.Warn("the payment service gives no answer that can be used", "sale", m.sale.Sale(), "host", host,
		"since", m.health.Since.UTC().Format(time.RFC3339), "why", m.health.Error, "watched", len(m.schedule.watches),
		"remedy", "holds expire unless it answers in time: see to it, or confirm by hand")
}
