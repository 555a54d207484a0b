//go:build !linux

package embedded

import "time"

// ThisHost returns the host of this process.
func ThisHost() Host { return Host{Wall: time.Now} }
