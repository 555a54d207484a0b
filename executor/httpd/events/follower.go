package events

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// Why a follower ends, beside the errors of package feed.
var (
	errOver    = errors.New("the client was told the end of the sale before")
	errHead    = errors.New("only the head was asked for")
	errLate    = errors.New("the ledger has not answered in time")
	errLeaving = errors.New("the server goes down: go on at another process of the sale")
	errNoRight = errors.New("the token does not permit to follow any more")
)

// follower is one request that lasts.
type follower struct {
	server  *Server
	sale    *Sale
	request *http.Request
	out     http.ResponseWriter
	control *http.ResponseController
	end     context.CancelCauseFunc
	lines   *bufio.Writer
	encoder *json.Encoder

	mu      sync.Mutex // held while something is sent; guards what follows
	grant   access.Grant
	begun   bool          // the status was sent
	sent    time.Duration // monotonic: when something was sent last
	trouble error         // why the ledger could not be read when it was tried last

	lag lagMeter

	writing sync.Mutex // guards what follows, and the deadline of writes
	until   time.Time  // when the server goes down; zero: it does not
	closed  bool
}

// beat sends a comment where nothing else was sent. It ends a follower whose token is no longer valid, and
// one for which the ledger does not answer.
func (f *follower) beat(ctx context.Context) {
	began := f.server.config.Clock().Mono
	ticks := time.NewTicker(min(time.Second, f.server.config.Heartbeat))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		f.mu.Lock()
		now := f.server.config.Clock().Mono
		switch {
		case !f.begun && now-began >= f.server.config.BeginTimeout:
			f.end(errLate)
		case !f.begun:
		case f.grant.May(access.MayFollow) != nil:
			f.end(errNoRight)
		case now-f.sent >= f.server.config.Heartbeat:
			if f.comment("") != nil {
				f.end(nil)
			}
		}
		f.mu.Unlock()
	}
}

// take sends a batch.
func (f *follower) take(b *feed.Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun {
		if b.Ended && len(b.Events) == 1 {
			return errOver
		}
		f.begin()
		if f.request.Method == http.MethodHead {
			return errHead
		}
	}
	read := f.server.config.Clock().Wall
	if b.TimeUs != 0 {
		read = time.UnixMicro(b.TimeUs)
	}
	f.lag.behind(read)
	for i := range b.Events {
		if err := f.event(&b.Events[i]); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.lag.caughtUp(read, f.server.config.Clock().Wall)
	return nil
}

// begin sends the status and header of a response of events.
func (f *follower) begin() {
	f.begun = true
	h := f.out.Header()
	h["Content-Type"] = []string{api.TypeEvents}
	h["Cache-Control"] = wire.NoStore
	h.Set("X-Accel-Buffering", "no") // a proxy is to pass on each event as it comes
	f.out.WriteHeader(http.StatusOK)
}

// event writes one event. Only one of type resolved has an id: a client that went on after another one
// would receive events that were sent beside it again, or not at all.
func (f *follower) event(e *feed.Event) error {
	if e.Type == feed.TypeResolved {
		f.lines.WriteString("id: " + e.ID + "\n")
	}
	f.lines.WriteString("event: " + e.Type + "\ndata: ")
	if err := f.encoder.Encode(e); err != nil { // which ends in a line break
		return err
	}
	return f.lines.WriteByte('\n')
}

// comment sends a line that clients ignore.
func (f *follower) comment(text string) error {
	f.lines.WriteString(strings.TrimSpace(": "+text) + "\n\n")
	return f.flush()
}

func (f *follower) flush() error {
	if err := f.lines.Flush(); err != nil {
		return err
	}
	if err := f.control.Flush(); err != nil {
		return err
	}
	f.limit(false)
	f.sent = f.server.config.Clock().Mono
	return nil
}

// troubled notes that the ledger cannot be read or, with nil, that it can be read again, and tells the
// client.
func (f *follower) troubled(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
	text := "the ledger can be read again"
	if now := f.server.config.Clock().Wall; err != nil {
		text = "the ledger cannot be read, which is tried again"
		f.lag.behind(now)
	} else {
		f.lag.caughtUp(now, now)
	}
	if f.begun && f.comment(text) != nil {
		f.end(nil)
	}
}

// ended says why the feed has ended. Errors of the store have addresses in them and only go to the log.
func (f *follower) ended(err error, reader *feed.Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.close()
	w, log := f.out, f.server.config.Log
	gone := errors.Is(err, feed.ErrGone) && !errors.Is(err, ledger.ErrGone)
	known := err == nil || gone || f.request.Context().Err() != nil || errors.Is(err, feed.ErrForeign) || errors.Is(err, ledger.ErrGone) ||
		errors.Is(err, errOver) || errors.Is(err, errHead) || errors.Is(err, errLeaving) || errors.Is(err, errNoRight) || errors.Is(err, context.Canceled)
	if errors.Is(err, errLate) && f.trouble != nil {
		err = fmt.Errorf("%w: %w", err, f.trouble)
	}
	if !known && !f.begun {
		log.Warn("a feed cannot begin", append(wire.LogAttrs(w, f.request), "sale", f.sale.name, "why", err)...)
	} else if !known {
		log.Debug("a feed has ended", append(wire.LogAttrs(w, f.request), "sale", f.sale.name, "why", err)...)
	}
	if f.begun {
		f.farewell(err, gone)
		return
	}
	switch {
	case f.request.Context().Err() != nil: // nobody is there
	case errors.Is(err, errOver):
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errLeaving):
		wire.WriteOutcome(w, api.Draining)
	case errors.Is(err, errNoRight):
		f.grant.May(access.MayFollow).Write(w)
	case errors.Is(err, ledger.ErrGone):
		wire.WriteOutcome(w, api.NoSuchSale)
	case gone:
		p := wire.NewProblem(http.StatusGone, err.Error()+".")
		p.ExportDigest = hex.EncodeToString(reader.ExportDigest())
		p.Write(w)
	case errors.Is(err, feed.ErrForeign):
		wire.NewProblem(http.StatusConflict, err.Error()+". Begin without a position, and drop what was told before it.").Write(w)
	default:
		wire.WriteUnavailable(w, time.Second, "The ledger cannot be read at the moment.")
	}
}

// farewell tells a client that has received events why there are no more.
func (f *follower) farewell(err error, gone bool) {
	text := ""
	switch {
	case gone, errors.Is(err, errLeaving), errors.Is(err, errNoRight):
		text = err.Error()
	case err == nil, errors.Is(err, errHead), f.request.Context().Err() != nil:
		return
	default:
		text = "the feed cannot go on here"
	}
	_ = f.comment(text) // the client may be gone
}

// bounded is what a follower writes to. Each write, of at most a buffer, has a deadline, so that a client
// that has vanished holds nothing for longer.
type bounded struct{ *follower }

func (b bounded) Write(p []byte) (int, error) {
	b.limit(true)
	return b.out.Write(p)
}

// limit sets the deadline of writes. While nothing is written there is none: HTTP/2 ends a stream whose
// deadline has passed, whether anything waits to be written or not.
func (f *follower) limit(writes bool) {
	f.writing.Lock()
	defer f.writing.Unlock()
	until := f.until
	if writes {
		if until = time.Now().Add(f.server.config.WriteTimeout); !f.until.IsZero() && f.until.Before(until) {
			until = f.until
		}
	}
	if !f.closed {
		_ = f.control.SetWriteDeadline(until)
	}
}

// leave ends a follower because the server goes down.
func (f *follower) leave() {
	f.writing.Lock()
	f.until = time.Now().Add(leavingGrace)
	f.writing.Unlock()
	f.limit(true)
	f.end(errLeaving)
}

// close is called when the request ends: others use the connection from then on.
func (f *follower) close() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.closed = true
}

// lagMeter knows how far a follower is behind the ledger.
type lagMeter struct {
	mu    sync.Mutex // guards what follows
	since time.Time  // the time of what was read and is not sent yet; zero: all is sent
	last  time.Duration
}

// behind notes that there is something to send that is as old as since.
func (l *lagMeter) behind(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || since.Before(l.since) {
		l.since = since
	}
}

// caughtUp notes that all is sent, the newest of it as old as newest.
func (l *lagMeter) caughtUp(newest, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.last = time.Time{}, max(0, now.Sub(newest))
}

// lag returns how old the newest was that was sent when it was sent or, if something waits to be sent, how
// old that is.
func (l *lagMeter) lag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.since.IsZero() {
		return max(0, now.Sub(l.since))
	}
	return l.last
}
