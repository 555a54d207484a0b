package payments

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/executor"
)

// Stepped is a second shell over what Checker runs, without a goroutine, timer, clock or
// connection: whoever has it makes its requests and tells it the time. It is to a Checker what
// sim/stepped is to an Executor.
type Stepped struct {
	machine
	sale    SteppedSale
	waiting []*settling
	ended   []*attempt
}

// SteppedSale is a Sale that answers later. A stepped.Process is one, but for its name.
type SteppedSale interface {
	Books
	Begin(now clock.Now, r executor.Request, answered func(executor.Answer)) (withdraw func())
}

// Exchange is a request to the payment service. Replied is to be called once, with what
// http.Client.Do would return, or context.DeadlineExceeded after the timeout.
type Exchange struct {
	Request *http.Request
	Timeout time.Duration
	Replied func(now clock.Now, response *http.Response, err error)
}

// settling is a settlement for which the sale has no answer yet.
type settling struct {
	attempt  *attempt
	until    time.Duration
	withdraw func()
}

// NewStepped returns a checker that begins with Next. jitter is from 0 to below 1.
func NewStepped(sale SteppedSale, env Lookup, jitter func() float64) *Stepped {
	p := &Stepped{machine: newMachine(sale, env, nil, jitter), sale: sale}
	p.metrics = newMetrics(sale.Sale(), func() (int, time.Duration) { return p.watched(0) })
	return p
}

// Next returns the requests to be made, and the monotonic time at which to call it again.
// settles says that the sale was asked for something, so that it has something to do.
func (p *Stepped) Next(now clock.Now) (made []Exchange, wake time.Duration, settles bool) {
	for _, x := range slices.Clone(p.waiting) {
		if x.until <= now.Mono {
			x.withdraw()
		}
	}
	for more := true; more; more = len(p.ended) > 0 {
		ended := p.ended
		p.ended = nil
		for _, a := range ended {
			p.took(now, a)
		}
		for _, a := range p.step(now) {
			if !a.asks() {
				settles = p.settle(now, a) || settles
			} else if x, ok := p.exchange(now, a); ok {
				made = append(made, x)
			}
		}
	}
	wake = p.wake()
	for _, x := range p.waiting {
		wake = min(wake, x.until)
	}
	return made, wake, settles
}

// exchange is the request of an attempt; false: there is none.
func (p *Stepped) exchange(began clock.Now, a *attempt) (Exchange, bool) {
	r, err := a.request(context.Background())
	if err != nil {
		a.replied(nil, err)
		p.ended = append(p.ended, a)
		return Exchange{}, false
	}
	return Exchange{r, a.check.Timeout, func(now clock.Now, response *http.Response, err error) {
		a.replied(response, err)
		p.metrics.asked(a.result, now.Mono-began.Mono)
		p.settle(now, a)
	}}, true
}

// settle has the sale settle a claim by the verdict of an attempt; false: it is not asked for
// anything.
func (p *Stepped) settle(now clock.Now, a *attempt) bool {
	x, ok := a.settlement()
	if !ok {
		p.ended = append(p.ended, a)
		return false
	}
	waits := &settling{attempt: a, until: now.Mono + settleTimeout}
	p.waiting = append(p.waiting, waits)
	waits.withdraw = p.sale.Begin(now, executor.Request{Settle: &x}, func(answer executor.Answer) {
		a.settled = answer
		p.metrics.settled(x.How, answer)
		p.waiting = slices.DeleteFunc(p.waiting, func(other *settling) bool { return other == waits })
		p.ended = append(p.ended, a)
	})
	return true
}

// Collectors returns the checker's metrics.
func (p *Stepped) Collectors() []prometheus.Collector { return []prometheus.Collector{p.metrics} }
