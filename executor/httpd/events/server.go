// Package events serves the feed of a sale: one request of HTTP that lasts, to which the server answers
// with what the ledger says of the sale, as it comes, as server-sent events.
//
// It guarantees what package feed guarantees of the order and completeness of events. A follower costs a
// sale little: it reads the store and asks neither the sale nor its owners, so any process that knows the
// store can serve it, and no claim waits for it. All followers of a sale share a few reads, and what is
// read next waits until a client has taken what was sent. A client that takes nothing, whose token
// is no longer valid, or that is silent on a lost connection is ended.
//
// A follower is first waiting for the ledger, and its response may still be any status; then it has begun,
// and only comments can say what is wrong. Its callers find the sale and check that the token permits
// to follow.
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

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/feed"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// DefaultLimit is how many followers there may be at a time.
const DefaultLimit = 16

// leavingGrace is how long a follower has to take what is being sent when the server goes down.
const leavingGrace = time.Second

// Config is what a Server needs.
type Config struct {
	Limit        int           // of followers at a time
	BeginTimeout time.Duration // of the first answer of the ledger
	Heartbeat    time.Duration // how long nothing may be sent; many proxies cut connections that are silent for 60 seconds
	WriteTimeout time.Duration // of a write
	Clock        clock.Clock
	Log          *slog.Logger

	// Leaving reports whether the process is about to go, and takes no followers any more.
	Leaving func() bool
}

// Server serves followers. It is safe for concurrent use.
type Server struct {
	config Config

	mu   sync.Mutex // guards what follows
	open map[*follower]struct{}
	left bool // the server goes down
}

// New returns a Server.
func New(c Config) *Server {
	return &Server{config: c, open: make(map[*follower]struct{})}
}

// Serve answers GET /v1/sales/{sale}/events, and returns when the feed has ended. A nil sale cannot be
// followed.
func (server *Server) Serve(w http.ResponseWriter, r *http.Request, sale *Sale, grant access.Grant) {
	if sale == nil {
		wire.WriteNoSuchPath(w)
		return
	}
	config, f := parse(sale.name, r)
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site != "" && site != "same-origin" && site != "none":
		wire.WriteForbidden(w, "Web pages of other sites may not do this.")
	case f != nil:
		wire.WriteBadRequest(w, f)
	case server.config.Leaving():
		wire.WriteOutcome(w, api.Draining)
	default:
		server.follow(w, r, sale, config, grant)
	}
}

// follow serves a follower to its end.
func (server *Server) follow(w http.ResponseWriter, r *http.Request, sale *Sale, config feed.Config, grant access.Grant) {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	f := &follower{
		server: server, sale: sale, request: r, out: w, control: http.NewResponseController(w), end: end, grant: grant, sent: server.config.Clock().Mono,
	}
	f.lines = bufio.NewWriterSize(bounded{f}, 1<<16)
	f.encoder = json.NewEncoder(f.lines)
	f.encoder.SetEscapeHTML(false)
	if !server.add(f) {
		wire.WriteUnavailable(w, 5*time.Second, fmt.Sprintf("This process has %d followers already, which is as many as it takes. Ask another process of the sale, or this one later.", server.config.Limit))
		return
	}
	defer server.remove(f)
	_ = f.control.SetReadDeadline(time.Time{}) // if it cannot be set, there is none
	reader := feed.New(config)
	beats := make(chan struct{})
	go func() { defer close(beats); f.beat(ctx) }()
	err := feed.Follow(ctx, feed.Shell{Logs: sale.logs, Clock: server.config.Clock, Trouble: f.troubled}, reader, f.take)
	end(nil)
	<-beats
	f.ended(err, reader)
}

// parse returns the feed that a request asks for.
func parse(sale string, r *http.Request) (c feed.Config, _ *wire.Fault) {
	c.Sale = sale
	query, f := wire.ParseQuery(r, "from", "commits")
	if f != nil {
		return c, f
	}
	if commits := query.Get("commits"); query.Has("commits") && commits != "true" && commits != "false" {
		return c, wire.Malformed("commits: must be true or false")
	}
	c.Commits = query.Get("commits") == "true"
	// A client that has received events by this URL before adds the header.
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

// add adds a follower, unless there are too many.
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

// Leave ends all followers because the server goes down, also those that come later.
func (server *Server) Leave() {
	server.mu.Lock()
	defer server.mu.Unlock()
	server.left = true
	for f := range server.open {
		f.leave()
	}
}

// Lag returns how many follow a sale, and the largest lag of them.
func (server *Server) Lag(sale *Sale) (followers int, lag time.Duration) {
	server.mu.Lock()
	defer server.mu.Unlock()
	for f := range server.open {
		if f.sale == sale {
			followers++
			lag = max(lag, f.lag.lag(server.config.Clock().Wall))
		}
	}
	return followers, lag
}
