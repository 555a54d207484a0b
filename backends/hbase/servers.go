package hbase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/region"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// Timeouts of servers. A caller's deadline for a whole call is usually two seconds. A server
// that is silent for longer than serverPatience loses its connection, with all pending calls.
const (
	dialPatience   = 2 * time.Second
	serverPatience = 3 * time.Second
)

// warnEvery limits the warnings about a server's lost connections: a server may stay frozen for
// long.
const warnEvery = time.Minute

// user is the user name in HBase's logs and access rules.
const user = "salectl"

var errClosed = errors.New("the logs are closed")

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// servers keeps one connection to each server in use. Of gohbase it uses only the protocol of a
// connection. gohbase's client above that repeats calls whose outcome is unknown, waits up to
// half a minute between attempts to reconnect, cannot be closed while it searches an
// unreachable server, and has no option to change this. Here a call is sent once or fails. The
// next call looks up its region again if the server may be the wrong one.
type servers struct {
	dial   dialer
	logger *slog.Logger // gets this package's warnings
	inner  *slog.Logger // gohbase's
	life   context.Context
	calls  *sync.RWMutex // read-locked by calls and their work
	start  func(func())  // starts a goroutine of a call

	dialing singleflight.Group // by address and service

	// mu guards the fields below.
	mu     sync.Mutex
	open   map[endpoint]*server
	conns  map[*conn]struct{}   // all connections, those to ZooKeeper included; nil after close
	warned map[string]time.Time // time of the last warning about a server
}

// endpoint is one service of one process.
type endpoint struct {
	addr    string
	service region.ClientType
}

// server is a connection to a server. A broken one is replaced, not repaired.
type server struct {
	endpoint
	client hrpc.RegionClient
	closed bool // guarded by mu of servers
}

// get returns a connection to a server, which it makes if needed.
func (s *servers) get(ctx context.Context, to endpoint) (*server, error) {
	s.mu.Lock()
	srv := s.open[to]
	s.mu.Unlock()
	if srv != nil {
		return srv, nil
	}
	key := to.addr + " " + string(to.service)
	return share(ctx, s, &s.dialing, key, "connecting to server "+to.addr, func() (*server, error) { return s.connect(to) })
}

// connect makes a connection and adds it to open.
func (s *servers) connect(to endpoint) (*server, error) {
	s.mu.Lock()
	srv := s.open[to]
	s.mu.Unlock()
	if srv != nil { // made since the caller checked
		return srv, nil
	}
	ctx, cancel := context.WithTimeout(s.life, dialPatience)
	defer cancel()
	srv = &server{endpoint: to}
	var why error
	srv.client = region.NewClient(to.addr, to.service, &region.RegionClientOptions{
		QueueSize:     1, // with more it would hold calls back for 20 ms to batch them
		EffectiveUser: user,
		Logger:        s.inner,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := s.wrap(ctx, s.dial, network, addr, serverPatience, 1, func(lost error) { s.drop(srv, lost) })
			why = err
			return c, err
		},
	})
	if err := srv.client.Dial(ctx); err != nil {
		return nil, &fault{kind: lost, server: to.addr, what: firstLine(cmp.Or(why, err))}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.conns == nil: // close has closed the connection
		return nil, errClosed
	case srv.closed:
		return nil, &fault{kind: lost, server: to.addr, what: "it closed the connection at once"}
	}
	s.open[to] = srv
	return srv, nil
}

// wrap dials, and keeps the connection in conns until it is closed.
func (s *servers) wrap(ctx context.Context, dial dialer, network, addr string, patience time.Duration, silent int, closed func(lost error)) (net.Conn, error) {
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	var c *conn
	c = newConn(raw, patience, silent, func(lost error) {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		closed(lost)
	})
	s.mu.Lock()
	open := s.conns != nil
	if open {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if !open {
		raw.Close()
		return nil, errClosed
	}
	return c, nil
}

// drop removes a server whose connection is closed.
func (s *servers) drop(srv *server, lost error) {
	s.mu.Lock()
	srv.closed = true
	if s.open[srv.endpoint] == srv {
		delete(s.open, srv.endpoint)
	}
	warn := lost != nil && s.conns != nil && time.Since(s.warned[srv.addr]) > warnEvery
	if warn {
		s.warned[srv.addr] = time.Now()
	}
	s.mu.Unlock()
	if warn {
		s.logger.Warn("lost the connection to a server of HBase", "server", srv.addr, "error", lost)
	}
}

// close closes all connections and prevents new ones.
func (s *servers) close() {
	s.mu.Lock()
	open, conns := s.open, s.conns
	s.open, s.conns = nil, nil
	s.mu.Unlock()
	for _, srv := range open {
		srv.client.Close()
	}
	for c := range conns {
		c.Close()
	}
}

// call sends a call once and waits for the answer, until ctx ends. The call must have been made
// with ctx.
func (s *servers) call(ctx context.Context, srv *server, call hrpc.Call) (proto.Message, error) {
	// QueueRPC blocks while the server accepts no bytes.
	s.start(func() { srv.client.QueueRPC(call) })
	return s.await(ctx, srv, call)
}

// await waits for the answer to a call that was sent.
func (s *servers) await(ctx context.Context, srv *server, call hrpc.Call) (proto.Message, error) {
	select {
	case answer := <-call.ResultChan():
		if answer.Error != nil {
			return nil, faultOf(srv.addr, answer.Error)
		}
		return answer.Msg, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for server %s: %w", srv.addr, ledger.Ended(ctx))
	case <-s.life.Done():
		return nil, errClosed
	}
}

// wholeDelete is a Delete that is sent in one Write. gohbase sends the cells of a Mutate in a
// second Write, and unless the connection is plain TCP another request may come in between.
type wholeDelete struct{ *hrpc.Mutate }

// CellBlocksEnabled makes the cells part of the request.
func (wholeDelete) CellBlocksEnabled() bool { return false }

// masterCall is a call to the master; gohbase has types for only some of them.
type masterCall struct {
	ctx      context.Context
	name     string
	request  proto.Message
	response proto.Message // its type is the expected one
	results  chan hrpc.RPCResult
}

func (m *masterCall) Name() string                    { return m.name }
func (m *masterCall) Description() string             { return m.name }
func (m *masterCall) Table() []byte                   { return nil }
func (m *masterCall) Key() []byte                     { return nil }
func (m *masterCall) Region() hrpc.RegionInfo         { return nil }
func (m *masterCall) SetRegion(hrpc.RegionInfo)       {}
func (m *masterCall) Context() context.Context        { return m.ctx }
func (m *masterCall) ToProto() proto.Message          { return m.request }
func (m *masterCall) NewResponse() proto.Message      { return m.response.ProtoReflect().New().Interface() }
func (m *masterCall) ResultChan() chan hrpc.RPCResult { return m.results }

// share returns the result of work for a key, which an earlier caller may have started. The work
// does not depend on a caller: it continues when the callers stop waiting. Close waits for it.
// The error of a caller whose ctx ends begins with waiting.
func share[V any](ctx context.Context, s *servers, g *singleflight.Group, key, waiting string, work func() (V, error)) (V, error) {
	done := g.DoChan(key, func() (any, error) {
		if !s.calls.TryRLock() {
			return nil, errClosed
		}
		defer s.calls.RUnlock()
		return work()
	})
	select {
	case r := <-done:
		value, _ := r.Val.(V)
		return value, r.Err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("%s: %w", waiting, ledger.Ended(ctx))
	}
}
