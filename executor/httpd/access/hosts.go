package access

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"salectl/executor/httpd/wire"
)

// Web pages must not use a server that listens on loopback only, although a browser on the machine
// reaches it for every open page. Three checks prevent it. A claim is JSON, which a browser sends
// for a page of another site only after a preflight request. The browser names the site of the page
// that sends a request. And a name that resolves to this machine only after its page was loaded
// (DNS rebinding) is none of the names that a loopback listener accepts.

var crossOrigin = http.NewCrossOriginProtection()

// CrossOrigin reports whether the browser declares the request to be from a page of another site
// and the request is more than a read. Other clients declare nothing.
func CrossOrigin(r *http.Request) bool { return crossOrigin.Check(r) != nil }

// WithHosts returns a handler that checks the Host of requests to a listener at address. On loopback
// it accepts the usual names, that of the address and more; elsewhere it accepts every name.
func WithHosts(address net.Addr, more []string, handler wire.Handler) wire.Handler {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return handler
	}
	known := map[string]bool{"": true, "localhost": true, "127.0.0.1": true, "::1": true, tcp.IP.String(): true}
	for _, name := range more {
		known[strings.ToLower(name)] = true
	}
	usual := address.String()
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if r.Host != usual && !known[hostOf(r.Host)] {
			return wire.Forbidden("This server accepts requests from this machine only, for localhost, 127.0.0.1 and [::1], but the request names another host. " +
				"A proxy before it must send one of these as Host.")
		}
		return handler(w, r)
	}
}

// hostOf returns the name in a Host header without the port, which may be that of a forwarder.
func hostOf(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Limits of the header of a request.
const (
	MaxHeader     = 32 << 10      // accepted bytes; the position of a feed of 1,024 shards has up to 20 KB
	MaxHeaderRead = 4 * MaxHeader // bytes that a server should read, so that WithBoundedHeader can reject the header
)

// WithBoundedHeader rejects requests whose header exceeds MaxHeader. When net/http itself rejects
// an HTTP/2 header, it closes the connection with all its requests. So a server reads up to
// MaxHeaderRead and closes the connection only beyond that, to limit the memory of headers.
func WithBoundedHeader(handler wire.Handler) wire.Handler {
	return func(w http.ResponseWriter, r *http.Request) *wire.Problem {
		if headerBytes(r) > MaxHeader {
			return wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "The header of the request has more than 32 KiB. Send fewer or smaller fields, such as cookies.")
		}
		return handler(w, r)
	}
}

// headerBytes returns the size of a request's header as defined by HTTP/2: 32 bytes per field in
// addition to its name and value.
func headerBytes(r *http.Request) int {
	const field = 32
	n := len(r.Method) + len(r.RequestURI) + len(r.Host) + 3*field
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + field
		}
	}
	return n
}

// CheckListen returns an error if serve must not listen at an address. An address that other
// machines can reach requires tokens or the flag --insecure.
func CheckListen(addr string, hasToken, insecure bool) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("listen address %q: %w; write host:port, like 127.0.0.1:8080", addr, err)
	}
	if hasToken || insecure || !Reachable(addr) {
		return nil
	}
	return fmt.Errorf("listening beyond loopback needs a token: other machines can reach %s; listen on 127.0.0.1 or [::1], "+
		"set a bearer-token file, or use --insecure if everyone may claim", addr)
}

// Reachable reports whether other machines can reach an address. A host name other than localhost
// counts as reachable, since what it resolves to may change.
func Reachable(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback())
}
