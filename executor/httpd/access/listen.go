package access

import (
	"errors"
	"fmt"
	"net"
)

// ErrExposed reports that the server would be reachable from other machines without tokens.
var ErrExposed = errors.New("listening beyond loopback needs a token")

// CheckListen returns an error if serve must not listen at an address. An address that other
// machines can reach requires tokens or the flag --insecure.
func CheckListen(addr string, hasToken, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; write host:port, like 127.0.0.1:8080", addr, err)
	}
	if hasToken || insecure || !reachable(host) {
		return nil
	}
	return fmt.Errorf("%w: other machines can reach %s; listen on 127.0.0.1 or [::1], "+
		"give a bearer-token file, or say --insecure if everyone may claim", ErrExposed, addr)
}

// Reachable reports whether other machines can reach an address. A host name other than localhost
// counts as reachable, since what it resolves to may change.
func Reachable(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && reachable(host)
}

func reachable(host string) bool {
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}
