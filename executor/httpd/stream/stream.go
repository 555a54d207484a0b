package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"salectl/api/streampb"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

const (
	// maxInFlight bounds the requests of a stream; with so many it is read no further.
	maxInFlight = 8192
	// maxUnsent bounds the bytes of messages beside answers; with more a stream is read no further.
	maxUnsent = 4 << 20
	// awayGrace is how long a notified client may still use a stream without a request in flight
	// after goAway.
	awayGrace = time.Second
	// tokenCheck is how often the token of a silent stream is checked.
	tokenCheck = time.Second
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// stream is one of a client or, if peer, of another process of the sale. Its states are those of the
// package comment.
type stream struct {
	config  *Config
	ctx     context.Context // of the HTTP request
	sale    Sale
	control *http.ResponseController
	peer    bool
	grant   access.Grant // of the HTTP request; it is only renewed

	mu       sync.Mutex // guards what follows
	room     sync.Cond  // for the reader: something was sent, or broken
	requests requests
	outbox   outbox
	away     bool
	late     bool
	over     bool
	gone     chan struct{} // closed when it is broken
	broken   error         // why nothing can be written; nil: it is not broken
	closed   bool          // control must not be used any more
	timer    timer
}

// requests are the requests of a stream that are in flight.
type requests struct {
	open     map[uint64]*inflight // by id; without those that are being sent
	spare    []*inflight          // to be used again
	count    int                  // of requests that have no response sent
	bytes    int64                // that these count for
	memories []*access.Memory     // that count them, too
}

// holdLocked counts bytes of requests, more or less.
func (requests *requests) holdLocked(n int64) {
	requests.bytes += n
	for _, m := range requests.memories {
		m.Add(n)
	}
}

// timer calls stream.expire. Its times are monotonic, or 0.
type timer struct {
	*time.Timer
	due     time.Duration // when it fires
	writing time.Duration // since when the writer has been writing
}

func newStream(config *Config, w http.ResponseWriter, r *http.Request, sale Sale, grant access.Grant, peer bool) *stream {
	s := &stream{
		config: config, ctx: r.Context(), sale: sale, control: http.NewResponseController(w),
		peer: peer, grant: grant, gone: make(chan struct{}), requests: requests{open: make(map[uint64]*inflight)},
	}
	s.outbox.ready.L, s.room.L = &s.mu, &s.mu
	return s
}

// start starts the timer.
func (stream *stream) start() {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.timer.Timer = time.AfterFunc(time.Hour, stream.expire)
	stream.checkTokenLocked(stream.config.Clock().Mono)
}

// end makes the stream over: nothing more is read. broken is why nothing can be written any more, nil
// if it can.
func (stream *stream) end(broken error) {
	stream.mu.Lock()
	stream.over = true
	if stream.broken == nil && broken != nil {
		stream.broken = broken
		close(stream.gone)
	}
	var cancels []func()
	if stream.broken != nil {
		for _, r := range stream.requests.open {
			if !r.answered && r.cancel != nil {
				cancels = append(cancels, r.cancel)
			}
		}
		if !stream.closed { // reading and writing fail at once
			_ = stream.control.SetReadDeadline(past)
			_ = stream.control.SetWriteDeadline(past)
		}
	}
	stream.outbox.ready.Signal()
	stream.room.Broadcast()
	stream.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

// close is called when the HTTP request ends.
func (stream *stream) close() {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.closed = true
	stream.timer.Stop()
}

// goAway notifies the client that the server stops. After a while the stream ends when no request is
// in flight. A peer does not end its stream: what is not answered by then it sends to the new
// owner of the shard.
func (stream *stream) goAway() {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.away || stream.over {
		return
	}
	stream.away = true
	stream.outbox.sendLocked(&streampb.Reply{Kind: &streampb.Reply_GoingAway{GoingAway: &streampb.GoingAway{}}})
	time.AfterFunc(min(awayGrace, stream.config.DrainTimeout/2), func() {
		stream.mu.Lock()
		defer stream.mu.Unlock()
		stream.late = true
		stream.leaveLocked()
	})
}

// leaveLocked ends reading if it is late and no request is in flight.
func (stream *stream) leaveLocked() {
	if stream.late && !stream.over && !stream.closed && stream.requests.count == 0 {
		_ = stream.control.SetReadDeadline(past)
	}
}

// expire checks the token and ends what takes too long: requests, and writes to a client that reads
// nothing.
func (stream *stream) expire() {
	stream.mu.Lock()
	if stream.closed {
		stream.mu.Unlock()
		return
	}
	now := stream.config.Clock().Mono
	stream.timer.due = 0
	stream.checkTokenLocked(now)
	if writing := stream.timer.writing; writing != 0 {
		if now >= writing+stream.config.WriteTimeout {
			_ = stream.control.SetWriteDeadline(past)
		}
		stream.wakeLocked(now, max(writing+stream.config.WriteTimeout, now+time.Second))
	}
	var cancels []func()
	for _, r := range stream.requests.open {
		switch {
		case r.answered:
		case r.until <= now && r.cancel != nil:
			cancels = append(cancels, r.cancel)
		default:
			stream.wakeLocked(now, max(r.until, now+time.Millisecond))
		}
	}
	stream.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}

// wakeLocked has expire called at a time or before.
func (stream *stream) wakeLocked(now, at time.Duration) {
	if stream.timer.due == 0 || at < stream.timer.due {
		stream.timer.due = at
		stream.timer.Reset(at - now)
	}
}

// checkTokenLocked ends reading when the token of a client is no longer valid, and checks again later.
// Messages that come are checked one by one; so are those of a peer, which come all the time.
func (stream *stream) checkTokenLocked(now time.Duration) {
	if _, ok := stream.grant.Token(); !ok || stream.peer {
		return
	}
	stream.wakeLocked(now, now+tokenCheck)
	grant := stream.grant.Renewed()
	if missing := grant.May(access.AllRights); missing != nil && !stream.over && !stream.late {
		stream.late = true
		stream.refuseLocked(0, missing)
		_ = stream.control.SetReadDeadline(past)
	}
}

// receive passes on messages until there are no more or take returns false. It returns nil if the stream
// has ended as it should, also since the server shuts down; io.ErrUnexpectedEOF if it has ended within a
// message; and else why it is broken.
func (stream *stream) receive(body io.Reader, take func(message []byte) bool) error {
	in := streampb.NewReader(body, streampb.MaxMessage)
	for {
		message, err := in.Next()
		switch {
		case err == nil:
			if !take(message) {
				return nil
			}
			continue
		case errors.Is(err, streampb.ErrTooLong):
			stream.refuse(0, wire.BadRequest(http.StatusRequestEntityTooLarge, err.Error()))
		case errors.Is(err, streampb.ErrNoLength):
			stream.refuse(0, wire.Malformed("%v", err))
		case err != io.EOF && !stream.hasLeft(err):
			return err
		}
		return nil
	}
}

// hasLeft reports whether reading has ended because the server shuts down.
func (stream *stream) hasLeft(err error) bool {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	return stream.late && errors.Is(err, os.ErrDeadlineExceeded)
}

// refuse sends a problem of a request, or with id 0 of the stream.
func (stream *stream) refuse(id uint64, p *wire.Problem) {
	stream.awaitRoom() // the client may send faults and read nothing
	stream.mu.Lock()
	defer stream.mu.Unlock()
	stream.refuseLocked(id, p)
}

// refuseLocked is refuse without a wait. All problems are sent here.
func (stream *stream) refuseLocked(id uint64, p *wire.Problem) {
	stream.outbox.sendLocked(&streampb.Reply{Id: id, Kind: &streampb.Reply_Problem{Problem: &streampb.Problem{
		Status: uint32(p.Status), Title: p.Title, Detail: p.Detail, Outcome: string(p.Outcome),
	}}})
}

// awaitRoom waits while too much waits to be sent.
func (stream *stream) awaitRoom() {
	stream.mu.Lock()
	defer stream.mu.Unlock()
	for len(stream.outbox.messages) > maxUnsent && stream.broken == nil {
		stream.room.Wait()
	}
}
