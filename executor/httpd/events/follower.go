package events

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// Causes of the end of a follower, in addition to the errors of package feed.
var (
	errOver    = errors.New("the client already had the end of the sale")
	errHead    = errors.New("only the headers were requested")
	errLate    = errors.New("the ledger has not answered in time")
	errLeaving = errors.New("the server shuts down: continue at another process of the sale")
	errNoRight = errors.New("the token has lost the right follow")
)

// follower is one request for a feed.
type follower struct {
	server  *Server
	sale    *Sale
	request *http.Request
	out     http.ResponseWriter
	control *http.ResponseController
	end     context.CancelCauseFunc
	lines   *bufio.Writer
	encoder *json.Encoder

	mu      sync.Mutex // held during writes; guards the fields below
	grant   access.Grant
	begun   bool          // the status has been sent
	sent    time.Duration // monotonic: time of the last write
	trouble error         // error of the last attempt to read the ledger; nil: none

	writing sync.Mutex // guards the fields below and the write deadline
	until   time.Time  // deadline of writes while the server shuts down; zero: it does not
	closed  bool
	unsent  time.Time // time of the oldest unsent data; zero: all is sent
	lastLag time.Duration
}

// beat sends a comment if nothing else is sent for Heartbeat. It ends a follower whose token is no
// longer valid, or for which the ledger does not answer in time.
func (follower *follower) beat(ctx context.Context) {
	began := follower.server.config.Clock().Mono
	ticks := time.NewTicker(min(time.Second, follower.server.config.Heartbeat))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		follower.mu.Lock()
		now := follower.server.config.Clock().Mono
		switch {
		case !follower.begun && now-began >= follower.server.config.BeginTimeout:
			follower.end(errLate)
		case !follower.begun:
		case follower.grant.May(access.MayFollow) != nil:
			follower.end(errNoRight)
		case now-follower.sent >= follower.server.config.Heartbeat:
			if follower.comment("") != nil {
				follower.end(nil)
			}
		}
		follower.mu.Unlock()
	}
}

// take sends a batch.
func (follower *follower) take(b *feed.Batch) error {
	follower.mu.Lock()
	defer follower.mu.Unlock()
	if !follower.begun {
		if b.Ended && len(b.Events) == 1 {
			return errOver
		}
		follower.begin()
		if follower.request.Method == http.MethodHead {
			return errHead
		}
	}
	read := follower.server.config.Clock().Wall
	if b.TimeUs != 0 {
		read = time.UnixMicro(b.TimeUs)
	}
	follower.behind(read)
	for i := range b.Events {
		if err := follower.event(&b.Events[i]); err != nil {
			return err
		}
	}
	if err := follower.flush(); err != nil {
		return err
	}
	follower.caughtUp(read, follower.server.config.Clock().Wall)
	return nil
}

// begin sends the status and header of an event stream.
func (follower *follower) begin() {
	follower.begun = true
	h := follower.out.Header()
	h["Content-Type"] = []string{api.TypeEvents}
	h["Cache-Control"] = wire.NoStore
	h.Set("X-Accel-Buffering", "no") // a proxy should forward each event at once
	follower.out.WriteHeader(http.StatusOK)
}

// event writes one event. Only events of type resolved have an id. A client that resumed after any
// other event would receive adjacent events again, or not at all.
func (follower *follower) event(e *feed.Event) error {
	if e.Type == feed.TypeResolved {
		follower.lines.WriteString("id: " + e.ID + "\n")
	}
	follower.lines.WriteString("event: " + e.Type + "\ndata: ")
	if err := follower.encoder.Encode(e); err != nil { // it ends in a line break
		return err
	}
	return follower.lines.WriteByte('\n')
}

// comment sends a line that clients ignore.
func (follower *follower) comment(text string) error {
	follower.lines.WriteString(strings.TrimSpace(": "+text) + "\n\n")
	return follower.flush()
}

func (follower *follower) flush() error {
	if err := follower.lines.Flush(); err != nil {
		return err
	}
	if err := follower.control.Flush(); err != nil {
		return err
	}
	follower.limit(false)
	follower.sent = follower.server.config.Clock().Mono
	return nil
}

// troubled records that the ledger is unreadable or, with nil, readable again, and informs the
// client.
func (follower *follower) troubled(err error) {
	follower.mu.Lock()
	defer follower.mu.Unlock()
	follower.trouble = err
	text := "the ledger can be read again"
	if now := follower.server.config.Clock().Wall; err != nil {
		text = "the ledger cannot be read, retrying"
		follower.behind(now)
	} else {
		follower.caughtUp(now, now)
	}
	if follower.begun && follower.comment(text) != nil {
		follower.end(nil)
	}
}

// ended reports the end of the feed to the client: it returns the answer or, after the first event,
// writes a comment. Errors of the store contain addresses and are only logged.
func (follower *follower) ended(err error, reader *feed.Reader) (answer *wire.Problem) {
	follower.mu.Lock()
	defer follower.mu.Unlock()
	defer follower.close()
	comment := "the feed cannot continue here"
	switch {
	case err == nil, errors.Is(err, errHead), errors.Is(err, context.Canceled), follower.request.Context().Err() != nil:
		return nil // the client has all, or is gone
	case errors.Is(err, errOver):
		follower.out.WriteHeader(http.StatusNoContent)
		return nil
	case errors.Is(err, errLeaving):
		answer, comment = wire.ProblemOf(api.Draining), err.Error()
	case errors.Is(err, errNoRight):
		answer, comment = follower.grant.May(access.MayFollow), err.Error()
	case errors.Is(err, ledger.ErrGone):
		answer = wire.ProblemOf(api.NoSuchSale)
	case errors.Is(err, feed.ErrGone):
		answer, comment = wire.NewProblem(http.StatusGone, err.Error()+"."), err.Error()
		answer.ExportDigest = hex.EncodeToString(reader.ExportDigest())
	case errors.Is(err, feed.ErrForeign):
		answer = wire.NewProblem(http.StatusConflict, err.Error()+". Start without a position, and discard the events before it.")
	default:
		if errors.Is(err, errLate) && follower.trouble != nil {
			err = fmt.Errorf("%w: %w", err, follower.trouble)
		}
		level := slog.LevelWarn
		if follower.begun {
			level = slog.LevelDebug
		}
		attrs := append(wire.LogAttrs(follower.out, follower.request), "sale", follower.sale.name, "begun", follower.begun, "why", err)
		follower.server.config.Log.Log(context.Background(), level, "a feed has failed", attrs...)
		answer = wire.Unavailable(time.Second, "The ledger cannot be read at the moment.")
	}
	if follower.begun {
		_ = follower.comment(comment) // ignore the error: the client may be gone
		return nil
	}
	return answer
}

// bounded is the writer of a follower. Each write, of at most a buffer, has a deadline, so that a
// vanished client releases its resources.
type bounded struct{ *follower }

func (b bounded) Write(p []byte) (int, error) {
	b.limit(true)
	return b.out.Write(p)
}

// limit sets the write deadline. Between writes there is none: HTTP/2 ends a stream at its deadline
// even if no write is pending.
func (follower *follower) limit(writes bool) {
	follower.writing.Lock()
	defer follower.writing.Unlock()
	until := follower.until
	if writes {
		if until = time.Now().Add(follower.server.config.WriteTimeout); !follower.until.IsZero() && follower.until.Before(until) {
			until = follower.until
		}
	}
	if !follower.closed {
		_ = follower.control.SetWriteDeadline(until)
	}
}

// leave ends a follower because the server shuts down.
func (follower *follower) leave() {
	follower.writing.Lock()
	follower.until = time.Now().Add(leavingGrace)
	follower.writing.Unlock()
	follower.limit(true)
	follower.end(errLeaving)
}

// close stops changes of the deadline after the request: other requests use the connection.
func (follower *follower) close() {
	follower.writing.Lock()
	defer follower.writing.Unlock()
	follower.closed = true
}

// behind records that data with the time since waits to be sent.
func (follower *follower) behind(since time.Time) {
	follower.writing.Lock()
	defer follower.writing.Unlock()
	if follower.unsent.IsZero() || since.Before(follower.unsent) {
		follower.unsent = since
	}
}

// caughtUp records that all data is sent; newest is the time of the newest.
func (follower *follower) caughtUp(newest, now time.Time) {
	follower.writing.Lock()
	defer follower.writing.Unlock()
	follower.unsent, follower.lastLag = time.Time{}, max(0, now.Sub(newest))
}

// lag returns the age of the oldest data that waits to be sent. If none waits, it returns the age
// that the newest data had when it was sent.
func (follower *follower) lag(now time.Time) time.Duration {
	follower.writing.Lock()
	defer follower.writing.Unlock()
	if !follower.unsent.IsZero() {
		return max(0, now.Sub(follower.unsent))
	}
	return follower.lastLag
}
