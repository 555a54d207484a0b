package access

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listener is a listener with a bound on its open connections. A new connection beyond the bound
// closes the one that has been idle for longest, which a client opens again when it needs it; while
// all have a request in flight, the new one waits for the first to end. So clients that only keep
// connections open cannot use up the file descriptors of a process.
//
// Its ConnState must be that of the http.Server.
type Listener struct {
	net.Listener
	limit int

	// mu guards the rest, and the state of each conn.
	mu     sync.Mutex
	change sync.Cond // a connection became idle or ended, or the listener was closed
	open   int
	idle   list.List // of *conn, the one that has been idle for longest first
	closed bool
}

// conn is a connection of a Listener.
type conn struct {
	net.Conn
	listener *Listener
	idle     *list.Element // in Listener.idle; nil: a request is in flight
	over     bool
}

// userTimeout is how long data that was sent may stay unacknowledged.
const userTimeout = 30 * time.Second

// NewListener returns a listener with at most limit open connections.
func NewListener(inner net.Listener, limit int) *Listener {
	l := &Listener{Listener: inner, limit: limit}
	l.change.L = &l.mu
	return l
}

// Accept returns the next connection, when there is room for it.
func (listener *Listener) Accept() (net.Conn, error) {
	inner, err := listener.Listener.Accept()
	if err != nil {
		return nil, err
	}
	setUserTimeout(inner, userTimeout)
	listener.mu.Lock()
	defer listener.mu.Unlock()
	for listener.open >= listener.limit && !listener.closed {
		if longest := listener.idle.Front(); longest != nil {
			c := longest.Value.(*conn)
			listener.removeLocked(c)
			_ = c.Conn.Close() // under its reader; only the client notices
		} else {
			listener.change.Wait()
		}
	}
	if listener.closed {
		_ = inner.Close() // it was never used
		return nil, net.ErrClosed
	}
	listener.open++
	c := &conn{Conn: inner, listener: listener}
	c.idle = listener.idle.PushBack(c) // until its first request
	return c, nil
}

// removeLocked no longer counts a connection.
func (listener *Listener) removeLocked(c *conn) {
	if c.over {
		return
	}
	c.over = true
	listener.open--
	if c.idle != nil {
		listener.idle.Remove(c.idle)
		c.idle = nil
	}
	listener.change.Signal()
}

// Close closes the listener and ends an Accept that waits for room.
func (listener *Listener) Close() error {
	listener.mu.Lock()
	listener.closed = true
	listener.change.Broadcast()
	listener.mu.Unlock()
	return listener.Listener.Close()
}

// ConnState is that of http.Server: it learns whether a connection is idle.
func (listener *Listener) ConnState(served net.Conn, state http.ConnState) {
	if secure, ok := served.(*tls.Conn); ok {
		served = secure.NetConn()
	}
	c := served.(*conn)
	listener.mu.Lock()
	defer listener.mu.Unlock()
	switch {
	case c.over:
	case state == http.StateActive && c.idle != nil:
		listener.idle.Remove(c.idle)
		c.idle = nil
	case state == http.StateIdle && c.idle == nil:
		c.idle = listener.idle.PushBack(c)
		listener.change.Signal()
	}
}

// CloseWrite lets a server end a response to a client that is still sending.
func (conn *conn) CloseWrite() error {
	if tcp, ok := conn.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (conn *conn) Close() error {
	conn.listener.mu.Lock()
	conn.listener.removeLocked(conn)
	conn.listener.mu.Unlock()
	return conn.Conn.Close()
}
