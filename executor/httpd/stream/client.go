package stream

import (
	"io"
	"net/http"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
	"salectl/executor/request"
)

// client reads the requests of a client from a stream. The goroutine of the handler uses it.
type client struct {
	*stream
	body    io.Reader
	grant   access.Grant
	decoder streampb.Decoder
	opened  bool          // the server may answer
	now     time.Duration // monotonic: when the message was read
}

// Read reads the body and records the time.
func (client *client) Read(p []byte) (n int, err error) {
	n, err = client.body.Read(p)
	client.now = client.config.Clock().Mono
	return n, err
}

// serveClient takes requests until there are no more.
func (stream *stream) serveClient(body io.Reader) {
	c := &client{stream: stream, body: body, grant: stream.grant}
	err := stream.receive(c, c.take)
	if err == io.ErrUnexpectedEOF {
		stream.refuse(0, wire.Malformed("the stream ends within a message"))
		err = nil
	}
	stream.end(err)
}

// take takes a message; false: no more is to be read.
func (client *client) take(message []byte) bool {
	m, f := decode(&client.decoder, message)
	switch {
	case f != nil:
		client.refuse(m.id, f)
		return m.id != 0
	case m.id == 0:
		client.refuse(0, wire.Malformed("id: missing; each request has one, from 1"))
		return false
	case !client.opened:
		client.config.AwaitOpened(client.ctx)
		client.opened = true
	}
	right := access.MayClaim
	if m.Settle != nil && m.Settle.How.NamesPayment() {
		right = access.MayConfirm
	}
	switch missing := client.grant.May(right); {
	case missing == nil:
	case missing.Scope != "":
		client.refuse(m.id, missing)
		return true
	default: // the token is no longer valid
		client.refuse(0, missing)
		return false
	}
	if m.cancel {
		client.cancel(m.id)
		return true
	}
	u, ok := client.begin(&m)
	if u == nil {
		return ok
	}
	switch err := m.check(); {
	case err != nil:
		u.complete(executor.Answer{Outcome: api.BadRequest, Message: err.Error()})
	case m.Query == nil && client.config.Draining():
		answer := executor.Answer{Outcome: api.Draining}
		if m.IsClaim() {
			answer = client.sale.Refuse(m.Request, request.Refusal(api.Draining))
		}
		u.complete(answer)
	default:
		u.begun(client.sale.Begin(m.Request, u.done))
	}
	return true
}

// begin takes a request when there is room for it. nil: it is not to be answered, since its id is in
// use or, if ok is false, the stream is broken.
func (client *client) begin(m *message) (u *inflight, ok bool) {
	s, size := client.stream, int64(m.size)+likelySize(&m.Request)
	s.mu.Lock()
	for (s.requests.count >= maxInFlight || s.requests.bytes != 0 && s.requests.bytes+size > maxBytes) && s.broken == nil {
		s.room.Wait()
		client.now = s.config.Clock().Mono
	}
	s.mu.Unlock()
	for _, m := range s.requests.memories {
		m.Take(size, s.gone)
	}
	s.mu.Lock()
	s.requests.bytes += size
	if s.broken != nil {
		s.requests.holdLocked(-size)
		s.mu.Unlock()
		return nil, false
	}
	if _, used := s.requests.open[m.id]; used {
		s.requests.holdLocked(-size)
		s.mu.Unlock()
		s.refuse(m.id, wire.NewProblem(http.StatusConflict, "id: another request with it is under way; each has its own until it is answered."))
		return nil, true
	}
	if last := len(s.requests.spare) - 1; last >= 0 {
		u = s.requests.spare[last]
		s.requests.spare = s.requests.spare[:last]
	} else {
		u = &inflight{stream: s}
		u.done = u.complete
	}
	// begun may have set cancel after the response to the request before was sent.
	u.cancel, u.id, u.content, u.size, u.began, u.until = nil, m.id, m.Request, size, client.now, client.now+s.config.ClaimTimeout
	if m.timeout > 0 {
		u.until = min(u.until, client.now+m.timeout)
	}
	s.requests.open[u.id] = u
	s.requests.count++
	s.wakeLocked(client.now, u.until)
	s.mu.Unlock()
	return u, true
}

// cancel ends a request early, if it has no answer yet.
func (client *client) cancel(id uint64) {
	client.mu.Lock()
	var cancel func()
	if r, ok := client.requests.open[id]; ok && !r.answered {
		cancel = r.cancel
	}
	client.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
