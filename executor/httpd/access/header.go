package access

import (
	"net/http"

	"salectl/executor/httpd/wire"
)

// Bounds of the header of a request.
const (
	MaxHeader     = 32 << 10      // that is accepted; the position of a feed of 1,024 shards has up to 20 KB
	MaxHeaderRead = 4 * MaxHeader // that a server should read, so that WithBoundedHeader can refuse it
)

// WithBoundedHeader refuses a request whose header has more than MaxHeader bytes. Where net/http itself
// refuses a header of HTTP/2, it closes the connection with all of its requests. So a server reads
// up to MaxHeaderRead, and closes the connection only for more: the headers of all connections take
// memory.
func WithBoundedHeader(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if headerBytes(r) > MaxHeader {
			wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "The header of the request has more than 32 KiB. Send fewer or smaller fields, such as cookies.").Write(w)
			return
		}
		h(w, r)
	}
}

// headerBytes returns the size of a request's header as HTTP/2 counts it: 32 bytes a field beside its
// name and value.
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
