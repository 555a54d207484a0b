package access

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection of which nothing is acknowledged any more does not stay for as long as the system
// would keep it.
func TestVanished(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, 1)
	defer l.Close()
	client, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var is int
	if e := raw.Control(func(fd uintptr) { is, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if int64(is) != userTimeout.Milliseconds() {
		t.Errorf("it waits for %d ms for what was sent to be acknowledged, want %v", is, userTimeout)
	}
}
