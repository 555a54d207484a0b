// Package events serves the feed of a sale as server-sent events. The response to a request lasts
// and contains the events of the ledger as they occur.
//
// The order and completeness of events are those of package feed. A follower costs a sale little.
// It reads the store and not the sale or its owners, so any process with access to the store can
// serve it, and no claim waits for it. All followers of a sale share a few concurrent reads, and
// read on only after the client has taken the previous events. A follower ends if its client does
// not read, if its token becomes invalid, or if its connection is lost.
//
// A follower first waits for the ledger; until then the response may have any status. After that, only
// comments can report problems. Callers find the sale and check that the token permits to follow.
package events

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// DefaultLimit is the default limit of concurrent followers.
const DefaultLimit = 16

// leavingGrace is the time for a follower's last write during shutdown.
const leavingGrace = time.Second

// Config configures a Server. All fields are required.
type Config struct {
	Limit        int           // maximum number of concurrent followers
	BeginTimeout time.Duration // timeout of the first answer of the ledger
	Heartbeat    time.Duration // longest silence; many proxies cut connections after 60 seconds without data
	WriteTimeout time.Duration // timeout of a write
	Clock        clock.Clock
	Log          *slog.Logger

	// Leaving reports whether the process is about to exit and accepts no followers.
	Leaving func() bool
}

// Server serves followers. It is safe for concurrent use.
type Server struct {
	config Config

	mu   sync.Mutex // guards the fields below
	open map[*follower]struct{}
	left bool // the server is shutting down
}

// New returns a Server.
func New(c Config) *Server {
	return &Server{config: c, open: make(map[*follower]struct{})}
}

// Serve answers GET /v1/sales/{sale}/events, and returns at the end of the feed, or returns why it
// refuses the request. A nil sale cannot be followed.
func (server *Server) Serve(w http.ResponseWriter, r *http.Request, sale *Sale, grant access.Grant) *wire.Problem {
	if sale == nil {
		return wire.NoSuchPath()
	}
	config, f := parse(sale.name, r)
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site != "" && site != "same-origin" && site != "none":
		return wire.Forbidden("Web pages of other sites may not send this request.")
	case f != nil:
		return f
	case server.config.Leaving():
		return wire.ProblemOf(api.Draining)
	}
	return server.follow(w, r, sale, config, grant)
}

// follow serves a follower to its end.
func (server *Server) follow(w http.ResponseWriter, r *http.Request, sale *Sale, config feed.Config, grant access.Grant) *wire.Problem {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	f := &follower{
		server: server, sale: sale, request: r, out: w, control: http.NewResponseController(w), end: end, grant: grant, sent: server.config.Clock().Mono,
	}
	f.lines = bufio.NewWriterSize(bounded{f}, 1<<16)
	f.encoder = json.NewEncoder(f.lines)
	f.encoder.SetEscapeHTML(false)
	if !server.add(f) {
		return wire.Unavailable(5*time.Second, fmt.Sprintf("This process has %d followers, which is its limit. Use another process of the sale, or retry later.", server.config.Limit))
	}
	defer server.remove(f)
	_ = f.control.SetReadDeadline(time.Time{}) // ignore the error: without support there is no deadline
	reader := feed.New(config)
	beats := make(chan struct{})
	go func() { defer close(beats); f.beat(ctx) }()
	err := feed.Follow(ctx, feed.Shell{Logs: sale.logs, Clock: server.config.Clock, Trouble: f.troubled}, reader, f.take)
	end(nil)
	<-beats
	return f.ended(err, reader)
}

// parse returns the feed configuration of a request.
func parse(sale string, r *http.Request) (c feed.Config, _ *wire.Problem) {
	c.Sale = sale
	query, f := wire.ParseQuery(r, "from", "commits")
	if f != nil {
		return c, f
	}
	if commits := query.Get("commits"); query.Has("commits") && commits != "true" && commits != "false" {
		return c, wire.Malformed("commits: must be true or false")
	}
	c.Commits = query.Get("commits") == "true"
	// Clients that reconnect to the same URL add the header.
	where, from, given := "Last-Event-ID", r.Header.Get("Last-Event-ID"), true
	if from == "" {
		where, from, given = "from", query.Get("from"), query.Has("from")
		if c.Now = from == "now"; c.Now || !given {
			return c, nil
		}
	}
	p, err := feed.ParsePosition(from)
	if err != nil {
		return c, wire.Malformed("%s: %v; send the id of an event unchanged", where, err)
	}
	c.From = &p
	return c, nil
}

// add adds a follower. It reports false at the limit.
func (server *Server) add(f *follower) bool {
	server.mu.Lock()
	defer server.mu.Unlock()
	if len(server.open) >= server.config.Limit {
		return false
	}
	server.open[f] = struct{}{}
	if server.left {
		f.leave()
	}
	return true
}

func (server *Server) remove(f *follower) {
	server.mu.Lock()
	defer server.mu.Unlock()
	delete(server.open, f)
}

// Leave ends all current and later followers because the server shuts down.
func (server *Server) Leave() {
	server.mu.Lock()
	defer server.mu.Unlock()
	server.left = true
	for f := range server.open {
		f.leave()
	}
}

// Lag returns the number of followers of a sale and their largest lag.
func (server *Server) Lag(sale *Sale) (followers int, lag time.Duration) {
	server.mu.Lock()
	defer server.mu.Unlock()
	for f := range server.open {
		if f.sale == sale {
			followers++
			lag = max(lag, f.lag(server.config.Clock().Wall))
		}
	}
	return followers, lag
}

// maxReads is the limit of concurrent reads by all followers of a sale: fewer than a store permits,
// so that capacity remains for claims.
const maxReads = 2

// Sale is a sale whose ledger can be followed.
type Sale struct {
	name string
	logs ledger.Logs
}

// NewSale returns a Sale, or nil if service has no ledger to follow. An executor.Executor has one.
func NewSale(name string, service any) *Sale {
	followed, ok := service.(interface{ Logs() ledger.Logs })
	if !ok {
		return nil
	}
	return &Sale{name, boundedLogs{followed.Logs(), semaphore.NewWeighted(maxReads)}}
}

// boundedLogs limits the number of concurrent reads.
type boundedLogs struct {
	ledger.Logs
	reads *semaphore.Weighted
}

// Read implements ledger.Logs.
func (bounded boundedLogs) Read(ctx context.Context, log string, from uint64, most int) (head []byte, entries [][]byte, err error) {
	if err := bounded.reads.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	defer bounded.reads.Release(1)
	return bounded.Logs.Read(ctx, log, from, most)
}

// Heads implements ledger.Logs.
func (bounded boundedLogs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := bounded.reads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer bounded.reads.Release(1)
	return bounded.Logs.Heads(ctx, logs)
}
