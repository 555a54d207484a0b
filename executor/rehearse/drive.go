package rehearse

import (
	"context"
	"time"

	"salectl/api"
)

// Limits of a buyer's retries.
const (
	maxAttempts = 10
	maxWait     = 5 * time.Second // upper limit of Retry-After
)

// Drive sends all buyers to the sale in one burst, and returns their observations. It returns an
// error if it could not: an invalid Config, a server elsewhere or without answers, or the end of
// ctx. Broken promises are no error of Drive; Report.Verdict returns them.
func Drive(ctx context.Context, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	transport := newTransport(c)
	defer transport.CloseIdleConnections()
	d := &drive{Config: c, visits: planned(c), api: api.Config{
		Servers: []string{c.URL}, Sale: c.Sale, Token: c.Token, Transport: transport, Timeout: c.Timeout, MaxWait: maxWait,
	}}
	for _, v := range d.visits {
		d.total += len(v)
	}
	if err := check(ctx, d.api); err != nil {
		return nil, err
	}

	if c.Payment != nil {
		if d.payers, err = newPayers(d); err != nil {
			return nil, err
		}
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
	d.answered = lastAnswer(workers) - d.opened
	left := leftOver{}
	switch {
	case c.Draw != nil:
		err = d.draw(ctx, recordsOf(workers))
	case c.Payment != nil:
		left, err = d.sellAgain(ctx, workers)
	}
	if err != nil {
		return nil, err
	}
	return report(d, workers, took, left), nil
}
