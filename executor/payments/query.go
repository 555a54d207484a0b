package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"salectl/api"
	"salectl/executor"
	"salectl/internal/text"
	"salectl/rules"
	"salectl/spec"
)

// maxBody is the maximum size of an answer or an event, in bytes.
const maxBody = 64 << 10

// checkWho is the name recorded in the ledger for cancellations by a check.
const checkWho = "payment check"

// result is the result of a query of the service, as a metric label.
type result string

const (
	success     result = "success"
	failure     result = "failure"
	pending     result = "pending"
	unreachable result = "unreachable"
	timedOut    result = "timeout"
	serverError result = "server_error" // a status from 500 on, or 429
	redirected  result = "redirected"
	tooLarge    result = "too_large"
	unreadable  result = "unreadable"
)

// results lists all results.
var results = []result{success, failure, pending, unreachable, timedOut, serverError, redirected, tooLarge, unreadable}

// errRedirected reports that the service redirects to another host. The answer of that host would
// not be the service's, and that host must not receive the token.
var errRedirected = errors.New("it redirects to another host, which is not followed")

// mostRedirects is the maximum number of redirects within the service's host.
const mostRedirects = 3

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = api.Proxy
	transport.MaxIdleConnsPerHost = maxAttempts
	transport.MaxResponseHeaderBytes = maxBody
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch first := via[0].URL; {
		case r.URL.Host != first.Host || r.URL.Scheme != first.Scheme:
			return errRedirected
		case len(via) > mostRedirects:
			return fmt.Errorf("it redirects more than %d times", mostRedirects)
		}
		return nil
	}}
}

// Request returns the request to the service.
func (a *Attempt) Request(ctx context.Context) (*http.Request, error) {
	c, claim := a.check, a.hold.ID.String()
	address := c.Address(spec.CheckedClaim{Claim: claim, User: a.hold.User, Sale: c.sale.Name, Run: c.sale.Run})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "salectl")
	r.Header.Set("Idempotency-Key", claim)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// read interprets a response, or the error in its place, for a claim. It returns an error with
// every result other than success, failure and pending.
func (c *check) read(response *http.Response, err error, h executor.Hold) (result, Event, error) {
	if err != nil {
		return kindOf(err), Event{}, plain(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests {
		return serverError, Event{}, fmt.Errorf("it answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return kindOf(err), Event{}, plain(err)
	case len(body) > maxBody:
		return tooLarge, Event{}, fmt.Errorf("its answer has more than %d KiB", maxBody>>10)
	}
	in := &rules.PredicateInput{
		Status: int64(response.StatusCode), Claim: h.ID.String(), User: h.User, Quantity: int64(len(h.Units)), Sale: c.sale.Name, Run: c.sale.Run,
	}
	var noJSON error
	if in.Body, noJSON = rules.ParseJSON(body); noJSON != nil {
		in.Body = nil // the status may suffice
	}
	v, err := c.decide(in, checkWho)
	if err != nil {
		return unreadable, Event{}, fmt.Errorf("its answer with status %d cannot be read: %w", response.StatusCode, cmp.Or(noJSON, err))
	}
	return map[api.How]result{api.Confirm: success, api.Cancel: failure, "": pending}[v.How], v, nil
}

// kindOf classifies the errors of a request.
func kindOf(err error) result {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errRedirected):
		return redirected
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	}
	return unreachable
}

// plain returns err in one line and without the URL, which contains a claim and a user.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("it has not answered in time")
	}
	return errors.New(text.OneLine(err.Error()))
}
