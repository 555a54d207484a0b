package stream

import (
	"net/http"
	"time"

	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// begin takes a request when there is room for it. nil: it is not to be answered, since its id is in
// use or, if ok is false, the stream is broken.
func (client *client) begin(r *streampb.Request, asks kind) (u *inflight, ok bool) {
	s, size := client.stream, likelySize(r, asks)
	s.mu.Lock()
	for (s.requests.count >= maxInFlight || s.requests.bytes != 0 && s.requests.bytes+size > maxBytes) && s.broken == nil {
		s.room.Wait()
		client.now = s.config.Clock().Mono
	}
	s.mu.Unlock()
	for _, m := range s.requests.memories {
		m.Take(size, s.isBroken)
	}
	s.mu.Lock()
	s.requests.bytes += size
	if s.broken != nil {
		s.requests.holdLocked(-size)
		s.mu.Unlock()
		return nil, false
	}
	if _, used := s.requests.open[r.Id]; used {
		s.requests.holdLocked(-size)
		s.mu.Unlock()
		s.say(r.Id, wire.NewProblem(http.StatusConflict, "id: another request with it is under way; give each its own until it is answered."))
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
	u.cancel, u.id, u.kind, u.size, u.began, u.until = nil, r.Id, asks, size, client.now, client.now+s.config.ClaimTimeout
	if ms := r.TimeoutMs; ms > 0 {
		u.until = client.now + min(s.config.ClaimTimeout, time.Duration(ms)*time.Millisecond)
	}
	s.requests.open[u.id] = u
	s.requests.count++
	s.wakeLocked(client.now, u.until)
	s.mu.Unlock()
	return u, true
}

// isBroken reports whether the stream is broken.
func (stream *stream) isBroken() bool {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	return stream.broken != nil
}

// begun notes how to end a request early.
func (request *inflight) begun(cancel func()) {
	s := request.stream
	s.mu.Lock()
	request.cancel = cancel
	broken := s.broken != nil && !request.answered
	s.mu.Unlock()
	if broken {
		cancel()
	}
}

// complete takes the answer to a request, and has it written.
func (request *inflight) complete(answer executor.Answer) {
	s := request.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	request.answer, request.answered = answer, true
	if more := sizeOf(answer.Claim) + sizeOf(answer.Claims...) - request.size; more > 0 {
		request.size += more
		s.requests.holdLocked(more)
	}
	s.ready = append(s.ready, request)
	if len(s.ready) == 1 {
		s.news.Signal()
	}
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
