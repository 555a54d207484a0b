package httpd

import (
	"context"
	"net/http"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// drain handles GET and POST /v1/sales/{sale}/drain.
func (target target) drain(w http.ResponseWriter, r *http.Request) *wire.Problem {
	operated, ok := target.sale.Service.(interface { // an executor.Executor is
		StandBy(ctx context.Context, undo bool) (api.Share, error)
		Share(ctx context.Context) (api.Share, error)
	})
	if !ok {
		return wire.NoSuchPath()
	}
	var share api.Share
	var err error
	switch {
	case r.Method != http.MethodPost:
		share, err = operated.Share(r.Context())
	case target.goingDown():
		return wire.ProblemOf(api.Draining)
	default:
		undo, f := readDrain(r)
		if f != nil {
			return f
		}
		share, err = operated.StandBy(r.Context(), undo)
	}
	if err != nil {
		p := wire.ProblemOf(api.Standby)
		p.Detail = err.Error()
		return p
	}
	share.Unready = target.unready(target.sale)
	wire.WriteJSON(w, http.StatusOK, share)
	return nil
}

// maxOrder is the maximum size of the body of an operator's request.
const maxOrder = 1024

// readDrain reads an api.DrainRequest. It rejects unknown fields. Otherwise a misspelt undo would drain
// the process that should take its share again.
func readDrain(r *http.Request) (undo bool, _ *wire.Problem) {
	body, f := readJSON(r, maxOrder, access.NewMemory(4*maxOrder)) // those of buyers must not delay it
	if f != nil {
		return false, f
	}
	p := wire.Parser{Input: body}
	f = p.Object(`{"undo": true}`, func(field []byte) (f *wire.Problem) {
		if string(field) != "undo" {
			return wire.Malformed("%s: unknown field; there is undo", wire.QuoteName(field))
		}
		undo, f = p.Bool("undo")
		return f
	})
	return undo, f
}
