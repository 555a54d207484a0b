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

// reply is the last answer to a request. An answer that is not from this API has an outcome with its
// status, such as http_500. The judge detects an accepted claim without a name.
type reply struct {
	status int
	api.Claim
	rule string // name of the rule that refused it
}

// replyOf returns the last answer to a request, or the error of one without an answer. what describes the
// request.
func replyOf(ctx context.Context, what string, a *api.Answer, err error) (reply, error) {
	r := reply{status: a.Status, Claim: a.Claim}
	r.Outcome = a.Outcome
	var unexpected *api.UnexpectedError
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case errors.As(err, &unexpected):
		r.status, r.Outcome = unexpected.StatusCode, api.Outcome(fmt.Sprintf("http_%d", unexpected.StatusCode))
	case err != nil:
		return r, fmt.Errorf("rehearse: %w: %s was sent %d times: %w", ErrNoAnswer, what, a.Attempts, err)
	}
	return r, nil // an answer to retry later is the outcome
}

// newTransport returns a transport with a connection for each worker. It uses no proxy and connects
// to this machine only.
func newTransport(c Config) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Control: onlyLoopback}).DialContext,
		MaxIdleConnsPerHost: c.Concurrency,
		MaxConnsPerHost:     c.Concurrency,
		DisableCompression:  true,
	}
}

// onlyLoopback rejects connections to any resolved address except loopback.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s is not loopback", ErrElsewhere, address)
	}
	return nil
}

// check queries the sale once. A wrong URL or name then causes one clear error, not a report
// full of refusals.
func check(ctx context.Context, client *api.Client) error {
	_, err := client.Status(ctx)
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*api.Problem)), errors.As(err, new(*api.UnexpectedError)):
		return fmt.Errorf("rehearse: %w; is the sale served there?", err)
	}
	return fmt.Errorf("rehearse: %w: %w", ErrNoAnswer, err)
}

// accepted reports whether the claim was accepted.
func (r *reply) accepted() bool {
	return r.status == http.StatusOK || r.status == http.StatusCreated
}

// later reports whether the result is unknown, so that the buyer should try again with the same key.
func (r *reply) later() bool {
	a := api.Answer{Outcome: r.Outcome, Status: r.status}
	return a.Retry() == api.Again
}

// label returns the outcome under which a report counts the answer.
func (r *reply) label() string {
	if r.status == http.StatusOK {
		return string(api.Replayed)
	}
	return string(r.Outcome)
}
