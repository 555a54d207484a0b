package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"salectl/api"
	"salectl/planner"
)

// operating are the options of drain's requests to a process at its admin address.
type operating struct {
	secrets
	admin   *url.URL
	timeout time.Duration
	json    bool
}

const (
	// defaultOperating bounds a drain: a few shards move in well under a second, many of a
	// large sale take longer.
	defaultOperating = time.Minute
	// operatingEvery is the interval of its queries.
	operatingEvery = 100 * time.Millisecond
)

// operator sends requests to one process. While the process does not serve the sale yet, it
// repeats them until ctx ends.
type operator struct {
	operating
	p     *program
	token string
	over  *tls.Config
}

func (p *program) operator(o operating) (*operator, error) {
	token, over, err := o.secrets.read()
	return &operator{operating: o, p: p, token: token, over: over}, err
}

func (o *operator) client(sale string) (*api.Client, error) {
	return api.NewClient(api.Config{Servers: []string{o.admin.String()}, Sale: sale, Token: o.token, TLS: o.over})
}

// ask repeats a request until the answer is not temporary.
func (o *operator) ask(ctx context.Context, ask func(context.Context) error) error {
	said := ""
	for {
		err := ask(ctx)
		var problem *api.Problem
		passes := errors.As(err, &problem) && problem.Outcome == api.Standby
		if !passes {
			return o.explain(ctx, err)
		}
		if problem.Detail != said {
			said = problem.Detail
			o.p.say("%s: %s; retrying.", o.admin.Host, said)
		}
		if api.Sleep(ctx, operatingEvery) != nil {
			return fmt.Errorf("%w: %s: %s", context.Cause(ctx), o.admin.Host, said)
		}
	}
}

// kept is ask with the answer in last. Without an answer, last is unchanged.
func kept[T any](last *T, ask func(context.Context) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := ask(ctx)
		if err == nil {
			*last = got
		}
		return err
	}
}

// explain converts an error of a process to one for operators.
func (o *operator) explain(ctx context.Context, err error) error {
	var problem *api.Problem
	var unexpected *api.UnexpectedError
	var request *url.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("%w: %s does not answer", context.Cause(ctx), o.admin.Host)
	case errors.As(err, &problem) && problem.Outcome == api.Draining:
		return &planner.Refusal{Reason: o.admin.Host + " is going down"}
	case errors.As(err, &problem):
		return &outcomeError{problem.Outcome, problem.Detail}
	case errors.As(err, &request):
		return unreachable(o.admin.String(), request)
	case !errors.As(err, &unexpected):
		return fmt.Errorf("%s: %w", o.admin.Host, err)
	case unexpected.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the request: %s", o.admin.Host, unauthorized(o.token))
	case unexpected.StatusCode == http.StatusForbidden && unexpected.Detail != "":
		return fmt.Errorf("%s refuses the request: %s", o.admin.Host, unexpected.Detail)
	}
	return advised{what: fmt.Sprintf("%s answers %s", o.admin.Host, unexpected.Status), err: err,
		remedy: "Check " + adminHint + "."}
}

// adminHint describes the address that --admin needs.
const adminHint = "--admin: it is the URL of the address that 'salectl serve' has as --admin-listen, http://" + defaultAdmin + " by default, not that for claims"
