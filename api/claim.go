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
	"sync"
	"sync/atomic"
	"time"

	"salectl/api/streampb"
)

// Answer is the result of a claim or a settlement for the client.
type Answer struct {
	Outcome Outcome // empty: no server answered
	Status  int     // of the HTTP response

	Claim    Claim    // of an accepted claim, or of one settled as requested
	Replayed bool     // the claim had been accepted before; not set for a settlement
	document []byte   // document of any other answer; see Problem
	decoded  *Problem // the same, of an answer that came over a stream; neither: it is only an outcome

	// RetryAfter is the value of the header, or else that of the outcome's Row.
	RetryAfter time.Duration
	Server     string // base URL of the server that answered
	Key        string // key of all attempts; "" for a settlement
	Attempts   int

	// MayBeAccepted reports that an attempt may have been or may still be accepted, and that
	// no later answer decides this. Another request with the same key does. For a settlement:
	// it may have been or may still be done.
	MayBeAccepted bool
}

// Problem returns the server's problem document for a request that was not accepted or not
// done. It is decoded on demand: a client with many claims rarely needs it.
func (a *Answer) Problem() Problem {
	switch {
	case a.decoded != nil:
		return *a.decoded
	case a.document == nil:
		return a.Outcome.row().Problem()
	}
	var p Problem
	_ = json.Unmarshal(a.document, &p) // it was decoded before, for the outcome
	return p
}

// Retry reports whether the request is worth sending again.
func (a *Answer) Retry() Retry {
	row := a.Outcome.row()
	if row.Status == http.StatusInternalServerError && passing(a.Status) { // an outcome of a newer server
		return Again
	}
	return row.Retry
}

// passing reports whether an HTTP status invites a later attempt.
func passing(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Attempt is one request of a claim or a settlement, with its result. A request cut off by the
// end of its context is not reported.
type Attempt struct {
	Number int     // from 1
	Server string  // base URL
	Answer *Answer // nil: no answer, for the reason Err
	Err    error
	Again  bool // the request will be sent again
}

// Claim sends a claim until a server has decided it, always with the same key. It generates a
// key if r has none, and claims one unit if r has no quantity. An invalid key is an error, and
// no request is sent. An attempt without an answer, or with the answer Unknown, may have been
// accepted; a further attempt finds out. Where the table of outcomes has Again, the other servers
// are tried at once. Then the client waits as long as the answers require and up to a quarter
// more, so that clients that were refused together do not return together.
//
// The error is nil if a server has answered and no attempt follows: the answer is final, or
// Config.Attempted returned false. If ctx ends first, the error wraps context.Cause(ctx), and
// at a deadline also the error of the last attempt; the Answer is that of the last attempt,
// with an empty Outcome if there was none. Any other error is why the last attempt had no
// answer: an *UnexpectedError if no server of the sale has answered. The Answer always has
// Key, Attempts and MayBeAccepted.
func (c *Client) Claim(ctx context.Context, r Request) (Answer, error) {
	if r.Key == "" {
		r.Key = rand.Text()
	}
	if err := CheckKey(r.Key); err != nil { // HTTP would trim blanks
		return Answer{Key: r.Key}, err
	}
	switch {
	case len(r.Units) > 0:
		r.Quantity = int64(len(r.Units))
	case r.Quantity == 0: // not given, as in a body without one
		r.Quantity = 1
	}
	a := c.newSubmission()
	defer a.free()
	a.claim = r
	if !c.cfg.Stream {
		body, err := json.Marshal(r)
		if err != nil {
			return Answer{}, err
		}
		a.key, a.body = []string{keyValue(r.Key)}, body
	}
	a.server = c.first(func(shards int) int { return shardOf(r.User, shards) })
	return a.submit(ctx)
}

// submission is one claim or settlement in progress.
type submission struct {
	*Client
	claim   Request              // user "": no claim
	settles *streampb.Settlement // over a stream; nil: a claim, or a settlement over HTTP
	path    string               // path after that of the claims
	key     []string             // values of the header; none: net/http may repeat the request all the same
	body    []byte

	server   int // index of the server of the next attempt
	attempts int
	silent   int           // consecutive attempts without an answer
	round    int           // servers tried since the last wait
	wait     time.Duration // longest wait that these servers require
	inDoubt  bool
	sent     atomic.Bool // the attempt has a connection: before that it reaches no server

	answers [2]Answer
	answer  *Answer // of the last attempt: one of answers
	err     error   // of the last attempt, nil with an answer
	next    *Answer // of the current attempt: the other
}

var submissions = sync.Pool{New: func() any { return new(submission) }}

func (c *Client) newSubmission() *submission {
	a := submissions.Get().(*submission)
	a.Client, a.answer, a.next = c, &a.answers[1], &a.answers[0]
	return a
}

func (a *submission) free() {
	*a = submission{}
	submissions.Put(a)
}

// submit makes attempts until there is an answer, first at the server that is set.
func (a *submission) submit(ctx context.Context) (Answer, error) {
	err := a.run(ctx)
	a.answer.Key, a.answer.Attempts, a.answer.MayBeAccepted = a.claim.Key, a.attempts, a.inDoubt
	return *a.answer, err
}

func (a *submission) run(ctx context.Context) error {
	for {
		err := a.attempt(ctx)
		if err != nil && ctx.Err() != nil { // cut off by ctx: the previous error has more details
			if a.attempts == 1 {
				a.err = fmt.Errorf("no answer from %s", a.Client.server(a.server).base)
			}
			return a.stopped(ctx)
		}
		a.answer, a.next, a.err = a.next, a.answer, err
		again := err != nil && worthRetrying(err)
		if err == nil {
			retry := a.answer.Retry()
			again = retry == Again || retry == Later && a.cfg.Later
			if retry != Again && a.server < len(a.servers) {
				a.decided.Store(int32(a.server))
			}
		}
		if more := a.report(again && ctx.Err() == nil); !again || !more {
			return err
		}
		err = nil
		if wait := a.turn(); wait > 0 {
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

// report reports an attempt to Config.Attempted. false: no attempt follows.
func (a *submission) report(again bool) bool {
	if a.cfg.Attempted == nil {
		return true
	}
	attempt := Attempt{Number: a.attempts, Server: a.Client.server(a.server).base, Err: a.err, Again: again}
	if a.err == nil {
		attempt.Answer = new(*a.answer) // the callee may keep it
	}
	return a.cfg.Attempted(attempt)
}

// stopped returns the error of a claim whose context has ended.
func (a *submission) stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if a.err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, a.err)
}

// turn chooses the server of the next attempt and returns how long to wait before.
//
// If this server has not decided, each of the others is tried before the client waits, also
// after Unknown: a process that has lost the sale answers so about its pending requests until
// it has taken the sale over again, while its successor has the outcome.
func (a *submission) turn() time.Duration {
	a.round++
	a.wait = max(a.wait, a.due())
	if a.err != nil || a.answer.Retry() == Again {
		if a.server < len(a.servers) {
			a.server = (a.server + 1) % len(a.servers)
		} else { // a discovered server
			a.server = int(a.decided.Load())
		}
		if a.round < len(a.servers) {
			return 0
		}
	}
	wait := a.wait
	a.round, a.wait = 0, 0
	return wait + time.Duration(a.cfg.Jitter()*float64(wait/4))
}

// due returns how long to wait before the next request to the server of the last attempt.
func (a *submission) due() time.Duration {
	wait, most := a.answer.RetryAfter, a.cfg.MaxWait
	switch foreign, is := errors.AsType[*UnexpectedError](a.err); {
	case is:
		wait = max(foreign.RetryAfter, time.Second)
	case a.err != nil:
		wait, most = firstBackoff<<min(a.silent-1, 10), cmp.Or(most, maxBackoff)
	}
	if most > 0 {
		wait = min(wait, most)
	}
	return wait
}

// attempt makes one attempt, and records whether it may have been accepted.
func (a *submission) attempt(ctx context.Context) (err error) {
	a.attempts++
	a.sent.Store(false)
	if a.attempts > 2 {
		*a.next = Answer{}
	}
	server := a.Client.server(a.server)
	if a.cfg.Stream && (a.path == "" || a.settles != nil) {
		err = a.sendOver(ctx, server)
	} else {
		*a.next, err = a.post(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) },
		}), server)
	}
	if err != nil && ctx.Err() == nil {
		server.silent.Store(time.Now().UnixNano())
	}
	a.silent++
	switch foreign, is := errors.AsType[*UnexpectedError](err); {
	case err == nil:
		a.silent = 0
		if a.next.Outcome == Unknown {
			a.inDoubt = true
		} else if a.next.Outcome.row().Decides {
			a.inDoubt = false
		}
	case is && !foreign.passing():
	case a.sent.Load():
		a.inDoubt = true
	}
	return err
}

// worthRetrying reports whether a later attempt may succeed: not if the server's name does not
// resolve, or if the answer is not from a server of the sale.
func worthRetrying(err error) bool {
	if foreign, is := errors.AsType[*UnexpectedError](err); is {
		return foreign.passing()
	}
	host, is := errors.AsType[*net.DNSError](err)
	return !is || !host.IsNotFound
}

// post sends the request to a server over HTTP.
func (a *submission) post(ctx context.Context, s *server) (answer Answer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.claims+a.path, bytes.NewReader(a.body))
	if err != nil {
		return answer, err
	}
	// With this header net/http, too, repeats a request when a kept connection turns out to be
	// closed. Keys permit that, and a settlement needs none.
	request.Header = http.Header{"Content-Type": typeJSON, KeyHeader: a.key}
	if auth := a.header["Authorization"]; auth != nil {
		request.Header["Authorization"] = auth
	}
	response, body, err := a.do(request)
	if err != nil {
		return answer, err
	}
	defer buffers.Put(body)
	a.setOwnerFrom(response.Header)
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
		answer.document = bytes.Clone(body.Bytes())
	}
	if answer.RetryAfter = retryAfter(response.Header); answer.RetryAfter == 0 {
		answer.RetryAfter = max(answer.Outcome.Row().RetryAfter, time.Second)
	}
	return answer, nil
}

var typeJSON = []string{TypeJSON}
