package httpd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"salectl/api"
	"salectl/executor"
)

// Operated is a sale of which an operator may say what this process is to own. An
// executor.Executor is one; those that are none are not moved.
type Operated interface {
	StandBy(ctx context.Context, undo bool) (executor.Share, error)
	Share(ctx context.Context) (executor.Share, error)
	Move(ctx context.Context, shard int, anyone bool) (executor.Whereabouts, error)
	Whereabouts(ctx context.Context, shard int) (executor.Whereabouts, error)
}

// operators adds what operators may have a process do. Like a refund that is asked for at
// the admin address, with the token if there is one: the claims address is open to every
// application that sells, and none of these is to take a process out of service.
func (s *Server) operators(mux *http.ServeMux) {
	guarded := func(pattern string, serve func(http.ResponseWriter, *http.Request, Operated)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !s.letIn(w, r) {
				return
			}
			sale := s.sales[r.PathValue("sale")]
			if sale == nil {
				writeNoSuchSale(w)
				return
			}
			o, ok := sale.Service.(Operated)
			switch {
			case !ok:
				writeNoSuchPath(w)
			case r.Method == http.MethodPost && (s.draining.Load() || s.leaving.Load()):
				writeOutcome(w, api.Draining)
			case r.Method != http.MethodPost && r.Method != http.MethodGet:
				writeMethodNotAllowed(w, "GET, POST")
			default:
				serve(w, r, o)
			}
		})
	}
	guarded(api.SalesPath+"{sale}/drain", s.drainOrTell)
	guarded(api.SalesPath+"{sale}/shards/{shard}/move", s.moveOrTell)
}

func (s *Server) drainOrTell(w http.ResponseWriter, r *http.Request, sale Operated) {
	var share executor.Share
	var err error
	if r.Method == http.MethodPost {
		var said api.DrainRequest
		if f := readOrder(r, &said); f != nil {
			writeBadRequest(w, f)
			return
		}
		share, err = sale.StandBy(r.Context(), said.Undo)
	} else {
		share, err = sale.Share(r.Context())
	}
	if err != nil {
		writeRefused(w, err)
		return
	}
	writeJSON(w, http.StatusOK, api.Share{
		Sale: r.PathValue("sale"), State: cmp.Or(share.State, api.ProcessServing),
		Shards: share.Owns, Should: share.Should, Takers: share.Takers,
	})
}

func (s *Server) moveOrTell(w http.ResponseWriter, r *http.Request, sale Operated) {
	text := r.PathValue("shard")
	shard, err := strconv.Atoi(text)
	if err != nil || strconv.Itoa(shard) != text {
		writeBadRequest(w, &fault{http.StatusUnprocessableEntity, "shard: must be a number from 0"})
		return
	}
	var at executor.Whereabouts
	if r.Method == http.MethodPost {
		var said api.MoveRequest
		if f := readOrder(r, &said); f != nil {
			writeBadRequest(w, f)
			return
		}
		at, err = sale.Move(r.Context(), shard, said.Any)
	} else {
		at, err = sale.Whereabouts(r.Context(), shard)
	}
	if err != nil {
		writeRefused(w, err)
		return
	}
	writeJSON(w, http.StatusOK, api.Whereabouts{
		Sale: r.PathValue("sale"), Shard: at.Shard, Owner: at.Owner, Should: at.Should, Here: at.Here, Moved: at.Moved, Pinned: at.Pinned,
	})
}

// maxOrder is the most that the body of an operator's request may have.
const maxOrder = 1024

// readOrder reads what an operator says.
func readOrder(r *http.Request, into any) *fault {
	if f := checkContentType(r.Header["Content-Type"]); f != nil {
		return f
	}
	body, f := readBody(r, nil, maxOrder)
	if f != nil {
		return f
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &fault{http.StatusBadRequest, "the body is no JSON object of this request: " + err.Error()}
	}
	return nil
}

// writeRefused says why a process does not do what an operator wants.
func writeRefused(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, executor.ErrNoShard):
		writeBadRequest(w, &fault{http.StatusUnprocessableEntity, "shard: " + err.Error()})
	case errors.Is(err, executor.ErrStandby):
		(&problem{status: http.StatusConflict, title: "Conflict", detail: err.Error()}).write(w)
	default:
		p := problemOf(api.Standby)
		p.detail = err.Error()
		p.write(w)
	}
}
