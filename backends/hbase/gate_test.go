package hbase

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
)

// gate stands between a handle and its servers. From the first request with a
// mark in it on, it either holds back what is sent on that connection, until
// long after the handle has given it up, or loses all answers.
type gate struct {
	mark   []byte
	answer bool   // lose the answers
	onHold func() // called, if not nil, once something is held back

	// mu guards what is below.
	mu   sync.Mutex
	seen int // requests that had the mark
	held *gated
}

// gated is a connection through a gate.
type gated struct {
	*net.TCPConn
	gate *gate
	late [][]byte // guarded by the gate's mu
}

// mustOpenGated opens a handle whose servers are behind a gate.
func mustOpenGated(t *testing.T, g *gate) *Logs {
	return mustOpen(t, func(o *Options) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { c.Close() })
			return &gated{TCPConn: c.(*net.TCPConn), gate: g}, nil
		}
	})
}

func (c *gated) Write(b []byte) (int, error) {
	g := c.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if bytes.Contains(b, g.mark) {
		if g.seen++; g.held == nil {
			if g.held = c; g.onHold != nil {
				g.onHold()
			}
		}
	}
	if g.held == c && !g.answer {
		c.late = append(c.late, bytes.Clone(b))
		return len(b), nil
	}
	return c.TCPConn.Write(b)
}

func (c *gated) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.gate.held == c && c.gate.answer {
		return 0, net.ErrClosed
	}
	return n, err
}

// Close wakes the reader, but keeps a connection that has something to deliver
// until the test ends.
func (c *gated) Close() error {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.gate.held == c && !c.gate.answer {
		return c.CloseRead()
	}
	return c.TCPConn.Close()
}

// release delivers what was held back.
func (g *gate) release(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		t.Fatal("nothing was held back")
	}
	for _, b := range g.held.late {
		if _, err := g.held.TCPConn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
}

// count returns how many requests had the mark.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}
