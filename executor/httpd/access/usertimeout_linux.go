package access

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout ends a connection when data that was sent stays unacknowledged for so long. Without
// it, a connection to a host that has vanished stays open for some fifteen minutes while something is
// written now and then, such as the comments of a feed.
func setUserTimeout(conn net.Conn, after time.Duration) {
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
