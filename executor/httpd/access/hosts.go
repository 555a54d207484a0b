package access

import (
	"net"
	"net/http"
	"strings"

	"salectl/executor/httpd/wire"
)

// Web pages must not use a server that only listens on loopback: the browser of its user reaches it,
// and so does every page that is open there. Three checks prevent it. A claim is JSON, for which a
// browser first asks the server whether the page of another site may send it. The browser names the
// site of the page that sends a request. And a name that was made to mean this machine after its page
// was loaded (DNS rebinding) is none of the names that a loopback listener answers to.

var crossOrigin = http.NewCrossOriginProtection()

// CrossOrigin reports whether the page of another site sends a request that is not only a read, as its
// browser says. A client that is no browser says nothing.
func CrossOrigin(r *http.Request) bool { return crossOrigin.Check(r) != nil }

// WithHosts guards a handler that is reached at address. On loopback it answers to the usual names, to
// that of the address and to more; elsewhere to every name.
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
