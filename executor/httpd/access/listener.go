package access

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Listener is a net.Listener with a limit of open connections. A new connection beyond the limit
// closes the one that has been idle longest; its client can reconnect. If all have a request in
// flight, the new one waits. So idle connections cannot exhaust the file descriptors of a process.
//
// The http.Server must use its ConnState.
type Listener struct {
	net.Listener
	limit int

	// mu guards the rest, and the state of each conn.
	mu     sync.Mutex
	change sync.Cond // a connection became idle or ended, or the listener was closed
	open   int
	idle   list.List // of *conn, the longest idle first
	closed bool
}

// conn is a connection of a Listener.
type conn struct {
	net.Conn
	listener *Listener
	idle     *list.Element // in Listener.idle; nil: a request is in flight
	over     bool
}

// userTimeout is the timeout of unacknowledged data.
const userTimeout = 30 * time.Second

// NewListener returns a listener with at most limit open connections.
func NewListener(inner net.Listener, limit int) *Listener {
	l := &Listener{Listener: inner, limit: limit}
	l.change.L = &l.mu
	return l
}

// Accept returns the next connection when the limit permits it.
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
			_ = c.Conn.Close() // the reader gets an error; only the client notices
		} else {
			listener.change.Wait()
		}
	}
	if listener.closed {
		_ = inner.Close() // it is unused
		return nil, net.ErrClosed
	}
	listener.open++
	c := &conn{Conn: inner, listener: listener}
	c.idle = listener.idle.PushBack(c) // until its first request
	return c, nil
}

// removeLocked removes a connection from the count.
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

// Close closes the listener and unblocks an Accept that waits for the limit.
func (listener *Listener) Close() error {
	listener.mu.Lock()
	listener.closed = true
	listener.change.Broadcast()
	listener.mu.Unlock()
	return listener.Listener.Close()
}

// ConnState is a callback for http.Server.ConnState. It tracks idle connections.
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

// CloseWrite ends the response to a client that is still sending.
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
