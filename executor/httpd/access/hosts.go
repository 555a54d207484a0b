package access

import (
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
func WithHosts(address net.Addr, more []string, handler http.HandlerFunc) http.HandlerFunc {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return handler
	}
	known := map[string]bool{"": true, "localhost": true, "127.0.0.1": true, "::1": true, tcp.IP.String(): true}
	for _, name := range more {
		known[strings.ToLower(name)] = true
	}
	usual := address.String()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host != usual && !known[hostOf(r.Host)] {
			wire.WriteForbidden(w, "This server is reached from this machine alone, under localhost, 127.0.0.1 and [::1], and the request names another host. "+
				"A proxy before it must send one of these as Host.")
			return
		}
		handler(w, r)
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
