package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Answer is what a claim or a settlement came to, as whoever asked was told.
type Answer struct {
	Outcome Outcome // empty: no server gave an answer
	Status  int     // of the HTTP answer

	Claim    Claim  // of an accepted claim, or of one that was settled as asked
	Replayed bool   // the claim had been accepted before; of a settlement it is not told
	problem  []byte // of any other: the document; see Problem

	// RetryAfter is what the header says, or else what the outcome's Row says.
	RetryAfter time.Duration
	Server     string // the base URL of whoever answered
	Key        string // of all attempts; a settlement has none
	Attempts   int

	// MayBeAccepted says that an attempt may have been accepted, or may be yet, and
	// that no answer since tells what became of it. Asking again with the same key
	// tells. Of a settlement: that it may have been done, or may be yet.
	MayBeAccepted bool
}

// Problem is what a server said of what was not accepted, or not done. It is read here and
// not before: whoever sends many claims needs it seldom.
func (a *Answer) Problem() Problem {
	var p Problem
	_ = json.Unmarshal(a.problem, &p) // it has been read once, for the outcome
	return p
}

// Retry says whether the request is worth sending again.
func (a *Answer) Retry() Retry {
	row := a.Outcome.Row()
	if row.Status == http.StatusInternalServerError && passing(a.Status) { // the word of a newer server
		return Again
	}
	return row.Retry
}

// passing says whether an HTTP status asks to come back.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Attempt is one request of a claim or a settlement, and what came of it. One that the end of its
// context has cut off is none.
type Attempt struct {
	Number int     // from 1
	Server string  // base URL
	Answer *Answer // nil: there was none, and Err says why
	Err    error
	Again  bool // the request is to be sent again
}

// Claim sends a claim until a server has decided on it, always with the same key; a
// request without one is given a new key. An attempt that had no answer, or the
// answer Unknown, may have been accepted, and asking again tells. Where the table of
// outcomes says Again, the other servers are asked at once, and then the client waits
// as long as the answers say and up to a quarter more, so that those who were refused
// together do not come back together.
//
// The error is nil if a server has answered and no attempt is to follow: the answer
// is final, or Config.Attempted wanted no more. If ctx ends first, the error wraps
// context.Cause(ctx), and what the last attempt failed of if it was a deadline that
// ended ctx, and the Answer is that of the last attempt, with an empty Outcome if it
// had none. Any other error says why
// the last attempt had no answer: an *UnexpectedError if no server of the sale has
// answered. In each case the Answer has Key, Attempts and MayBeAccepted.
func (c *Client) Claim(ctx context.Context, r Request) (Answer, error) {
	if r.Key == "" {
		r.Key = rand.Text()
	}
	body, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	a := asking{Client: c, key: []string{r.Key}, body: body}
	answer, err := a.ask(ctx)
	answer.Key = r.Key
	return answer, err
}

// asking is one claim or settlement on its way.
type asking struct {
	*Client
	path string   // behind that of the claims
	key  []string // the header's values; none: net/http may send the request again all the same
	body []byte

	server   int // index of the one that is asked
	attempts int
	silent   int           // attempts in a row that had no answer
	round    int           // servers asked since the last wait
	wait     time.Duration // the longest that any of these asks for
	inDoubt  bool
	sent     atomic.Bool // the attempt has a connection: until then no server has heard of it

	answer Answer // of the last attempt
	err    error  // of the last attempt, nil if it had an answer
}

func (a *asking) ask(ctx context.Context) (Answer, error) {
	a.server = int(a.decided.Load())
	err := a.run(ctx)
	a.answer.Attempts, a.answer.MayBeAccepted = a.attempts, a.inDoubt
	return a.answer, err
}

func (a *asking) run(ctx context.Context) error {
	for {
		answer, err := a.attempt(ctx)
		if err != nil && ctx.Err() != nil { // cut off by us, it says less than the one before
			if a.attempts == 1 {
				a.err = fmt.Errorf("no answer from %s", a.servers[a.server].base)
			}
			return a.stopped(ctx)
		}
		a.answer, a.err = answer, err
		again := err != nil && worthRetrying(err)
		if err == nil {
			retry := answer.Retry()
			again = retry == Again || retry == Later && a.cfg.Later
			if retry != Again {
				a.decided.Store(int32(a.server))
			}
		}
		told := Attempt{Number: a.attempts, Server: a.servers[a.server].base, Err: err, Again: again && ctx.Err() == nil}
		if err == nil {
			told.Answer = &a.answer
		}
		if more := a.cfg.Attempted(told); !again || !more {
			return err
		}
		err = nil
		if wait := a.next(); wait > 0 {
			err = a.cfg.Sleep(ctx, wait)
		}
		switch {
		case ctx.Err() != nil:
			return a.stopped(ctx)
		case err != nil:
			return err
		}
	}
}

// stopped is the error of a claim whose context has ended.
func (a *asking) stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if a.err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, a.err)
}

// next chooses the server of the next attempt and returns how long to wait before.
//
// Where this server has not decided, each of the others is asked before the client
// waits, also after Unknown: a process that has lost the sale says so of what it had
// under way until it has taken the sale over again, while its successor knows.
func (a *asking) next() time.Duration {
	a.round++
	a.wait = max(a.wait, a.due())
	if a.err != nil || a.answer.Retry() == Again {
		a.server = (a.server + 1) % len(a.servers)
		if a.round < len(a.servers) {
			return 0
		}
	}
	wait := a.wait
	a.round, a.wait = 0, 0
	return wait + time.Duration(a.cfg.Jitter()*float64(wait/4))
}

// due returns how long to wait before the server that was just asked is asked again.
func (a *asking) due() time.Duration {
	wait, most := a.answer.RetryAfter, a.cfg.MaxWait
	var foreign *UnexpectedError
	switch {
	case errors.As(a.err, &foreign):
		wait = max(foreign.RetryAfter, time.Second)
	case a.err != nil:
		wait, most = firstBackoff<<min(a.silent-1, 10), cmp.Or(most, maxBackoff)
	}
	if most > 0 {
		wait = min(wait, most)
	}
	return wait
}

// attempt makes one attempt, and takes down whether it may have been accepted.
func (a *asking) attempt(ctx context.Context) (Answer, error) {
	a.attempts++
	a.sent.Store(false)
	answer, err := a.post(a.traced(ctx), a.servers[a.server])
	a.silent++
	switch foreign := (*UnexpectedError)(nil); {
	case err == nil:
		a.silent = 0
		if answer.Outcome == Unknown {
			a.inDoubt = true
		} else if answer.Outcome.Row().Decides {
			a.inDoubt = false
		}
	case errors.As(err, &foreign) && !foreign.passing():
	case a.sent.Load():
		a.inDoubt = true
	}
	return answer, err
}

// traced returns a context that takes down when a request has a connection.
func (a *asking) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) },
	})
}

// worthRetrying says whether a later attempt may fare better: not if the name of
// the server means nothing, or what has answered is no server of the sale.
func worthRetrying(err error) bool {
	var foreign *UnexpectedError
	if errors.As(err, &foreign) {
		return foreign.passing()
	}
	var unknownHost *net.DNSError
	return !(errors.As(err, &unknownHost) && unknownHost.IsNotFound)
}

// post sends the request to a server.
func (a *asking) post(ctx context.Context, s server) (answer Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.claims+a.path, bytes.NewReader(a.body))
	if err != nil {
		return answer, err
	}
	// With this header net/http, too, sends a request again when a kept connection turns
	// out to be closed. That is what keys are for, and a settlement needs none.
	request.Header = http.Header{"Content-Type": typeJSON, KeyHeader: a.key}
	if auth := a.header["Authorization"]; auth != nil {
		request.Header["Authorization"] = auth
	}
	response, body, err := a.do(request)
	if err != nil {
		return answer, err
	}
	defer buffers.Put(body)
	answer = Answer{Status: response.StatusCode, Server: s.base, Replayed: a.path == "" && response.StatusCode == http.StatusOK}
	var refusal struct {
		Outcome Outcome `json:"outcome"`
	}
	into, outcome := any(&refusal), &refusal.Outcome
	accepted := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated
	if accepted {
		into, outcome = &answer.Claim, &answer.Claim.Outcome
	}
	if json.Unmarshal(body.Bytes(), into) != nil || *outcome == "" {
		return Answer{}, unexpected(s.base, response, body)
	}
	if answer.Outcome = *outcome; !accepted {
		answer.problem = bytes.Clone(body.Bytes())
	}
	if answer.RetryAfter = retryAfter(response.Header); answer.RetryAfter == 0 {
		answer.RetryAfter = max(answer.Outcome.Row().RetryAfter, time.Second)
	}
	return answer, nil
}

var typeJSON = []string{TypeJSON}
