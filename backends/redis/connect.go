package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// patience is the timeout of one step of a call (connecting, sending, waiting for the
	// answer) whose context has no earlier deadline.
	patience = 3 * time.Second

	// Connections is the maximum size of a node's connection pool. A process has at most one
	// call to a node under way for each lease and each command.
	Connections = 8
)

// clientOptions limits the messages at connect to HELLO, which includes the login. HELLO needs
// no right, and a server before Redis 6, which does not implement it, gets AUTH instead. Protocol 2
// has no push messages between calls.
func clientOptions(o Options, d *dialer) *goredis.Options {
	patience := cmp.Or(o.patience, patience)
	return &goredis.Options{
		Addr:     o.Address,
		Username: o.Username,
		Password: o.Password,
		Dialer:   d.dial,

		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		MaxRetries:            -1, // see Node
		DialerRetries:         1,
		DialTimeout:           patience,
		ReadTimeout:           patience,
		WriteTimeout:          patience,
		PoolTimeout:           patience,
		ContextTimeoutEnabled: true,

		PoolSize:         Connections,
		PipelinePoolSize: -1,
	}
}

// dialer connects to one server, and reports no error of its own: see dial.
type dialer struct {
	life context.Context // of the node: go-redis dials under a context that never ends
	tls  *tls.Config
}

// dial never fails: on an error it returns a connection whose methods return that error. After
// some failed dials go-redis would stop dialing for its callers. It would dial once a second
// instead, in a goroutine that outlives Close, and a recovered server would seem unreachable
// for as long.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		// At connect go-redis unwraps an error once and drops the outer one.
		return &noConn{err: fmt.Errorf("%w", unsent{err})}, nil
	}
	return conn, nil
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || d.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err() // the server is silent, with or without TLS
		}
		return nil, fmt.Errorf("%w: %v", ErrTLS, err)
	}
	return secure, nil
}

// noConn stands for a connection whose dial failed.
type noConn struct {
	net.Conn // nil: go-redis calls only the methods below
	err      error
}

func (c *noConn) Read([]byte) (int, error)         { return 0, c.err }
func (c *noConn) Write([]byte) (int, error)        { return 0, c.err }
func (c *noConn) Close() error                     { return nil }
func (c *noConn) SetDeadline(time.Time) error      { return nil }
func (c *noConn) SetReadDeadline(time.Time) error  { return nil }
func (c *noConn) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn is called by go-redis to check a pooled connection. The pool also holds
// connections whose dial failed after the caller had left; the old error must not reach the
// next caller.
func (c *noConn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }
