package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// readJSON is readBody for a request with a JSON body. Others are refused, to exclude web pages of
// other sites: a browser lets them post forms, plain text or untyped bytes to any server, but sends
// JSON only after a preflight request.
func readJSON(r *http.Request, limit int, bodies *access.Memory) ([]byte, *wire.Problem) {
	if f := wire.CheckContentType(r, api.TypeJSON); f != nil {
		return nil, f
	}
	return readBody(r, nil, limit, bodies)
}

// crowded is the problem of a body without memory beside those of other requests. It must not be changed.
var crowded = wire.ProblemOf(api.Overloaded)

// maxBodies limits the memory of large bodies in transfer. Incomplete ones end by the timeout of
// the connection.
const maxBodies = 32 << 20

// readBody reads a body of at most limit bytes, into buf if it fits. A larger body takes at most
// twice the memory of its received bytes, which is counted in bodies.
func readBody(r *http.Request, buf []byte, limit int, bodies *access.Memory) ([]byte, *wire.Problem) {
	var held int64
	defer func() { bodies.Add(-held) }()
	n, err := io.ReadFull(r.Body, buf)
	for err == nil && n <= limit {
		size := min(max(2*n, 1024), limit+1) // one byte more, to detect an excess
		if !bodies.TryTake(int64(size)) {
			return nil, crowded
		}
		held += int64(size)
		long := make([]byte, size)
		copy(long, buf)
		var more int
		more, err = io.ReadFull(r.Body, long[n:])
		n, buf = n+more, long
	}
	switch {
	case err == nil:
		return nil, wire.BadRequest(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large; it may have at most %d KiB", limit>>10))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// A truncated body causes the second error, too. Then it is no complete object, or the
		// client does not wait for the answer.
		return buf[:n], nil
	default:
		return nil, wire.Malformed("the body could not be read to its end")
	}
}
