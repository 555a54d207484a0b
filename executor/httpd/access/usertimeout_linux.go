package access

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout closes a connection whose sent data stays unacknowledged for that long. Without
// it, a connection to a vanished host stays open for some fifteen minutes while it is written to
// occasionally, for example with the comments of a feed.
func setUserTimeout(conn net.Conn, after time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
}
