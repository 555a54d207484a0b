package httpd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// A stream is one request of HTTP/2 that lasts: many requests to a sale come in its body,
// and their answers go out as they come. Two goroutines serve it: that of the handler reads
// (streamin.go), another one writes what has come together (streamout.go). A request that
// waits for its answer has none; one timer ends those whose time is over.

// Bounds of streams.
const (
	// MostStreams is how many streams of clients may be open at a time, and how many of other
	// processes of the sales besides, where Config does not say.
	MostStreams = 1000
	// mostUnder bounds the requests of a stream that have no answer sent; with so many the
	// server reads no further.
	mostUnder = 8192
	// mostUnsent is how many bytes may wait to be sent before no more is read.
	mostUnsent = 4 << 20
	// goingGrace is how long a stream that has nothing under way may still be used by its
	// client after it was told that the server goes away.
	goingGrace = time.Second
)

// stream is one of them.
type stream struct {
	server  *Server
	ctx     context.Context // of the request
	sale    *sale
	form    form
	control *http.ResponseController
	out     io.Writer
	peer    bool // another process of the sale has made it

	memories []*access.Memory // that count its requests beside others

	now time.Duration // of the last read; the reader's
	by  access.Grant  // the reader's

	mu     sync.Mutex // guards what follows
	news   sync.Cond  // for the writer
	room   sync.Cond  // for the reader: something was sent, or the stream is broken
	spare  []*under   // to be used again
	open   map[uint64]*under
	ready  []*under // answered and not written
	extra  []byte   // other messages, to be written
	count  int      // requests that have no answer sent
	held   int64    // bytes that they count for
	over   bool     // no more will be read: what is under way is answered
	going  bool     // the client was told that the server goes away
	late   bool     // and has had the time to end the stream
	broken error    // why nothing can be sent any more
	closed bool     // nobody may use control any more

	timer *time.Timer
	next  time.Duration // monotonic: when the timer is due; 0: it is not
	wrote time.Duration // monotonic: since when the writer has been writing; 0: it is not
}

// postStream answers POST /v1/sales/{sale}/stream.
func (s *Server) postStream(w http.ResponseWriter, r *http.Request, name string, by access.Grant) {
	s.withSale(w, r, http.MethodPost, name, func(sale *sale) {
		form, f := formOf(r.Header["Content-Type"])
		peer := r.Header[api.PeerHeader] != nil
		switch _, binary := form.(*protobufForm); {
		case f != nil:
			wire.WriteBadRequest(w, f)
		case peer && (s.peers == nil || !binary):
			wire.WriteForbidden(w, "This server takes no streams of other processes of the sale here.")
		case s.draining.Load():
			wire.WriteOutcome(w, api.Draining)
		default:
			s.stream(w, r, sale, form, by, peer)
		}
	})
}

// writeWantsHTTP2 answers a request for a stream by HTTP/1.1, whose body may have no end.
func writeWantsHTTP2(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	wire.NewProblem(http.StatusHTTPVersionNotSupported, "A stream needs HTTP/2. Without TLS, begin the connection with it (prior knowledge); a proxy before the server must speak it to the server, too. "+
		"Claims one by one go to /v1/sales/{sale}/claims over any version.").Write(w)
}

// formOf returns the form of messages that the client has chosen.
func formOf(values []string) (form, *wire.Fault) {
	if len(values) == 1 {
		switch media, _, _ := mime.ParseMediaType(values[0]); media {
		case api.TypeStream:
			return new(protobufForm), nil
		case api.TypeLines:
			return new(linesForm), nil
		}
	}
	return nil, &wire.Fault{Status: http.StatusUnsupportedMediaType, Detail: "Content-Type: must be " + api.TypeStream + " or " + api.TypeLines + ", given once"}
}

// stream serves a stream to its end.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, sale *sale, form form, by access.Grant, peer bool) {
	x := &stream{
		server: s, ctx: r.Context(), sale: sale, form: form, control: http.NewResponseController(w), out: w, by: by, peer: peer,
		open: make(map[uint64]*under),
	}
	x.news.L, x.room.L = &x.mu, &x.mu
	x.memories = s.memoriesOf(&by)
	if !s.streams.add(x, s.mostStreams) {
		p := wire.ProblemOf(api.Overloaded)
		p.Detail = fmt.Sprintf("There are %d streams already, which is as many as this server has. Use one for many requests.", s.mostStreams)
		p.Write(w)
		return
	}
	defer s.streams.remove(x)
	sale.metrics.streams.Inc()
	defer sale.metrics.streams.Dec()
	// It lasts for longer than a request may; see timer.
	if err := errors.Join(x.control.SetReadDeadline(time.Time{}), x.control.SetWriteDeadline(time.Time{})); err != nil {
		wire.WriteOutcome(w, api.Overloaded)
		return
	}
	x.timer = time.AfterFunc(time.Hour, x.due)
	x.mu.Lock()
	x.watchTokenLocked(s.now().Mono)
	x.mu.Unlock()
	defer x.close()
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{form.media()}, wire.NoStore
	if s.address != "" {
		h[api.AddressHeader] = []string{s.address}
	}
	w.WriteHeader(http.StatusOK)
	if x.control.Flush() != nil {
		return
	}
	written := make(chan struct{})
	go func() { defer close(written); x.write() }()
	if s.ending.Load() || s.sales()[sale.name] != sale { // since the streams were told
		x.goAway()
	}
	if peer {
		x.link(r.Body)
	} else {
		x.read(r.Body)
	}
	<-written
}

// tokenCheck is how often the token of a stream is checked on which nothing comes.
const tokenCheck = time.Second

// watchTokenLocked has due called to check the token of a client. A peer shows its newest token
// by the messages that it sends all the time, each of which is checked.
func (x *stream) watchTokenLocked(now time.Duration) {
	if _, ok := x.by.Token(); ok && !x.peer {
		x.dueLocked(now, now+tokenCheck)
	}
}

// revokeLocked ends a stream whose token permits nothing any more: no more is read, and what
// is under way is answered. A reader that has a message finds out by itself.
func (x *stream) revokeLocked(missing *wire.Problem) {
	if x.over || x.late {
		return
	}
	x.late = true
	x.extra = x.form.problem(x.extra, 0, missing)
	x.news.Signal()
	_ = x.control.SetReadDeadline(passed) // which ends the read
}

// end says that there will be no more requests. broken says why nothing can be sent any
// more; nil: it can, and what is under way is answered.
func (x *stream) end(broken error) {
	x.mu.Lock()
	x.over = true
	if x.broken == nil {
		x.broken = broken
	}
	var ups []func()
	if x.broken != nil {
		for _, u := range x.open {
			if !u.there && u.giveUp != nil {
				ups = append(ups, u.giveUp)
			}
		}
	}
	x.cutLocked()
	x.news.Signal()
	x.room.Broadcast()
	x.mu.Unlock()
	for _, m := range x.memories {
		m.Wake()
	}
	for _, giveUp := range ups {
		giveUp()
	}
}

// cutLocked has reading and writing end, if the stream is broken.
func (x *stream) cutLocked() {
	if x.broken != nil && !x.closed {
		_ = x.control.SetReadDeadline(passed) // they fail once it is over anyway
		_ = x.control.SetWriteDeadline(passed)
	}
}

// passed is a deadline that has.
var passed = time.Unix(1, 0)

// close says that the request is over.
func (x *stream) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.timer.Stop()
}

// goAway tells the client that the server takes no more requests.
func (x *stream) goAway() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.going || x.over {
		return
	}
	x.going = true
	x.extra = x.form.goingAway(x.extra)
	x.news.Signal()
	time.AfterFunc(x.grace(), x.gone)
}

// grace is how long the client has to end the stream. Another process of the sale ends none:
// what this one has not answered by then it asks for again, wherever the shard is.
func (x *stream) grace() time.Duration {
	return min(goingGrace, x.server.drainTimeout/2)
}

// gone ends a stream whose client has not ended it, once nothing is under way.
func (x *stream) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.late = true
	x.leaveLocked()
}

// leaveLocked has the reader read no further when nothing is under way and the server has
// gone away for long enough.
func (x *stream) leaveLocked() {
	if x.late && !x.over && !x.closed && x.count == 0 {
		_ = x.control.SetReadDeadline(passed) // a stream that is over needs none
	}
}

// left reports whether reading has ended because the server goes away.
func (x *stream) left(err error) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.late && errors.Is(err, os.ErrDeadlineExceeded)
}

// due is called when a request's time may be over, or the client reads nothing for too long.
func (x *stream) due() {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	now := x.server.now().Mono
	var ups []func()
	x.next = 0
	x.watchTokenLocked(now)
	if !x.peer {
		by := x.by.Renewed()
		if missing := by.May(access.MayAll); missing != nil {
			x.revokeLocked(missing)
		}
	}
	if x.wrote != 0 {
		if now >= x.wrote+x.server.stall {
			_ = x.control.SetWriteDeadline(passed) // which ends the write
		}
		x.dueLocked(now, max(x.wrote+x.server.stall, now+time.Second))
	}
	for _, u := range x.open {
		switch {
		case u.there:
		case u.until <= now && u.giveUp != nil:
			ups = append(ups, u.giveUp)
		default:
			x.dueLocked(now, max(u.until, now+time.Millisecond))
		}
	}
	x.mu.Unlock()
	for _, giveUp := range ups {
		giveUp()
	}
}

// dueLocked has due called at an instant, or before.
func (x *stream) dueLocked(now, at time.Duration) {
	if x.next == 0 || at < x.next {
		x.next = at
		x.timer.Reset(at - now)
	}
}

// streams are those of a server.
type streams struct {
	mu    sync.Mutex
	open  map[*stream]struct{}
	peers int // of open

	memory map[[sha256.Size]byte]*access.Memory // of requests, by the digest of their token
}

func (s *streams) add(x *stream, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := len(s.open) - s.peers
	if x.peer {
		has = s.peers
	}
	if has >= most {
		return false
	}
	if x.peer {
		s.peers++
	}
	if s.open == nil {
		s.open = make(map[*stream]struct{})
	}
	s.open[x] = struct{}{}
	return true
}

func (s *streams) remove(x *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x)
	if x.peer {
		s.peers--
	}
}

// goAway tells the clients of a sale, or with nil of all, that the server goes away.
func (s *streams) goAway(of *sale) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.open {
		if of == nil || x.sale == of {
			x.goAway()
		}
	}
}

// under is one request of a stream that is under way.
type under struct {
	stream *stream
	done   func(executor.Answer) // answered, bound once

	id     uint64
	size   int64 // bytes that it counts for
	kind   kind
	how    api.How // of a settlement
	user   string  // of a claim
	shard  int     // of a settlement's claim
	began  time.Duration
	until  time.Duration
	giveUp func() // nil: not yet
	there  bool   // the answer is
	answer executor.Answer

	claims  []executor.Claim // of a look-up
	next    string           // beside claims
	outcome api.Outcome
}

// kind is what a request asks for.
type kind int

const (
	claims kind = iota
	settles
	looksAtUser
	looksAtClaim
)
