package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"salectl/backends/ledger"
	"salectl/executor/reload"
	"salectl/planner"
	"salectl/spec"
)

// rereadEvery is the interval at which the files of a folder are read.
const rereadEvery = time.Second

// lackOf describes why a sale cannot be served, without a remedy: it is retried by itself.
func lackOf(err error) reload.Lack {
	why := strings.TrimSuffix(err.Error(), ": "+ledger.ErrGone.Error())
	if refusal := new(planner.Refusal); errors.As(err, &refusal) {
		why = strings.TrimSuffix(why, ". "+refusal.Remedy)
	}
	none, absent := errors.AsType[*absent](err)
	return reload.Lack{Why: why, Absent: absent, Over: absent && none.over}
}

// keep reads the files until ctx ends: at each SIGHUP, and once a second if a folder was
// named.
func (s *Server) keep(ctx context.Context) {
	var every <-chan time.Time
	if s.Watch {
		ticker := time.NewTicker(rereadEvery)
		defer ticker.Stop()
		every = ticker.C
	}
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-every:
		case <-s.hup:
			s.HTTP.Log.Info("the sale files are read again after SIGHUP")
			asked = true
		}
		sales, err := s.Read()
		s.keeper.Update(ctx, sales, err, asked)
	}
}

// served implements reload.Server: what a keeper does with a server.
type served struct{ *Server }

func (s served) Served() map[string]reload.Standing {
	standing := make(map[string]reload.Standing)
	for _, e := range s.all() {
		is := e.Status()
		standing[e.Sale()] = reload.Standing{Generation: is.Generation, Run: is.Run, Over: ledger.Over(is.Phase), Destroyed: is.Phase == ledger.PhaseDestroyed}
	}
	return standing
}

func (s served) Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error) {
	added, err := s.prepare(ctx, sale)
	if err != nil {
		return nil, err
	}
	return func() { s.serve(added) }, nil
}

func (s served) Compare(ctx context.Context, sale spec.Sale) error { return s.compare(ctx, sale) }
func (s served) Drop(sale string)                                  { s.drop(sale) }
func (s served) Lack(unserved map[string]reload.Lack)              { s.lack(unserved) }
