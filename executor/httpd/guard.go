package httpd

import (
	"errors"
	"fmt"
	"net"
)

// ErrExposed says that strangers could reach the server and nothing would stop
// them.
var ErrExposed = errors.New("listening beyond loopback needs a token")

// CheckListen refuses an address that other machines can reach, unless buyers
// need a token or the user has said that all is open on purpose. A host name
// other than localhost counts as reachable: what it means may change.
func CheckListen(addr string, hasToken, insecure bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; write host:port, like 127.0.0.1:8080", addr, err)
	}
	if hasToken || insecure || !open(host) {
		return nil
	}
	return fmt.Errorf("%w: other machines can reach %s; listen on 127.0.0.1 or [::1], "+
		"give a bearer-token file, or say --insecure if everyone may claim", ErrExposed, addr)
}

// Open reports whether other machines can reach an address.
func Open(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && open(host)
}

func open(host string) bool {
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}
