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
func (c *client) begin(r *streampb.Request, k kind) (u *inflight, ok bool) {
	s, size := c.stream, likelySize(r, k)
	s.mu.Lock()
	for (s.requests.count >= maxInFlight || s.requests.bytes != 0 && s.requests.bytes+size > maxBytes) && s.broken == nil {
		s.room.Wait()
		c.now = s.config.Clock().Mono
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
	u.id, u.kind, u.size, u.began, u.until = r.Id, k, size, c.now, c.now+s.config.ClaimTimeout
	if ms := r.TimeoutMs; ms > 0 {
		u.until = c.now + min(s.config.ClaimTimeout, time.Duration(ms)*time.Millisecond)
	}
	s.requests.open[u.id] = u
	s.requests.count++
	s.wakeLocked(c.now, u.until)
	s.mu.Unlock()
	return u, true
}

// isBroken reports whether the stream is broken.
func (s *stream) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != nil
}

// begun notes how to end a request early.
func (r *inflight) begun(cancel func()) {
	s := r.stream
	s.mu.Lock()
	r.cancel = cancel
	broken := s.broken != nil && !r.answered
	s.mu.Unlock()
	if broken {
		cancel()
	}
}

// complete takes the answer to a request, and has it written.
func (r *inflight) complete(a executor.Answer) {
	s := r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	r.answer, r.answered = a, true
	if more := sizeOf(a.Claim) + sizeOf(a.Claims...) - r.size; more > 0 {
		r.size += more
		s.requests.holdLocked(more)
	}
	s.ready = append(s.ready, r)
	if len(s.ready) == 1 {
		s.news.Signal()
	}
}

// cancel ends a request early, if it has no answer yet.
func (c *client) cancel(id uint64) {
	c.mu.Lock()
	var cancel func()
	if r, ok := c.requests.open[id]; ok && !r.answered {
		cancel = r.cancel
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
