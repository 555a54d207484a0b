package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/wire"
)

// Operated is a sale of which operators may direct what this process owns. An executor.Executor is one.
type Operated interface {
	StandBy(ctx context.Context, undo bool) (executor.Share, error)
	Share(ctx context.Context) (executor.Share, error)
	Move(ctx context.Context, shard int, anyone bool) (executor.ShardOwner, error)
	ShardOwner(ctx context.Context, shard int) (executor.ShardOwner, error)
}

// drain answers GET and POST /v1/sales/{sale}/drain.
func drain(w http.ResponseWriter, r *http.Request, sale Operated) {
	var share executor.Share
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
	wire.WriteJSON(w, http.StatusOK, api.Share{
		Sale: r.PathValue("sale"), State: cmp.Or(share.State, api.ProcessServing),
		Shards: share.Owns, Assigned: share.Assigned, Takers: share.Takers,
	})
}

// move answers GET and POST /v1/sales/{sale}/shards/{shard}/move.
func move(w http.ResponseWriter, r *http.Request, sale Operated) {
	text := r.PathValue("shard")
	shard, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(shard) != text {
		wire.WriteBadRequest(w, wire.Unacceptable(errors.New("shard: must be a number from 0")))
		return
	}
	var at executor.ShardOwner
	if r.Method == http.MethodPost {
		anyone, f := readOrder(r, "any")
		if f != nil {
			wire.WriteBadRequest(w, f)
			return
		}
		at, err = sale.Move(r.Context(), shard, anyone)
	} else {
		at, err = sale.ShardOwner(r.Context(), shard)
	}
	if err != nil {
		writeRefused(w, err)
		return
	}
	wire.WriteJSON(w, http.StatusOK, api.ShardOwner{
		Sale: r.PathValue("sale"), Shard: at.Shard, Owner: at.Owner, Assigned: at.Assigned, Here: at.Here, Moved: at.Moved, Pinned: at.Pinned,
	})
}

// maxOrder is how large the body of an operator's request may be.
const maxOrder = 1024

// readOrder reads an api.DrainRequest or api.MoveRequest: an object with at most the one field, true or
// false. If a misspelt name were ignored, a process that is to take its share again would be drained.
func readOrder(r *http.Request, field string) (on bool, _ *wire.Fault) {
	body, f := readJSON(r, maxOrder, nil)
	if f != nil {
		return false, f
	}
	p := wire.Parser{In: body}
	f = p.Object(`{"`+field+`": true}`, func(given []byte) (f *wire.Fault) {
		if string(given) != field {
			return wire.Malformed("%s: unknown field; there is %s", wire.QuoteName(given), field)
		}
		on, f = p.Bool(field)
		return f
	})
	return on, f
}

// writeRefused answers why a process does not do what an operator wants.
func writeRefused(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, executor.ErrNoShard):
		wire.WriteBadRequest(w, wire.Unacceptable(fmt.Errorf("shard: %w", err)))
	case errors.Is(err, executor.ErrStandby):
		wire.NewProblem(http.StatusConflict, err.Error()).Write(w)
	default:
		p := wire.ProblemOf(api.Standby)
		p.Detail = err.Error()
		p.Write(w)
	}
}
