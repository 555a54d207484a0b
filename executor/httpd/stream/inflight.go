package stream

import (
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/request"
)

// inflight is a request of a client whose response is not sent yet. The stream's mutex guards cancel
// and answered; the answer belongs to the writer once it is there.
type inflight struct {
	stream *stream
	done   func(executor.Answer) // complete, bound once

	id      uint64
	content executor.Request
	size    int64 // bytes that it counts for
	began   time.Duration
	until   time.Duration

	cancel   func() // ends it early; nil: it has not begun
	answered bool

	answer executor.Answer
}

// fulfilled reports whether a claim was accepted, or settled as requested.
func (request *inflight) fulfilled() bool {
	if settle := request.content.Settle; settle != nil {
		return request.answer.Outcome == settle.How.Done()
	}
	return request.content.IsClaim() && request.answer.Accepted()
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
	s.outbox.answers = append(s.outbox.answers, request)
	s.outbox.ready.Signal()
}

// Responses that are not sent yet take memory. So a request counts for the likely size of its response
// until that is sent, and for the actual size as soon as it is known. A stream is read no further while
// its requests, those of its token on all streams, or those of all streams count for too much.
const (
	maxBytes      = 8 << 20 // of a stream
	maxTokenBytes = 64 << 20
	maxTotalBytes = 256 << 20
)

// What a response takes in memory.
const (
	bytesOfUnit  = 24
	bytesOfClaim = 32 << 10 // the largest, without its units
	bytesOfUser  = request.PageBytes + 1<<10
)

// likelySize returns about what the response to a request will take in memory.
func likelySize(r *executor.Request) int64 {
	switch q := r.Query; {
	case r.IsClaim():
		return 512 + bytesOfUnit*max(r.Quantity, int64(len(r.Names)), 0)
	case q == nil:
		return bytesOfClaim
	case q.User != "":
		return bytesOfUser
	default:
		return bytesOfClaim + (16+api.MaxPayment)*int64(min(max(q.Page.Limit, 0), api.MaxPage))
	}
}

// sizeOf returns about what claims take in memory.
func sizeOf(claims ...executor.Claim) (n int64) {
	for i := range claims {
		n += claims[i].Size()
	}
	return n
}
