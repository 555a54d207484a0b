package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/executor/httpd"
)

// claimReply is what a server answered, and what claim --json prints.
type claimReply struct {
	FormatVersion int         `json:"formatVersion"`
	Outcome       api.Outcome `json:"outcome"`
	Sale          string      `json:"sale"`
	User          string      `json:"user"`
	Key           string      `json:"key"`
	// MayBeAccepted says that an earlier try with the key may have been accepted, and
	// that this answer does not tell.
	MayBeAccepted bool `json:"mayBeAccepted,omitempty"`

	// Of an accepted claim.
	claimUnits
	Replayed bool `json:"replayed,omitempty"` // it had been accepted before

	// Of a refused one.
	Detail  string        `json:"detail,omitempty"`
	OpensAt string        `json:"opensAt,omitempty"`
	Claims  []claimUnits  `json:"claims,omitempty"` // the user's, for limit_reached
	retry   time.Duration // what Retry-After says
}

// claimUnits is what one claim has.
type claimUnits struct {
	Claim    string   `json:"claim,omitempty"`
	Units    []int64  `json:"units,omitempty"`
	Amounts  []string `json:"amounts,omitempty"` // of a red packet: what each unit is worth
	Currency string   `json:"currency,omitempty"`
	At       string   `json:"at,omitempty"`
}

// claimer sends one claim until it has an answer. All tries have one key, so
// that the server takes them for one request.
type claimer struct {
	options claimOptions
	token   string
	url     string
	body    []byte
	client  http.Client

	inDoubt bool // a try may have been accepted, and no answer since has said whether
}

// tryTimeout is for one try. A server answers sooner, if only with unknown; what
// takes longer is a machine that has gone.
const tryTimeout = httpd.DefaultClaimTimeout + time.Second

func newClaimer(o claimOptions, token string) *claimer {
	body, err := json.Marshal(struct {
		User     string `json:"user"`
		Quantity int64  `json:"quantity"`
	}{o.user, o.quantity})
	if err != nil {
		panic(err) // a string and a number always encode
	}
	return &claimer{
		options: o, token: token, body: body,
		url: o.server.JoinPath("v1", "sales", url.PathEscape(o.sale), "claims").String(),
		client: http.Client{
			Timeout: tryTimeout,
			// A redirect would be followed with a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// attempt is what one try came to: a reply, or why there is none.
type attempt struct {
	reply *claimReply
	err   error
}

func (a attempt) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return string(a.reply.Outcome) + ": " + a.reply.Detail
}

// firstWait is how long to wait after a server that did not answer at all.
const firstWait = 200 * time.Millisecond

// run returns the first answer that asking again cannot better, or the last one
// when the time is up. retrying is told why, once for each reason in a row.
func (c *claimer) run(ctx context.Context, retrying func(why string)) (*claimReply, error) {
	defer c.client.CloseIdleConnections()
	reply, err := c.insist(ctx, retrying)
	switch {
	case err == nil:
		reply.MayBeAccepted = c.inDoubt
	case c.inDoubt:
		err = advised{
			what: err.Error() + ": it is unknown whether the claim was accepted", err: inDoubt{err},
			remedy: "Learn what became of it: " + c.options.again(),
		}
	}
	return reply, err
}

// inDoubt is why there is no answer though the claim may have been accepted.
type inDoubt struct{ error }

func (e inDoubt) Unwrap() error { return e.error }

// insist is run, without a word on tries before the last.
func (c *claimer) insist(ctx context.Context, retrying func(why string)) (*claimReply, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.options.timeout, errTimeout)
	defer cancel()
	var last attempt
	for told := ""; ; {
		reply, err := c.once(bounded)
		switch {
		case err == nil && reply.Outcome.Row().Retry != api.Again:
			return reply, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !worthRetrying(err):
			return nil, err
		case bounded.Err() != nil && last != attempt{}:
			// Cut off by us, it says less than the one before.
		default:
			last = attempt{reply, err}
		}
		wait := firstWait
		if last.reply != nil {
			wait = last.reply.retry
		}
		if why := last.String(); why != told && bounded.Err() == nil {
			retrying(why)
			told = why
		}
		select {
		case <-time.After(wait):
			continue
		case <-bounded.Done():
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if last.reply != nil {
			return last.reply, nil
		}
		return nil, fmt.Errorf("%w after %s: %w", errTimeout, c.options.timeout, last.err)
	}
}

// once makes one try, and takes down whether it may have been accepted.
func (c *claimer) once(ctx context.Context) (*claimReply, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	reply, err := c.try(httptrace.WithClientTrace(ctx, trace))
	switch {
	case err == nil && reply.Outcome == api.Unknown:
		c.inDoubt = true
	case err == nil && reply.Outcome.Row().Decides:
		c.inDoubt = false
	case err != nil && sent.Load() && !errors.Is(err, errForeign):
		c.inDoubt = true
	}
	return reply, err
}

// worthRetrying says whether a later try may fare better: not if the name of
// the server means nothing, or something that is not ours has answered.
func worthRetrying(err error) bool {
	var unknownHost *net.DNSError
	return !errors.Is(err, errForeign) && !(errors.As(err, &unknownHost) && unknownHost.IsNotFound)
}

// errForeign says that what answered is not salectl, or does not let us in.
var errForeign = errors.New("unexpected answer")

func (c *claimer) try(ctx context.Context) (*claimReply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errForeign, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", c.options.key)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	// A user may have many claims, but not without bound.
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	return c.read(response, body)
}

// read makes a reply of what came back.
func (c *claimer) read(response *http.Response, body []byte) (*claimReply, error) {
	if response.StatusCode == http.StatusUnauthorized {
		return nil, fmt.Errorf("%w: %s refuses the request: %s", errForeign, c.options.server, unauthorized(c.token))
	}
	reply := new(claimReply)
	if err := json.Unmarshal(body, reply); err != nil || reply.Outcome == "" {
		if response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests {
			return nil, fmt.Errorf("%s answers %s", c.options.server, response.Status) // perhaps a proxy before it
		}
		return nil, fmt.Errorf("%w: %s answers %s, which is not what salectl serve would say; check --server",
			errForeign, c.options.server, response.Status)
	}
	reply.Replayed = response.StatusCode == http.StatusOK
	reply.retry = time.Second
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		reply.retry = time.Duration(seconds) * time.Second
	}
	return reply, nil
}
