// Package stream serves client streams: requests of HTTP/2 that last, with many requests to a sale in
// their body, whose responses go out as they come.
//
// It guarantees what the routes of httpd guarantee: an answer has the meaning of the executor's, and each
// request has exactly one response unless the stream breaks. A client that reads slowly, or sends
// much, is read no further once its responses take too much memory; it never delays other streams.
// A request is never refused because the stream ends: when the client has sent the last one, and when the
// server goes away, requests in flight are answered first.
//
// Two goroutines serve a stream: that of the handler reads (client.go), and one writes what is ready
// (writer.go). Requests in flight have none; a timer ends those that take too long. A stream is
//
//	open      requests are read
//	away      the client is notified that the server stops; requests are still read
//	late      and has had its time: nothing is read once no request is in flight
//	over      nothing more is read; requests in flight are answered, then the stream ends
//	broken    nothing can be written any more; requests in flight are cancelled
//
// and only ever moves forward; away and late may be passed over.
//
// A peer's link is such a stream in another mode (peer.go): its messages go to the sale, and this package
// only carries them. It shares all but the client's part: client.go, and the requests in flight.
//
// Its callers route requests, find the sale, and check that the token permits claims or, for a
// peer, operation. The sale decides the claims.
package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// DefaultLimit is how many streams of clients may be open at a time, and how many of peers besides.
const DefaultLimit = 1000

// Config is what a Server needs. All but Address is required.
type Config struct {
	Tokens  *access.Tokens
	Limit   int    // of streams of clients that are open at a time, and of those of peers
	Address string // of this process, for clients; "": unknown

	// AwaitOpened returns when requests of clients may be answered, or ctx has ended.
	AwaitOpened func(ctx context.Context)
	// Draining reports whether claims and settlements are refused.
	Draining func() bool

	ClaimTimeout time.Duration // of a request
	DrainTimeout time.Duration // within which the server ends
	WriteTimeout time.Duration // of a write
	Clock        clock.Clock
}

// Sale is a sale that is served over streams.
type Sale interface {
	executor.Service
	// Removed reports whether the server no longer serves the sale.
	Removed() bool
	// Count counts an answer to a settlement or, if how is "", to a claim.
	Count(how api.How, outcome api.Outcome, took time.Duration)
}

// Server serves streams. It is safe for concurrent use.
type Server struct {
	config Config
	memory *access.Memory // of the requests of all streams

	mu       sync.Mutex // guards what follows
	open     map[*stream]struct{}
	ending   bool
	byTokens map[[sha256.Size]byte]*access.Memory // of requests, by the digest of their token
}

// New returns a Server.
func New(c Config) *Server {
	return &Server{
		config: c, memory: access.NewMemory(maxTotalBytes),
		open: make(map[*stream]struct{}), byTokens: make(map[[sha256.Size]byte]*access.Memory),
	}
}

// FromPeer reports whether another process of the sale requests a stream.
func FromPeer(r *http.Request) bool { return r.Header[api.PeerHeader] != nil }

// Serve answers POST /v1/sales/{sale}/stream, and returns when the stream has ended, or returns why it
// refuses the request.
func (server *Server) Serve(w http.ResponseWriter, r *http.Request, sale Sale, grant access.Grant) *wire.Problem {
	switch f := wire.CheckContentType(r, api.TypeStream); {
	case r.ProtoMajor < 2: // its body cannot last
		w.Header().Set("Connection", "close")
		return wire.NewProblem(http.StatusHTTPVersionNotSupported, "A stream needs HTTP/2. Without TLS, use prior knowledge; a proxy must also use HTTP/2 to the server. "+
			"Claims one by one go to /v1/sales/{sale}/claims over any version.")
	case f != nil:
		return f
	case server.config.Draining():
		return wire.ProblemOf(api.Draining)
	}
	x := newStream(&server.config, w, r, sale, grant, FromPeer(r))
	added, ending := server.add(x)
	if !added {
		p := wire.ProblemOf(api.Overloaded)
		p.Detail = fmt.Sprintf("This server has %d streams open, which is its limit. Use one stream for many requests.", server.config.Limit)
		return p
	}
	defer server.remove(x)
	// It lasts for longer than other requests may; expire replaces the deadlines.
	if err := errors.Join(x.control.SetReadDeadline(time.Time{}), x.control.SetWriteDeadline(time.Time{})); err != nil {
		return wire.ProblemOf(api.Overloaded)
	}
	x.start()
	defer x.close()
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{api.TypeStream}, wire.NoStore
	if server.config.Address != "" {
		h[api.AddressHeader] = []string{server.config.Address}
	}
	w.WriteHeader(http.StatusOK)
	if x.control.Flush() != nil {
		return nil
	}
	written := make(chan struct{})
	go func() { defer close(written); (&writer{stream: x, out: w}).write() }()
	if ending || sale.Removed() { // GoAway was called before
		x.goAway()
	}
	if x.peer {
		x.servePeer(r.Body)
	} else {
		x.serveClient(r.Body)
	}
	<-written
	return nil
}

// GoAway sends going_away to the clients of a sale, which is Removed. With nil it sends it to all
// clients, also to those that connect later.
func (server *Server) GoAway(sale Sale) {
	server.mu.Lock()
	defer server.mu.Unlock()
	server.ending = server.ending || sale == nil
	for x := range server.open {
		if sale == nil || x.sale == sale {
			x.goAway()
		}
	}
}

// Open returns the number of open streams of a sale.
func (server *Server) Open(sale Sale) (n int) {
	server.mu.Lock()
	defer server.mu.Unlock()
	for x := range server.open {
		if x.sale == sale {
			n++
		}
	}
	return n
}

// add adds a stream, unless there are too many, and sets what bounds its requests beside its own limit.
// ending: GoAway(nil) was called before.
func (server *Server) add(added *stream) (ok, ending bool) {
	server.mu.Lock()
	defer server.mu.Unlock()
	n := 0
	for x := range server.open {
		if x.peer == added.peer {
			n++
		}
	}
	if n >= server.config.Limit {
		return false, server.ending
	}
	server.open[added] = struct{}{}
	if token, ok := added.grant.Token(); ok {
		m := server.byTokens[token]
		if m == nil {
			m = access.NewMemory(maxTokenBytes)
			server.byTokens[token] = m // of a valid token: there are few
		}
		added.requests.memories = append(added.requests.memories, m)
	}
	added.requests.memories = append(added.requests.memories, server.memory)
	return true, server.ending
}

func (server *Server) remove(x *stream) {
	server.mu.Lock()
	defer server.mu.Unlock()
	delete(server.open, x)
}
