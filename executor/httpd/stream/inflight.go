package stream

import (
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
	"salectl/executor/request"
)

// inflight is a request of a client whose response is not sent yet. The stream's mutex guards cancel
// and answered; the answer belongs to the writer once it is there.
type inflight struct {
	stream *stream
	done   func(executor.Answer) // complete, bound once

	id    uint64
	kind  kind
	size  int64   // bytes that it counts for
	how   api.How // of a settlement
	user  string  // of a claim, or of a lookup of a user
	shard int     // of the claim that is settled or looked up
	began time.Duration
	until time.Duration

	cancel   func() // ends it early; nil: it has not begun
	answered bool

	answer executor.Answer
}

// kind is what a request asks for.
type kind int

const (
	claim kind = iota
	settlement
	userLookup
	claimLookup
)

// settled reports whether a claim was accepted, or settled as requested.
func (request *inflight) settled() bool {
	return request.kind == claim && request.answer.Accepted() || request.kind == settlement && request.answer.Outcome == request.how.Done()
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
func likelySize(r *streampb.Request, k kind) int64 {
	switch k {
	case claim:
		return 512 + bytesOfUnit*max(r.GetClaim().GetQuantity(), int64(len(r.GetClaim().GetNames())), 0)
	case userLookup:
		return bytesOfUser
	case claimLookup:
		return bytesOfClaim + (16+api.MaxPayment)*int64(min(r.GetFind().GetLimit(), api.MaxPage))
	}
	return bytesOfClaim
}

// sizeOf returns about what claims take in memory.
func sizeOf(claims ...executor.Claim) (n int64) {
	for i := range claims {
		n += claims[i].Size()
	}
	return n
}
