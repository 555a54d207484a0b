package httpd

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// checkContentType requires JSON. That keeps web pages of other sites out: a browser lets them post forms,
// plain text or bytes without a type anywhere, but asks the server before it sends JSON.
func checkContentType(values []string) *wire.Fault {
	if len(values) == 1 {
		if values[0] == wire.JSONType[0] {
			return nil
		}
		if media, _, err := mime.ParseMediaType(values[0]); err == nil && media == wire.JSONType[0] {
			return nil
		}
	}
	return &wire.Fault{Status: http.StatusUnsupportedMediaType, Detail: "Content-Type: must be application/json, given once"}
}

// readJSON is readBody for a request that must be of JSON.
func readJSON(r *http.Request, limit int, bodies *access.Memory) ([]byte, *wire.Fault) {
	if f := checkContentType(r.Header["Content-Type"]); f != nil {
		return nil, f
	}
	return readBody(r, nil, limit, bodies)
}

// crowded is the fault of a body that has no room beside those of other requests.
var crowded = &wire.Fault{Status: http.StatusTooManyRequests, Detail: "too many requests are being read"}

// maxBodies bounds the memory of large bodies that clients are sending. Only the timeout of the connection
// ends those that are never complete.
const maxBodies = 32 << 20

// readBody reads a body of at most limit bytes, into buf if it fits. A larger one takes at most twice the
// memory of what the client has sent so far, which counts for bodies; nil: for nothing.
func readBody(r *http.Request, buf []byte, limit int, bodies *access.Memory) ([]byte, *wire.Fault) {
	var held int64
	if bodies != nil {
		defer func() { bodies.Add(-held) }()
	}
	n, err := io.ReadFull(r.Body, buf)
	for err == nil && n <= limit {
		size := min(max(2*n, 1024), limit+1) // one more, to see that it is too large
		if bodies != nil {
			if !bodies.TryTake(int64(size)) {
				return nil, crowded
			}
			held += int64(size)
		}
		long := make([]byte, size)
		copy(long, buf)
		var more int
		more, err = io.ReadFull(r.Body, long[n:])
		n, buf = n+more, long
	}
	switch {
	case err == nil:
		return nil, &wire.Fault{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is too large; it may have at most %d KiB", limit>>10)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// The second is also what a body cut short gives; then it is no whole
		// object, or the client did not wait for the answer anyway.
		return buf[:n], nil
	default:
		return nil, wire.Malformed("the body could not be read to its end")
	}
}
