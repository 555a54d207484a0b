package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"salectl/api"
)

// reply is the last answer to a claim. One that is not from this API has an outcome
// that names its status, such as http_500; an accepted claim without its name is
// found by the judge.
type reply struct {
	status int
	api.Claim
	rule string // that refused it
}

// newTransport makes a connection for each worker. It takes no proxy, and goes
// nowhere but to this machine.
func newTransport(c Config) *http.Transport {
	dialer := &net.Dialer{Control: onlyLoopback}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: c.Concurrency,
		MaxConnsPerHost:     c.Concurrency,
		DisableCompression:  true,
	}
}

// onlyLoopback sees the address that a connection is really made to.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s is not loopback", ErrElsewhere, address)
	}
	return nil
}

// check asks for the sale once, so that a wrong URL, name or token is one clear
// error and not a report full of refusals.
func check(ctx context.Context, c api.Config) error {
	client, err := api.NewClient(c)
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	_, err = client.Status(ctx)
	var problem *api.Problem
	var unexpected *api.UnexpectedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &problem), errors.As(err, &unexpected):
		return fmt.Errorf("rehearse: %w; is the sale served there?", err)
	}
	return fmt.Errorf("rehearse: %w: %w", ErrNoAnswer, err)
}

// accepted reports whether the buyer has units.
func (r *reply) accepted() bool {
	return r.status == http.StatusOK || r.status == http.StatusCreated
}

// later says that the server asks the buyer to come back with the same key.
func (r *reply) later() bool {
	a := api.Answer{Outcome: r.Outcome, Status: r.status}
	return a.Retry() == api.Again
}

// label is what the answer counts as in a report.
func (r *reply) label() string {
	if r.status == http.StatusOK {
		return string(api.Replayed)
	}
	return string(r.Outcome)
}
