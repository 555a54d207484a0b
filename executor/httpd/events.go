package httpd

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// A follower is one request that lasts: it is answered with what the ledger says of a sale, as it
// comes, as server-sent events. It reads the store, and asks neither the sale nor its owners for
// anything: any process that knows the store can answer it, also one that owns no shard, and no
// claim waits for it. What it reads next waits until its client has taken what was sent.

// Bounds of followers.
const (
	// MostFollowers is how many there may be at a time, where Config does not say.
	MostFollowers = 16
	// readsOfFollowers is how many reads of a sale's ledger all followers of it have under way
	// at a time: fewer than a store takes at once, so that there is always room for sellers.
	readsOfFollowers = 2
	// beginWithin is how long a follower waits for the first answer of the ledger.
	beginWithin = 10 * time.Second
	// heartbeat is how long nothing may be sent to a follower. Proxies cut connections on
	// which nothing comes, most of them after 60 seconds.
	heartbeat = 10 * time.Second
	// leavingGrace is how long a follower has to take what is being sent when the server goes
	// down.
	leavingGrace = time.Second
)

// Followed is a sale whose ledger can be followed. An executor.Executor is one.
type Followed interface {
	Logs() ledger.Logs
}

// The reasons for which a follower ends, beside those of package feed.
var (
	errOver    = errors.New("the client was told the end of the sale before")
	errHead    = errors.New("only the head was asked for")
	errLate    = errors.New("the ledger has not answered in time")
	errLeaving = errors.New("the server goes down: go on at another process of the sale")
	errNoRight = errors.New("the token does not permit to follow any more")
)

// follower is one of them.
type follower struct {
	server  *Server
	sale    *sale
	request *http.Request
	out     http.ResponseWriter
	control *http.ResponseController
	end     context.CancelCauseFunc
	lines   *bufio.Writer
	encoder *json.Encoder

	mu      sync.Mutex // held while something is sent; guards what follows
	by      access.Grant
	begun   bool          // the status was sent
	sent    time.Duration // monotonic: when something was sent last
	trouble error         // why the ledger could not be read when it was tried last

	lagging sync.Mutex // guards what follows, for whoever asks for metrics
	since   time.Time  // what was read and is not sent yet is as old; zero: all is sent
	lag     time.Duration

	writing sync.Mutex // guards what follows, and the deadline of writes
	until   time.Time  // when the server goes down; zero: it does not
	closed  bool
}

// getEvents answers GET /v1/sales/{sale}/events.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, name string, by access.Grant) {
	s.withSale(w, r, http.MethodGet, name, func(sale *sale) {
		c, f := feedOf(name, r)
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case sale.logs == nil:
			wire.WriteNoSuchPath(w)
		case site != "" && site != "same-origin" && site != "none":
			wire.WriteForbidden(w, "Web pages of other sites may not do this.")
		case f != nil:
			wire.WriteBadRequest(w, f)
		case s.leaving.Load():
			wire.WriteOutcome(w, api.Draining)
		default:
			s.follow(w, r, sale, c, by)
		}
	})
}

// feedOf is what a request wants to be told.
func feedOf(sale string, r *http.Request) (c feed.Config, _ *wire.Fault) {
	c.Sale = sale
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return c, wire.Malformed("the query: %v", err)
	}
	for name, values := range query {
		switch {
		case name != "from" && name != "commits":
			return c, wire.Malformed("%s: unknown parameter; there are from and commits", name)
		case len(values) != 1:
			return c, wire.Malformed("%s: given twice", name)
		case name == "commits" && values[0] != "true" && values[0] != "false":
			return c, wire.Malformed("commits: must be true or false")
		}
	}
	c.Commits = query.Get("commits") == "true"
	// The header is what a client adds that was told something by this very URL before.
	where, from, given := "Last-Event-ID", r.Header.Get("Last-Event-ID"), true
	if from == "" {
		where, from, given = "from", query.Get("from"), query.Has("from")
		if c.Now = from == "now"; c.Now || !given {
			return c, nil
		}
	}
	p, err := feed.ParsePosition(from)
	if err != nil {
		return c, wire.Malformed("%s: %v; send the id of an event as it came", where, err)
	}
	c.From = &p
	return c, nil
}

// follow serves a follower to its end.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, sale *sale, c feed.Config, by access.Grant) {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	f := &follower{
		server: s, sale: sale, request: r, out: w, control: http.NewResponseController(w), end: end, by: by, sent: s.now().Mono,
	}
	f.lines = bufio.NewWriterSize(bounded{f}, 1<<16)
	f.encoder = json.NewEncoder(f.lines)
	f.encoder.SetEscapeHTML(false)
	if !s.followers.add(f, s.mostFollowers) {
		wire.WriteUnavailable(w, 5*time.Second, fmt.Sprintf("This process has %d followers already, which is as many as it takes. Ask another process of the sale, or this one later.", s.mostFollowers))
		return
	}
	defer s.followers.remove(f)
	_ = f.control.SetReadDeadline(time.Time{}) // where there is none to set, none ends this
	reader := feed.New(c)
	beats := make(chan struct{})
	go func() { defer close(beats); f.beat(ctx) }()
	err := feed.Follow(ctx, feed.Shell{Logs: sale.logs, Clock: s.now, Trouble: f.troubled}, reader, f.take)
	end(nil)
	<-beats
	f.ended(err, reader)
}

// beat sends a comment where nothing else was sent, and ends a follower whose token is good no
// more, or who is told nothing for too long at the beginning.
func (f *follower) beat(ctx context.Context) {
	began := f.server.now().Mono
	ticks := time.NewTicker(min(time.Second, f.server.heartbeat))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		f.mu.Lock()
		now := f.server.now().Mono
		switch {
		case !f.begun && now-began >= f.server.beginWithin:
			f.end(errLate)
		case !f.begun:
		case f.by.May(access.MayFollow) != nil:
			f.end(errNoRight)
		case now-f.sent >= f.server.heartbeat:
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
	read := f.server.now().Wall
	if b.TimeUs != 0 {
		read = time.UnixMicro(b.TimeUs)
	}
	f.behind(read)
	for i := range b.Events {
		if err := f.event(&b.Events[i]); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.caughtUp(read)
	return nil
}

// begin says that events follow.
func (f *follower) begin() {
	f.begun = true
	h := f.out.Header()
	h["Content-Type"] = []string{api.TypeEvents}
	h["Cache-Control"] = wire.NoStore
	h.Set("X-Accel-Buffering", "no") // a proxy is to pass on each event as it comes
	f.out.WriteHeader(http.StatusOK)
}

// event writes one event. Only one of type resolved has an id: where a client goes on behind
// another it would be told of everything that was told beside it again, or not at all.
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

// comment sends a line that clients leave out.
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
	f.sent = f.server.now().Mono
	return nil
}

// troubled notes that the ledger cannot be read, or can be again, and tells a client of it.
func (f *follower) troubled(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
	text := "the ledger can be read again"
	if now := f.server.now().Wall; err != nil {
		text = "the ledger cannot be read, which is tried again"
		f.behind(now)
	} else {
		f.caughtUp(now)
	}
	if f.begun && f.comment(text) != nil {
		f.end(nil)
	}
}

// ended says why nothing more is told. Errors of the store, which have addresses in them, are
// for the log alone.
func (f *follower) ended(err error, reader *feed.Reader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.close()
	s, w := f.server, f.out
	gone := errors.Is(err, feed.ErrGone) && !errors.Is(err, ledger.ErrGone)
	known := err == nil || gone || f.request.Context().Err() != nil || errors.Is(err, feed.ErrForeign) || errors.Is(err, ledger.ErrGone) ||
		errors.Is(err, errOver) || errors.Is(err, errHead) || errors.Is(err, errLeaving) || errors.Is(err, errNoRight) || errors.Is(err, context.Canceled)
	if errors.Is(err, errLate) && f.trouble != nil {
		err = fmt.Errorf("%w: %w", err, f.trouble)
	}
	if !known && !f.begun {
		s.log.Warn("a feed cannot begin", append(wire.LogAttrs(w, f.request), "sale", f.sale.name, "why", err)...)
	} else if !known {
		s.log.Debug("a feed has ended", append(wire.LogAttrs(w, f.request), "sale", f.sale.name, "why", err)...)
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
		f.by.May(access.MayFollow).Write(w)
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

// farewell tells a client that was told events why there are no more.
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

// bounded is where a follower writes to. Each write, at most as much as the buffer before it
// has, must be taken in its time: a client that has gone without a word holds nothing for
// longer.
type bounded struct{ *follower }

func (b bounded) Write(p []byte) (int, error) {
	b.limit(true)
	return b.out.Write(p)
}

// limit gives what is written next its time. Where nothing is written there is none: HTTP/2 ends
// a stream whose time has passed, whether anything waits to be written or not.
func (f *follower) limit(writes bool) {
	f.writing.Lock()
	defer f.writing.Unlock()
	until := f.until
	if writes {
		if until = time.Now().Add(f.server.stall); !f.until.IsZero() && f.until.Before(until) {
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

// close says that the request is over: the connection is for others now.
func (f *follower) close() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.closed = true
}

// behind notes that there is something to be sent, from when it is.
func (f *follower) behind(since time.Time) {
	f.lagging.Lock()
	defer f.lagging.Unlock()
	if f.since.IsZero() || since.Before(f.since) {
		f.since = since
	}
}

// caughtUp notes that all is sent, the newest of which is of an instant.
func (f *follower) caughtUp(newest time.Time) {
	f.lagging.Lock()
	defer f.lagging.Unlock()
	f.since, f.lag = time.Time{}, max(0, f.server.now().Wall.Sub(newest))
}

// lags is how old the newest was that the client was told when it was sent; or how old is what
// it waits for.
func (f *follower) lags() time.Duration {
	f.lagging.Lock()
	defer f.lagging.Unlock()
	if !f.since.IsZero() {
		return max(0, f.server.now().Wall.Sub(f.since))
	}
	return f.lag
}

// followers are those of a server.
type followers struct {
	mu   sync.Mutex
	open map[*follower]struct{}
	left bool // the server goes down
}

func (s *followers) add(f *follower, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= most {
		return false
	}
	if s.open == nil {
		s.open = make(map[*follower]struct{})
	}
	s.open[f] = struct{}{}
	if s.left {
		f.leave()
	}
	return true
}

func (s *followers) remove(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, f)
}

// leave ends them all, and those who come still.
func (s *followers) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for f := range s.open {
		f.leave()
	}
}

// of are how many follow a sale, and how far the one lags that lags most.
func (s *followers) of(sale *sale) (n int, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.open {
		if f.sale == sale {
			n++
			lag = max(lag, f.lags())
		}
	}
	return n, lag
}

// readLogs has few reads under way at a time.
type readLogs struct {
	ledger.Logs
	places chan struct{}
}

// readsOf are the logs of a sale as its followers read them; nil: nobody can follow it.
func readsOf(service any) ledger.Logs {
	followed, ok := service.(Followed)
	if !ok {
		return nil
	}
	return readLogs{followed.Logs(), make(chan struct{}, readsOfFollowers)}
}

func (l readLogs) enter(ctx context.Context) error {
	select {
	case l.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l readLogs) leave() { <-l.places }

// Read is that of the store.
func (l readLogs) Read(ctx context.Context, log string, from uint64, most int) (head []byte, entries [][]byte, err error) {
	if err := l.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer l.leave()
	return l.Logs.Read(ctx, log, from, most)
}

// Heads is that of the store.
func (l readLogs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.leave()
	return l.Logs.Heads(ctx, logs)
}
