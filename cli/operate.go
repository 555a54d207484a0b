package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"salectl/api"
	"salectl/executor/httpd"
	"salectl/planner"
)

// operating is how drain and move ask a process at its admin address.
type operating struct {
	command   string
	admin     *url.URL
	tokenFile string
	timeout   time.Duration
	json      bool
}

const (
	// defaultOperating is how long drain and move wait: a few shards move in well under a
	// second, many of a large sale take longer.
	defaultOperating = time.Minute
	// operatingEvery is how often they look.
	operatingEvery = 100 * time.Millisecond
)

// adminAddress reads the admin address of a process: host:port, or a URL.
func (f *flags) adminAddress(text string) *url.URL {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		f.refuse("ADDRESS must be the admin address of a process like 127.0.0.1:8081, not %q", text)
		return nil
	}
	return u
}

// operator asks one process; what it is asked is asked again while it does not serve the
// sale yet, until ctx ends.
type operator struct {
	operating
	p     *program
	token string
}

func (p *program) operator(o operating) (*operator, error) {
	token, err := httpd.ReadToken(o.tokenFile)
	return &operator{operating: o, p: p, token: token}, err
}

func (o *operator) client(sale string) (*api.Client, error) {
	return api.NewClient(api.Config{Servers: []string{o.admin.String()}, Sale: sale, Token: o.token})
}

// ask asks until there is an answer that is not for the moment only.
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
			o.p.say("%s: %s; asking again.", o.admin.Host, said)
		}
		if api.Sleep(ctx, operatingEvery) != nil {
			return fmt.Errorf("%w: %s: %s", context.Cause(ctx), o.admin.Host, said)
		}
	}
}

// explain says what an error of a process means to an operator.
func (o *operator) explain(ctx context.Context, err error) error {
	var problem *api.Problem
	var unexpected *api.UnexpectedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("%w: %s does not answer", context.Cause(ctx), o.admin.Host)
	case errors.As(err, &problem) && problem.Outcome == "":
		return &planner.Refusal{Reason: problem.Detail, Remedy: fmt.Sprintf("'salectl drain --undo %s' lets it own shards again.", o.admin.Host)}
	case errors.As(err, &problem) && problem.Outcome == api.Draining:
		return &planner.Refusal{Reason: o.admin.Host + " is going down"}
	case errors.As(err, &problem):
		return &outcomeError{problem.Outcome, problem.Detail}
	case !errors.As(err, &unexpected):
		return fmt.Errorf("%s: %w", o.admin.Host, err)
	case unexpected.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the request: %s", o.admin.Host, unauthorized(o.token))
	}
	return advised{what: fmt.Sprintf("%s answers %s", o.admin.Host, unexpected.Status), err: err,
		remedy: fmt.Sprintf("%s asks the admin address of a process, not that of its claims: what 'salectl serve' was told with --admin, %s by default.", o.command, defaultAdmin)}
}
