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

// Answer is what a claim or a settlement came to, as whoever asked was told.
type Answer struct {
	Outcome Outcome // empty: no server gave an answer
	Status  int     // of the HTTP answer

	Claim    Claim    // of an accepted claim, or of one that was settled as asked
	Replayed bool     // the claim had been accepted before; of a settlement it is not told
	problem  []byte   // of any other: the document; see Problem
	said     *Problem // the same, of an answer that came over a stream
	bare     bool     // of one that says no more than its outcome

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
	if a.said != nil {
		return *a.said
	}
	if a.bare {
		return problemOf(a.Outcome.Row())
	}
	var p Problem
	_ = json.Unmarshal(a.problem, &p) // it has been read once, for the outcome
	return p
}

// Retry reports whether the request is worth sending again.
func (a *Answer) Retry() Retry {
	row := a.Outcome.row()
	if row.Status == http.StatusInternalServerError && passing(a.Status) { // the word of a newer server
		return Again
	}
	return row.Retry
}

// passing reports whether an HTTP status asks to come back.
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
// request without one is given a new key, and one without a quantity asks for one unit.
// A key that servers refuse is an error, and none is asked. An attempt that had no answer, or the
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
	if err := CheckKey(r.Key); err != nil { // HTTP would cut blanks off
		return Answer{Key: r.Key}, err
	}
	switch {
	case len(r.Units) > 0:
		r.Quantity = int64(len(r.Units))
	case r.Quantity == 0: // nothing is said, as in a body without one
		r.Quantity = 1
	}
	a := c.asking()
	defer a.free()
	a.claim = r
	if !c.cfg.Stream {
		body, err := json.Marshal(r)
		if err != nil {
			return Answer{}, err
		}
		a.key, a.body = []string{r.Key}, body
	}
	a.server = c.first(func(shards int) int { return shardOf(r.User, shards) })
	err := a.ask(ctx)
	a.answer.Key = r.Key
	return *a.answer, err
}

// asking is one claim or settlement on its way.
type asking struct {
	asked
	answers [2]Answer // of the last attempt and the one under way; large, and most need one
}

// asked is what an asking has beside its answers.
type asked struct {
	*Client
	claim   Request              // "" as user: it is none
	settles *streampb.Settlement // over a stream; nil: it is a claim, or goes over HTTP
	path    string               // behind that of the claims
	key     []string             // the header's values; none: net/http may send the request again all the same
	body    []byte

	server   int // index of the one that is asked
	attempts int
	silent   int           // attempts in a row that had no answer
	round    int           // servers asked since the last wait
	wait     time.Duration // the longest that any of these asks for
	inDoubt  bool
	sent     atomic.Bool // the attempt has a connection: until then no server has heard of it

	answer *Answer // of the last attempt
	err    error   // of the last attempt, nil if it had an answer
	next   *Answer // of the attempt under way
}

var askings = sync.Pool{New: func() any { return new(asking) }}

func (c *Client) asking() *asking {
	a := askings.Get().(*asking)
	a.Client, a.answer, a.next = c, &a.answers[1], &a.answers[0]
	return a
}

func (a *asking) free() {
	a.answers[0] = Answer{}
	if a.answer.Attempts > 0 || a.attempts > 1 {
		a.answers[1] = Answer{}
	}
	a.asked = asked{}
	askings.Put(a)
}

// ask asks until there is an answer, first the server that is set.
func (a *asking) ask(ctx context.Context) error {
	err := a.run(ctx)
	a.answer.Attempts, a.answer.MayBeAccepted = a.attempts, a.inDoubt
	return err
}

func (a *asking) run(ctx context.Context) error {
	for {
		err := a.attempt(ctx)
		if err != nil && ctx.Err() != nil { // cut off by us, it says less than the one before
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
		if more := a.tell(again && ctx.Err() == nil); !again || !more {
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

// tell tells of an attempt; false: there is to be no other.
func (a *asking) tell(again bool) bool {
	if a.cfg.Attempted == nil {
		return true
	}
	told := Attempt{Number: a.attempts, Server: a.Client.server(a.server).base, Err: a.err, Again: again}
	if a.err == nil {
		answer := *a.answer // whoever hears of it may keep it
		told.Answer = &answer
	}
	return a.cfg.Attempted(told)
}

// stopped is the error of a claim whose context has ended.
func (a *asking) stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if a.err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, a.err)
}

// turn chooses the server of the next attempt and returns how long to wait before.
//
// Where this server has not decided, each of the others is asked before the client
// waits, also after Unknown: a process that has lost the sale says so of what it had
// under way until it has taken the sale over again, while its successor knows.
func (a *asking) turn() time.Duration {
	a.round++
	a.wait = max(a.wait, a.due())
	if a.err != nil || a.answer.Retry() == Again {
		if a.server < len(a.servers) {
			a.server = (a.server + 1) % len(a.servers)
		} else { // one that was learned of
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
func (a *asking) attempt(ctx context.Context) (err error) {
	a.attempts++
	a.sent.Store(false)
	if a.attempts > 2 {
		*a.next = Answer{}
	}
	server := a.Client.server(a.server)
	if a.overStream() {
		err = a.sendOver(ctx, server)
	} else {
		*a.next, err = a.post(a.traced(ctx), server)
	}
	if err != nil && ctx.Err() == nil {
		server.silent.Store(time.Now().UnixNano())
	}
	a.silent++
	switch foreign := (*UnexpectedError)(nil); {
	case err == nil:
		a.silent = 0
		if a.next.Outcome == Unknown {
			a.inDoubt = true
		} else if a.next.Outcome.row().Decides {
			a.inDoubt = false
		}
	case errors.As(err, &foreign) && !foreign.passing():
	case a.sent.Load():
		a.inDoubt = true
	}
	return err
}

// traced returns a context that takes down when a request has a connection.
func (a *asking) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) },
	})
}

// worthRetrying reports whether a later attempt may fare better: not if the name of
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
func (a *asking) post(ctx context.Context, s *server) (answer Answer, err error) {
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
	a.learnFrom(response.Header)
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
