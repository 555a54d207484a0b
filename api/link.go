package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"salectl/api/streampb"
)

// link is a client's stream to one server. It is opened on demand and reopened after it ends.
type link struct {
	client *Client
	server *server

	mu   sync.Mutex
	conn *linked // nil: no stream accepts requests
	dial *dial   // nil: no stream is being opened
	open map[*linked]struct{}
}

// dial is one attempt to open a stream. All requests that need the stream wait for it.
type dial struct {
	done   chan struct{}
	cancel context.CancelFunc
	conn   *linked
	err    error
}

// linked is one stream.
type linked struct {
	link *link
	conn *StreamConn

	mu    sync.Mutex
	calls []*call  // those that wait, at id%maxCalls; nil: the place is free
	free  []uint64 // the free places
	last  uint64   // multiple of maxCalls in an id
	going bool     // the server is going away, or the stream is full
	over  bool
	tick  int // number of elapsed parts of the timeout of a request
	timer *time.Timer
}

// maxCalls bounds the calls that wait on a stream.
const maxCalls = 1 << 16

// call is one request that waits for its answer.
type call struct {
	done  chan struct{} // holds one signal
	until int           // tick of the stream at which the call times out

	id      uint64
	message *streampb.Request

	// The parts of message for a claim are reused, which saves allocations.
	request streampb.Request
	kind    streampb.Request_Claim
	claim   streampb.NewClaim

	how    How     // of a settlement; "": none
	answer *Answer // destination of the answer
	claims []Claim // result of a query
	next   string  // cursor after claims
	err    error   // why there is no answer
}

var pooledCalls = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newCall() *call { return pooledCalls.Get().(*call) }

func (c *call) free() {
	c.answer, c.claims, c.next, c.err, c.how = nil, nil, "", nil, ""
	c.message = nil
	c.claim.Reset()
	pooledCalls.Put(c)
}

// setClaim makes the call send a claim.
func (c *call) setClaim(r *Request) {
	c.claim.User, c.claim.Key, c.claim.Quantity = r.User, r.Key, r.Quantity
	c.claim.Names, c.claim.Adjacent = r.Units, r.Adjacent
	c.kind.Claim, c.request.Kind, c.message = &c.claim, &c.kind, &c.request
}

var (
	errStreamEnded = errors.New("the stream has ended before the answer")
	errNoAnswer    = errors.New("there was no answer in time")
)

// stream returns a stream that accepts requests, and opens one if necessary.
func (l *link) stream(ctx context.Context) (*linked, error) {
	l.mu.Lock()
	if x := l.conn; x != nil {
		l.mu.Unlock()
		return x, nil
	}
	d := l.dial
	if d == nil {
		d = &dial{done: make(chan struct{})}
		var opening context.Context
		opening, d.cancel = context.WithTimeout(context.Background(), l.client.cfg.Timeout)
		l.dial = d
		go l.opens(opening, d)
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) opens(ctx context.Context, d *dial) {
	defer close(d.done)
	defer d.cancel()
	x := &linked{link: l}
	cfg := StreamConfig{
		Server: l.server.base, Sale: l.client.cfg.Sale, Token: l.client.cfg.Token, Transport: l.client.cfg.Transport,
		reuse: true,
	}
	ready := make(chan struct{}) // closed once conn is set
	cfg.Received = func(r *streampb.Reply) { <-ready; x.received(r) }
	cfg.Closed = func(err error) { <-ready; x.closed(err) }
	x.conn, d.err = DialStream(ctx, cfg)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dial == d {
		l.dial = nil
	}
	if d.err != nil {
		return
	}
	if address := x.conn.Address(); address != "" {
		l.server.called.Store(&address)
	}
	l.conn, d.conn = x, x
	l.open[x] = struct{}{}
	x.mu.Lock()
	x.timer = time.AfterFunc(l.client.cfg.Timeout/ticks, x.ticks)
	x.mu.Unlock()
	close(ready)
}

// close ends all streams and waits for their end.
func (l *link) close() {
	l.mu.Lock()
	d := l.dial
	l.mu.Unlock()
	if d != nil {
		d.cancel()
		<-d.done
	}
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.conn = nil
	l.mu.Unlock()
	for _, x := range open {
		x.conn.Close()
	}
}

// leave removes a stream from use.
func (l *link) leave(x *linked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == x {
		l.conn = nil
	}
}

// roundTrip sends a request and waits for its answer, which it stores in c. sent reports whether the
// server may have received the request.
func (l *link) roundTrip(ctx context.Context, c *call) (sent bool, err error) {
	for range 2 {
		x, err := l.stream(ctx)
		if err != nil {
			return false, err
		}
		if x.enter(c) {
			return x.wait(ctx, c)
		}
		l.leave(x) // it has ended, is full, or the server is going away
	}
	return false, fmt.Errorf("%s: %w", l.server.base, errStreamEnded)
}

// enter assigns an id to a call; false: the stream accepts none.
func (x *linked) enter(c *call) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.free) == 0 && len(x.calls) == maxCalls {
		x.going = true // it ends with its last call; another stream takes the next ones
	}
	if x.over || x.going {
		return false
	}
	if len(x.free) == 0 {
		x.free, x.calls = append(x.free, uint64(len(x.calls))), append(x.calls, nil)
	}
	last := len(x.free) - 1
	x.last += maxCalls
	c.id = x.last + x.free[last]
	x.calls[x.free[last]], x.free = c, x.free[:last]
	c.until = x.tick + ticks + 1
	return true
}

// take removes a call from those that wait; nil: none has the id.
func (x *linked) take(id uint64) (c *call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if place := id % maxCalls; place < uint64(len(x.calls)) && x.calls[place] != nil && x.calls[place].id == id {
		c = x.calls[place]
		x.removeLocked(c)
	}
	return c
}

func (x *linked) removeLocked(c *call) {
	x.calls[c.id%maxCalls] = nil
	x.free = append(x.free, c.id%maxCalls)
	x.endLocked()
}

// endLocked ends the requests of a stream that accepts no more calls, once no call waits.
func (x *linked) endLocked() {
	if x.going && len(x.free) == len(x.calls) {
		x.conn.CloseSend()
	}
}

func (x *linked) wait(ctx context.Context, c *call) (sent bool, err error) {
	id := c.id
	c.message.Id = id
	if err = x.conn.out.add(ctx, true, c.message); err != nil {
		if x.take(id) == nil {
			<-c.done
		}
		return false, err
	}
	if ctx.Done() == nil { // cheaper
		<-c.done
		return true, c.err
	}
	select {
	case <-c.done:
		return true, c.err
	case <-ctx.Done():
	}
	if x.take(id) == nil { // it was answered just now
		<-c.done
		return true, c.err
	}
	_ = x.conn.TrySend(&streampb.Request{Id: id, Kind: &streampb.Request_Cancel{Cancel: &streampb.Cancel{}}}) // it only saves work
	return true, context.Cause(ctx)
}

// ticks is the number of parts into which the timeout of a request is divided, so that no
// request needs its own timer.
const ticks = 16

// ticks ends the calls that have timed out.
func (x *linked) ticks() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	x.tick++
	for _, c := range x.calls {
		if c != nil && c.until <= x.tick {
			x.removeLocked(c)
			c.err = fmt.Errorf("%s: %w", x.link.server.base, errNoAnswer)
			c.done <- struct{}{}
		}
	}
	x.timer.Reset(x.link.client.cfg.Timeout / ticks)
}

// received processes a message.
func (x *linked) received(r *streampb.Reply) {
	if r.Id == 0 {
		x.control(r)
		return
	}
	c := x.take(r.Id)
	if c == nil {
		return // it is no longer waited for
	}
	client := x.link.client
	switch kind := r.Kind.(type) {
	case *streampb.Reply_Answer:
		client.answerOf(c.answer, kind.Answer, c)
		client.setOwner(kind.Answer.Owner, int(kind.Answer.Shard), int(kind.Answer.Shards))
	case *streampb.Reply_Problem:
		*c.answer = answerOfProblem(kind.Problem)
	default:
		c.err = fmt.Errorf("%s sent an invalid answer", x.link.server.base)
	}
	c.answer.Server = x.link.server.base
	c.done <- struct{}{}
}

// control processes a message about the stream itself.
func (x *linked) control(r *streampb.Reply) {
	switch r.Kind.(type) {
	case *streampb.Reply_GoingAway, *streampb.Reply_Problem:
	default:
		return
	}
	x.link.leave(x)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.going = true
	x.endLocked()
}

// closed processes the end of the stream: waiting calls have no answer.
func (x *linked) closed(err error) {
	x.link.leave(x)
	if err == nil || errors.Is(err, io.EOF) {
		err = errStreamEnded
	}
	x.mu.Lock()
	x.over = true
	x.timer.Stop()
	for _, c := range x.calls {
		if c != nil {
			c.err = fmt.Errorf("%s: %w", x.link.server.base, err)
			c.done <- struct{}{}
		}
	}
	x.calls, x.free = nil, nil
	x.mu.Unlock()
	x.link.mu.Lock()
	delete(x.link.open, x)
	x.link.mu.Unlock()
}

// answerOfProblem returns the answer to a request that the server did not understand.
func answerOfProblem(p *streampb.Problem) Answer {
	return Answer{
		Outcome: Outcome(p.Outcome), Status: int(p.Status), RetryAfter: time.Second,
		decoded: &Problem{Type: "about:blank", Title: p.Title, Status: int(p.Status), Detail: p.Detail, Outcome: Outcome(p.Outcome)},
	}
}
