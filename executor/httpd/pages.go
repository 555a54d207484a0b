package httpd

import (
	"net"
	"net/http"
	"strings"

	"salectl/executor/httpd/wire"
)

// Web pages must not use a server that only listens on loopback: the browser of
// whoever runs it reaches it, and so does every page that is open there. Three
// things keep them out. A claim is JSON, for which a browser asks the server first
// whether another site's page may send it. The browser says whose page it is that
// asks. And a name that has been made to mean this machine after its page was
// loaded (DNS rebinding), so that the page seems to be the server's own, is none of
// the names that a loopback listener answers to.

var pages = http.NewCrossOriginProtection()

// ofOtherSite reports whether a page of another site sends a request that is not only
// a look, by what its browser says of it. A client that is no browser says nothing.
func ofOtherSite(r *http.Request) bool { return pages.Check(r) != nil }

// withHosts guards a handler that is reached at l. It answers to every name unless
// the listener is on loopback: then to the usual ones, that of the address, and
// more if there are some.
func withHosts(l net.Addr, more []string, h http.HandlerFunc) http.HandlerFunc {
	tcp, ok := l.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return h
	}
	known := map[string]bool{"": true, "localhost": true, "127.0.0.1": true, "::1": true, tcp.IP.String(): true}
	for _, name := range more {
		known[strings.ToLower(name)] = true
	}
	usual := l.String()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host != usual && !known[hostOf(r.Host)] {
			wire.WriteForbidden(w, "This server is reached from this machine alone, under localhost, 127.0.0.1 and [::1], and the request names another host. "+
				"A proxy before it must send one of these as Host.")
			return
		}
		h(w, r)
	}
}

// hostOf is the name in a Host header, without the port. Every port will do: it may
// be forwarded.
func hostOf(header string) string {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
