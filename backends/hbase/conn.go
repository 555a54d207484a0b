package hbase

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"
)

// conn is a connection to a server that may freeze. It fails when answers are pending and the
// server has sent nothing for patience, or when it has accepted no bytes for patience. A connection without
// pending calls may stay silent for ever.
//
// It sets the deadlines itself and ignores the caller's: gohbase extends the read deadline with
// every request, so a busy client would stay connected to a frozen server, and it sets no write
// deadline at all.
//
// HBase and ZooKeeper both prefix their answers with a length of four bytes, so counting frames
// yields the number of pending answers. That takes one Write per request: see wholeDelete.
type conn struct {
	net.Conn
	patience time.Duration
	closed   func(lost error) // called once; lost is the reason if answers were pending, else nil
	close    sync.Once

	// writing is held during one request. Otherwise each writer would extend the deadline of
	// the one before it.
	writing sync.Mutex

	// mu guards the fields below and the read deadline.
	mu      sync.Mutex
	silent  int // number of requests to come that get no answer
	pending int // number of pending answers
	prefix  [4]byte
	have    int // bytes read of prefix
	missing int // bytes left of the current frame
	failed  error
}

// newConn returns a connection whose first silent requests get no answer.
func newConn(c net.Conn, patience time.Duration, silent int, closed func(lost error)) *conn {
	return &conn{Conn: c, patience: patience, silent: silent, closed: closed}
}

// Write sends one whole request.
func (c *conn) Write(request []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.addPending(); err != nil {
		return 0, err
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(request)
	c.note(err)
	return n, err
}

// addPending counts a request. Write calls it before sending, since the answer may arrive before Write
// returns.
func (c *conn) addPending() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent > 0 {
		c.silent--
		return nil
	}
	if c.pending++; c.pending > 1 {
		return nil
	}
	return c.Conn.SetReadDeadline(time.Now().Add(c.patience))
}

// Read reads, and restarts the server's patience if it received something.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		if failed := c.countFrames(b[:n]); err == nil {
			err = failed
		}
	}
	c.note(err)
	return n, err
}

// note records the first error while answers are pending.
func (c *conn) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil && c.pending > 0 {
		c.failed = fmt.Errorf("%d calls without an answer: %w", c.pending, err)
	}
}

// countFrames counts the frames that end in b, and adjusts the read deadline.
func (c *conn) countFrames(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		if c.missing == 0 {
			n := copy(c.prefix[c.have:], b)
			c.have, b = c.have+n, b[n:]
			if c.have < len(c.prefix) {
				break
			}
			c.have, c.missing = 0, int(binary.BigEndian.Uint32(c.prefix[:]))
		}
		n := min(c.missing, len(b))
		c.missing, b = c.missing-n, b[n:]
		if c.missing == 0 {
			c.pending--
		}
	}
	if c.pending > 0 {
		return c.Conn.SetReadDeadline(time.Now().Add(c.patience))
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

// Close closes the connection and calls closed.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.close.Do(func() {
		c.mu.Lock()
		lost := c.failed
		c.mu.Unlock()
		c.closed(lost)
	})
	return err
}

// SetDeadline does nothing: see conn.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: see conn.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
