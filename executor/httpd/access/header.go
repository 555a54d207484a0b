package access

import (
	"net/http"

	"salectl/executor/httpd/wire"
)

// Limits of the header of a request.
const (
	MaxHeader     = 32 << 10      // accepted bytes; the position of a feed of 1,024 shards has up to 20 KB
	MaxHeaderRead = 4 * MaxHeader // bytes that a server should read, so that WithBoundedHeader can reject the header
)

// WithBoundedHeader rejects requests whose header exceeds MaxHeader. When net/http itself rejects
// an HTTP/2 header, it closes the connection with all its requests. So a server reads up to
// MaxHeaderRead and closes the connection only beyond that, to limit the memory of headers.
func WithBoundedHeader(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if headerBytes(r) > MaxHeader {
			wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "The header of the request has more than 32 KiB. Send fewer or smaller fields, such as cookies.").Write(w)
			return
		}
		h(w, r)
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
