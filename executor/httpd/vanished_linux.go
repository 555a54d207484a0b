package httpd

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// vanishes ends a connection when nothing that was sent was acknowledged for so long. Without
// that a host that is gone, and says no word, keeps what is written to it now and then, as comments of
// a feed are, for some fifteen minutes.
func vanishes(conn net.Conn, after time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
}
