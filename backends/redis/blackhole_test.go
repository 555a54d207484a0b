package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"salectl/internal/services"
	"salectl/internal/wait"
)

// A host that drops what it is sent does not even refuse to connect.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	hole := newBlackHole(t)
	n := mustOpen(t, Options{Address: hole.Addr().String()})
	info := func(ctx context.Context) error { _, err := n.Info(ctx); return err }
	for range 2 * Connections {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		within(t, "info", ctx, info, ErrSilent)
		cancel()
	}
}

// A connection that fails after its caller has returned does not affect the next caller.
func TestOldFailure(t *testing.T) {
	t.Parallel()
	hole := newBlackHole(t)
	n := mustOpen(t, Options{Address: hole.Addr().String(), patience: 10 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := n.Info(ctx); !errors.Is(err, ErrSilent) {
		t.Errorf("info: %v, want ErrSilent", err)
	}
	wait.Until(t, "the attempt to connect to fail", func() bool {
		return n.client.PoolStats().IdleConns > 0
	})
	hole.forward(mustStart(t, services.RedisOptions{}).Addr())
	if _, err := n.Info(t.Context()); err != nil {
		t.Errorf("info of a server that is back: %v", err)
	}
}

// blackHole is an address where no process accepts connections and the queue of pending
// ones is full, so that the host drops all further requests to connect.
type blackHole struct {
	net.Listener
}

func newBlackHole(t *testing.T) *blackHole {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = listenAgain(fd) }), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	hole := &blackHole{Listener: listener}
	for range 100 {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 100*time.Millisecond)
		if err != nil {
			return hole
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system takes connections into a queue that is full")
	return nil
}

// forward takes connections from here on, and passes them to a server.
func (h *blackHole) forward(address string) {
	go func() {
		for {
			from, err := h.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				from.Close()
				continue
			}
			go func() { defer to.Close(); io.Copy(to, from) }()
			go func() { defer from.Close(); io.Copy(from, to) }()
		}
	}()
}
