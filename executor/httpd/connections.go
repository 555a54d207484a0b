package httpd

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections is a listener with a bound on the connections that it has open at a
// time. One more than that closes the one that has been idle for longest, which a
// client opens again when it needs it; where each has a request under way it waits
// for the first to end. So the files that a process may open are never all taken by
// those who only keep a connection.
type connections struct {
	net.Listener
	most int

	// mu guards the rest, and what connection says.
	mu     sync.Mutex
	change sync.Cond // of the rest
	open   int
	idle   list.List // of *connection, the one that has been idle for longest first
	closed bool
}

// connection is one of them.
type connection struct {
	net.Conn
	from *connections
	idle *list.Element // among connections.idle; nil: a request is under way
	over bool
}

// vanishedAfter is for how long nothing of what was sent may be acknowledged.
const vanishedAfter = 30 * time.Second

func newConnections(l net.Listener, most int) *connections {
	c := &connections{Listener: l, most: most}
	c.change.L = &c.mu
	return c
}

// Accept returns the next connection, when there is room for it.
func (c *connections) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	vanishes(inner, vanishedAfter)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.most && !c.closed {
		if longest := c.idle.Front(); longest != nil {
			c.drop(longest.Value.(*connection))
		} else {
			c.change.Wait()
		}
	}
	if c.closed {
		_ = inner.Close() // it was never ours
		return nil, net.ErrClosed
	}
	c.open++
	one := &connection{Conn: inner, from: c}
	one.idle = c.idle.PushBack(one) // until it asks for something
	return one, nil
}

// drop closes a connection, from under whoever reads from it.
func (c *connections) drop(one *connection) {
	c.forget(one)
	_ = one.Conn.Close() // nobody hears of it but the peer
}

// forget says that a connection is over.
func (c *connections) forget(one *connection) {
	if one.over {
		return
	}
	one.over = true
	c.open--
	if one.idle != nil {
		c.idle.Remove(one.idle)
		one.idle = nil
	}
	c.change.Signal()
}

// Close is net.Listener's.
func (c *connections) Close() error {
	c.mu.Lock()
	c.closed = true
	c.change.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}

// turned is http.Server's ConnState.
func (c *connections) turned(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	one := conn.(*connection)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case one.over:
	case state == http.StateActive && one.idle != nil:
		c.idle.Remove(one.idle)
		one.idle = nil
	case state == http.StateIdle && one.idle == nil:
		one.idle = c.idle.PushBack(one)
		c.change.Signal()
	}
}

// CloseWrite lets a server end an answer to somebody who is still sending.
func (one *connection) CloseWrite() error {
	if tcp, ok := one.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close is net.Conn's.
func (one *connection) Close() error {
	one.from.mu.Lock()
	one.from.forget(one)
	one.from.mu.Unlock()
	return one.Conn.Close()
}
