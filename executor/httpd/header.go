package httpd

import (
	"net/http"

	"salectl/executor/httpd/wire"
)

// withBoundedHeader refuses a request whose header has more than maxHeader bytes, and serves the
// others of its connection. net/http closes an HTTP/2 connection, with all requests on it, for a
// header field of more bytes than it reads. So it reads up to mostHeader, and closes the
// connection for more: what has come of the headers of all connections takes memory.
func withBoundedHeader(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if headerBytes(r) > maxHeader {
			wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "The header of the request has more than 32 KiB. Send fewer or smaller fields, such as cookies.").Write(w)
			return
		}
		h(w, r)
	}
}

// headerBytes is the size of a request's header, whatever its protocol, as HTTP/2 counts it:
// 32 bytes a field beside its name and value.
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
