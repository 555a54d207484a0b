package sim

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/payments"
)

// checker runs the payment checks of a process as payments.Checker does, on virtual time: it makes no
// request, and returns the requests to make.
type checker struct {
	*payments.Machine
	sale    checkedSale
	waiting []*pendingSettlement
	ended   []*payments.Attempt
}

// exchange is a request to the payment service. replied is to be called once, with what
// http.Client.Do would return, or context.DeadlineExceeded after the timeout.
type exchange struct {
	request *http.Request
	timeout time.Duration
	replied func(now clock.Now, response *http.Response, err error)
}

// pendingSettlement is a settlement for which the sale has no answer yet.
type pendingSettlement struct {
	until    time.Duration
	withdraw func()
}

// newChecker returns a checker that begins with next. jitter is from 0 to below 1.
func newChecker(sale checkedSale, jitter func() float64) *checker {
	return &checker{Machine: payments.NewMachine(sale, environment, slog.New(slog.DiscardHandler), jitter), sale: sale}
}

// next returns the requests to be made, and the monotonic time at which to call it again. settles
// reports that a settlement was passed to the sale, which has to act then.
func (p *checker) next(now clock.Now) (made []exchange, wake time.Duration, settles bool) {
	for _, x := range slices.Clone(p.waiting) {
		if x.until <= now.Mono {
			x.withdraw()
		}
	}
	for more := true; more; more = len(p.ended) > 0 {
		ended := p.ended
		p.ended = nil
		for _, a := range ended {
			p.Took(now, a)
		}
		for _, a := range p.Step(now) {
			if !a.NeedsQuery() {
				settles = p.settle(now, a) || settles
			} else if x, ok := p.exchange(now, a); ok {
				made = append(made, x)
			}
		}
	}
	wake = p.Wake()
	for _, x := range p.waiting {
		wake = min(wake, x.until)
	}
	return made, wake, settles
}

// exchange is the request of an attempt; false: there is none.
func (p *checker) exchange(began clock.Now, a *payments.Attempt) (exchange, bool) {
	r, err := a.Request(context.Background())
	if err != nil {
		a.Replied(nil, err)
		p.ended = append(p.ended, a)
		return exchange{}, false
	}
	return exchange{r, a.Timeout(), func(now clock.Now, response *http.Response, err error) {
		a.Replied(response, err)
		a.Observe(now.Mono - began.Mono)
		p.settle(now, a)
	}}, true
}

// settle has the sale settle a claim by the verdict of an attempt; false: the verdict settles nothing.
func (p *checker) settle(now clock.Now, a *payments.Attempt) bool {
	x, ok := a.Settlement()
	if !ok {
		p.ended = append(p.ended, a)
		return false
	}
	waits := &pendingSettlement{until: now.Mono + payments.SettleTimeout}
	p.waiting = append(p.waiting, waits)
	waits.withdraw = p.sale.Begin(now, executor.Request{Settle: &x}, func(answer executor.Answer) {
		a.Settled(answer)
		p.waiting = slices.DeleteFunc(p.waiting, func(other *pendingSettlement) bool { return other == waits })
		p.ended = append(p.ended, a)
	})
	return true
}
