//go:build !linux

package access

import (
	"net"
	"time"
)

// setUserTimeout does nothing: the system has its own timeout for vanished hosts.
func setUserTimeout(net.Conn, time.Duration) {}
