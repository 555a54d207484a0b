package httpd

import (
	"context"
	"net/http"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// Operated is a sale whose ownership here operators control. executor.Executor implements it.
type Operated interface {
	StandBy(ctx context.Context, undo bool) (api.Share, error)
	Share(ctx context.Context) (api.Share, error)
}

// drain handles GET and POST /v1/sales/{sale}/drain.
func drain(w http.ResponseWriter, r *http.Request, sale Operated) {
	var share api.Share
	var err error
	if r.Method == http.MethodPost {
		undo, f := readOrder(r, "undo")
		if f != nil {
			wire.WriteBadRequest(w, f)
			return
		}
		share, err = sale.StandBy(r.Context(), undo)
	} else {
		share, err = sale.Share(r.Context())
	}
	if err != nil {
		writeRefused(w, err)
		return
	}
	wire.WriteJSON(w, http.StatusOK, share)
}

// maxOrder is the maximum size of the body of an operator's request.
const maxOrder = 1024

// readOrder reads an api.DrainRequest: an object with at most the one field, true or false. It rejects
// unknown fields. Otherwise a misspelt undo would drain the process that should take its share again.
func readOrder(r *http.Request, field string) (on bool, _ *wire.Fault) {
	body, f := readJSON(r, maxOrder, nil)
	if f != nil {
		return false, f
	}
	p := wire.Parser{In: body}
	f = p.Body(`{"`+field+`": true}`, func(given []byte) (f *wire.Fault) {
		if string(given) != field {
			return wire.Malformed("%s: unknown field; there is %s", wire.QuoteName(given), field)
		}
		on, f = p.Bool(field)
		return f
	})
	return on, f
}

// writeRefused writes the reason why a process refuses an operator's command.
func writeRefused(w http.ResponseWriter, err error) {
	p := wire.ProblemOf(api.Standby)
	p.Detail = err.Error()
	p.Write(w)
}
