package hbase

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"
)

// conn is a connection to a server that may freeze. It fails when the server
// owes an answer and has sent nothing for as long as patience, or takes nothing
// for as long; a connection on which nobody waits may be silent for ever.
//
// It keeps the deadlines itself and ignores those that it is given: gohbase
// moves the read deadline on with every request that it sends, so a busy client
// would cling to a frozen server, and it sets no write deadline at all.
//
// HBase and ZooKeeper frame their answers alike, with a length in four bytes,
// so counting frames tells what is still owed. That takes one Write a request:
// see wholeDelete.
type conn struct {
	net.Conn
	patience time.Duration
	closed   func(lost error) // called once; lost: why, if the server owed answers
	close    sync.Once

	// writing is held for one request. Without it each writer would push the
	// deadline of the one before it.
	writing sync.Mutex

	// mu guards what is below, and the read deadline with it.
	mu      sync.Mutex
	silent  int // requests still to come that get no answer
	owed    int // answers
	prefix  [4]byte
	have    int // bytes of prefix
	missing int // bytes of the frame begun
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
	if err := c.owe(); err != nil {
		return 0, err
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(request)
	c.note(err)
	return n, err
}

// owe counts a request. It does so before the request is sent, since the answer
// may be there before Write returns.
func (c *conn) owe() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent > 0 {
		c.silent--
		return nil
	}
	if c.owed++; c.owed > 1 {
		return nil
	}
	return c.Conn.SetReadDeadline(time.Now().Add(c.patience))
}

// Read reads, and gives the server new patience if there was something.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		if failed := c.heard(b[:n]); err == nil {
			err = failed
		}
	}
	c.note(err)
	return n, err
}

// note keeps the first error.
func (c *conn) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil && c.owed > 0 {
		c.failed = fmt.Errorf("%d calls without an answer: %w", c.owed, err)
	}
}

// heard counts the frames that end in b.
func (c *conn) heard(b []byte) error {
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
			c.owed--
		}
	}
	if c.owed > 0 {
		return c.Conn.SetReadDeadline(time.Now().Add(c.patience))
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

// Close closes the connection and tells whoever keeps it.
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
