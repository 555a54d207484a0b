package stream

import (
	"runtime"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// writeSize is about how much is written at a time; more waits until that is sent.
const writeSize = 64 << 10

// write sends what becomes ready until the stream is over and all requests are answered.
func (s *stream) write() {
	var batch []*inflight
	var buf []byte
	for s.awaitNews() {
		runtime.Gosched() // others that are about to answer do so first
		s.mu.Lock()
		batch, s.ready = s.ready, batch[:0]
		buf, s.extra = s.extra, buf[:0]
		s.mu.Unlock()
		for sent := 0; sent < len(batch) || len(buf) > 0; {
			from := sent
			for ; sent < len(batch) && len(buf) < writeSize; sent++ {
				buf = s.encode(buf, batch[sent])
			}
			s.beforeWrite(batch[from:sent])
			s.put(buf)
			s.afterWrite(batch[from:sent])
			buf = buf[:0]
		}
	}
}

// awaitNews waits until there is something to write; false: there will be no more.
func (s *stream) awaitNews() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ready) == 0 && len(s.extra) == 0 {
		if s.over && s.requests.count == 0 {
			return false
		}
		s.news.Wait()
	}
	return true
}

// encode appends the response to a request.
func (s *stream) encode(b []byte, r *inflight) []byte {
	switch r.kind {
	case userLookup:
		return s.codec.appendLookup(b, r, s.sale.Place(r.user))
	case claimLookup:
		return s.codec.appendLookup(b, r, s.sale.PlaceOf(r.shard))
	case settlement:
		if !r.settled() {
			wire.NotSettled(&r.answer)
		}
		return s.codec.appendAnswer(b, r, s.sale.PlaceOf(r.shard))
	}
	return s.codec.appendAnswer(b, r, s.sale.Place(r.user))
}

// beforeWrite counts responses that are about to be sent. From then on their ids may be used again.
func (s *stream) beforeWrite(batch []*inflight) {
	now := s.config.Clock().Mono
	for _, r := range batch {
		label := r.answer.Outcome
		if r.answer.Replayed && (label.Accepted() || r.settled()) {
			label = api.Replayed
		}
		switch r.kind {
		case claim:
			s.sale.CountClaim(label, now-r.began)
		case settlement:
			s.sale.CountSettlement(r.how, label, now-r.began)
		}
	}
	s.mu.Lock()
	for _, r := range batch {
		delete(s.requests.open, r.id)
	}
	s.timer.writing = now
	s.wakeLocked(now, now+s.config.WriteTimeout)
	s.mu.Unlock()
}

// put writes.
func (s *stream) put(b []byte) {
	s.mu.Lock()
	broken := s.broken != nil
	s.mu.Unlock()
	if broken {
		return
	}
	_, err := s.out.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		s.end(err)
	}
}

// afterWrite makes room for as many requests.
func (s *stream) afterWrite(batch []*inflight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.writing = 0
	s.requests.count -= len(batch)
	var size int64
	for _, r := range batch {
		size += r.size
		r.reset()
	}
	s.requests.holdLocked(-size)
	s.requests.spare = append(s.requests.spare, batch...)
	s.room.Signal()
	s.leaveLocked()
}
