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
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	setUserTimeout(inner, userTimeout)
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.limit && !l.closed {
		if longest := l.idle.Front(); longest != nil {
			c := longest.Value.(*conn)
			l.removeLocked(c)
			_ = c.Conn.Close() // under its reader; only the client notices
		} else {
			l.change.Wait()
		}
	}
	if l.closed {
		_ = inner.Close() // it was never used
		return nil, net.ErrClosed
	}
	l.open++
	c := &conn{Conn: inner, listener: l}
	c.idle = l.idle.PushBack(c) // until its first request
	return c, nil
}

// removeLocked no longer counts a connection.
func (l *Listener) removeLocked(c *conn) {
	if c.over {
		return
	}
	c.over = true
	l.open--
	if c.idle != nil {
		l.idle.Remove(c.idle)
		c.idle = nil
	}
	l.change.Signal()
}

// Close closes the listener and ends an Accept that waits for room.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.change.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// ConnState is that of http.Server: it learns whether a connection is idle.
func (l *Listener) ConnState(served net.Conn, state http.ConnState) {
	if secure, ok := served.(*tls.Conn); ok {
		served = secure.NetConn()
	}
	c := served.(*conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.over:
	case state == http.StateActive && c.idle != nil:
		l.idle.Remove(c.idle)
		c.idle = nil
	case state == http.StateIdle && c.idle == nil:
		c.idle = l.idle.PushBack(c)
		l.change.Signal()
	}
}

// CloseWrite lets a server end a response to a client that is still sending.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
