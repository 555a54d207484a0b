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
	// patience is how long one step of a call may take whose context has no
	// earlier deadline: to connect, to send, or to be answered.
	patience = 3 * time.Second

	// Connections is how many the pool of a node has at most. A process asks a node one
	// thing at a time for each lease and each command.
	Connections = 8
)

// clientOptions keeps what is said at connect to HELLO, with the login in it:
// that needs no right, and a server before Redis 6 that does not know it gets
// AUTH. Protocol 2 has no pushes to look for between calls.
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

// dialer connects to one server.
type dialer struct {
	life context.Context // of the node: go-redis dials under a context that nobody ends
	tls  *tls.Config
}

// dial never fails: instead of an error it returns a connection that can do
// nothing but tell it. After some errors, go-redis would stop dialing for its
// callers; a goroutine that outlives Close would try once a second, and a
// server that is back would seem away for as long.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		// At connect go-redis unwraps an error once and drops what was around it.
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
			return nil, ctx.Err() // the server is silent; nothing is known of its TLS
		}
		return nil, fmt.Errorf("%w: %v", ErrTLS, err)
	}
	return secure, nil
}

// noConn is a connection that could not be made.
type noConn struct {
	net.Conn // nil: what is below is all that go-redis calls
	err      error
}

func (c *noConn) Read([]byte) (int, error)         { return 0, c.err }
func (c *noConn) Write([]byte) (int, error)        { return 0, c.err }
func (c *noConn) Close() error                     { return nil }
func (c *noConn) SetDeadline(time.Time) error      { return nil }
func (c *noConn) SetReadDeadline(time.Time) error  { return nil }
func (c *noConn) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn is how go-redis looks whether a connection from its pool is alive.
// One whose caller went away before the dial failed is there too; its error is
// an old one, and must not be told to the next caller.
func (c *noConn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }
