package httpd

import (
	"crypto/sha256"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/httpd/access"
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

// memoriesOf are those that count the requests of a stream: its token's, and that of all.
func (s *Server) memoriesOf(by *access.Grant) []*access.Memory {
	token, ok := by.Token()
	if !ok {
		return []*access.Memory{s.memory}
	}
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	m := s.streams.memory[token]
	if m == nil {
		if s.streams.memory == nil {
			s.streams.memory = make(map[[sha256.Size]byte]*access.Memory)
		}
		m = access.NewMemory(mostOfToken)
		s.streams.memory[token] = m // of a token that is good: there are few
	}
	return []*access.Memory{m, s.memory}
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
		m.Add(n)
	}
}
