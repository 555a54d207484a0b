package httpd

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/shard"
)

// Replies of streams that are not sent take memory, however large each is. So a request counts
// for what its reply is likely to take until that is sent, and for what it takes as soon as it is
// known. A stream is read no further while its requests, those of its token on all streams, or
// those of all streams count for too much.
const (
	mostOfStream  = 8 << 20 // bytes
	mostOfToken   = 64 << 20
	mostOfStreams = 256 << 20
)

// replyBytes is about what the reply to a request takes in memory.
func replyBytes(r *streampb.Request, k kind) int64 {
	switch k {
	case claims:
		return 512 + bytesOfUnit*max(r.GetClaim().GetQuantity(), int64(len(r.GetClaim().GetNames())), 0)
	case looksAtUser:
		return bytesOfUser
	case looksAtClaim:
		return bytesOfClaim + (16+api.MaxPayment)*int64(min(r.GetFind().GetLimit(), api.MaxPage))
	}
	return bytesOfClaim
}

const (
	bytesOfUnit  = 24
	bytesOfClaim = 32 << 10 // the largest, without what its units are
	bytesOfUser  = shard.PageBytes + 1<<10
)

// bytesOf is about what claims take in memory.
func bytesOf(all ...executor.Claim) (n int64) {
	for i := range all {
		n += all[i].Size()
	}
	return n
}

// replyMemory counts the bytes of requests on several streams. It is safe for concurrent use.
type replyMemory struct {
	most    int64
	used    atomic.Int64
	waiting atomic.Int32

	mu   sync.Mutex
	room sync.Cond
}

func newReplyMemory(most int64) *replyMemory {
	m := &replyMemory{most: most}
	m.room.L = &m.mu
	return m
}

// take waits for room for n bytes and takes it; over ends the wait. One request has room however
// large it is.
func (m *replyMemory) take(n int64, over func() bool) {
	for !m.tryTake(n) {
		m.mu.Lock()
		m.waiting.Add(1) // before the look that decides: see add
		if used := m.used.Load(); used != 0 && used+n > m.most && !over() {
			m.room.Wait()
		}
		m.waiting.Add(-1)
		m.mu.Unlock()
		if over() {
			m.used.Add(n)
			return
		}
	}
}

func (m *replyMemory) tryTake(n int64) bool {
	for {
		used := m.used.Load()
		if used != 0 && used+n > m.most {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// add counts n bytes more, or less.
func (m *replyMemory) add(n int64) {
	m.used.Add(n)
	if n < 0 {
		m.wake()
	}
}

// wake has those who wait look again.
func (m *replyMemory) wake() {
	if m.waiting.Load() > 0 {
		m.mu.Lock()
		m.room.Broadcast()
		m.mu.Unlock()
	}
}

// memoriesOf are those that count the requests of a stream: its token's, and that of all.
func (s *Server) memoriesOf(by *access) []*replyMemory {
	if by.tokens == nil {
		return []*replyMemory{s.memory}
	}
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	m := s.streams.memory[by.digest]
	if m == nil {
		if s.streams.memory == nil {
			s.streams.memory = make(map[[sha256.Size]byte]*replyMemory)
		}
		m = newReplyMemory(mostOfToken)
		s.streams.memory[by.digest] = m // of a token that is good: there are few
	}
	return []*replyMemory{m, s.memory}
}

// isBroken reports whether the stream is broken, for a reader that waits.
func (x *stream) isBroken() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken != nil
}

// holdLocked counts bytes of requests, more or less.
func (x *stream) holdLocked(n int64) {
	x.held += n
	for _, m := range x.memories {
		m.add(n)
	}
}
