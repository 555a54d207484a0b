package server

import (
	"context"
	"errors"
	"time"

	"salectl/backends/ledger"
	"salectl/executor/reload"
	"salectl/spec"
)

// rereadEvery is the interval at which the files of a folder are read.
const rereadEvery = time.Second

// lackOf describes why a sale cannot be served, without a remedy: the server retries.
func lackOf(err error) reload.Lack {
	none, absent := errors.AsType[*absent](err)
	return reload.Lack{Why: err.Error(), Absent: absent, Over: absent && none.over}
}

// reread reads the files until ctx ends: at each SIGHUP, and once a second if a folder was
// named.
func (r *run) reread(ctx context.Context) {
	var every <-chan time.Time
	if r.Watch {
		ticker := time.NewTicker(rereadEvery)
		defer ticker.Stop()
		every = ticker.C
	}
	for {
		signalled := false
		select {
		case <-ctx.Done():
			return
		case <-every:
		case <-r.hup:
			r.HTTP.Log.Info("the sale files are read again after SIGHUP")
			signalled = true
		}
		sales, err := r.Read()
		r.keeper.Update(ctx, r, sales, err, signalled)
	}
}

// Served, Prepare, Compare, Drop and Lack implement reload.Server.
func (r *run) Served() map[string]reload.Standing {
	standing := make(map[string]reload.Standing)
	for _, e := range r.all() {
		is := e.Status()
		standing[e.Sale()] = reload.Standing{Generation: is.Generation, Run: is.Run, Over: ledger.Over(is.Phase), Destroyed: is.Phase == ledger.PhaseDestroyed}
	}
	return standing
}

func (r *run) Prepare(ctx context.Context, sale spec.Sale) (begin func(), err error) {
	added, err := r.prepare(ctx, sale)
	return func() { r.serve(added) }, err
}

func (r *run) Compare(ctx context.Context, sale spec.Sale) error {
	actual, err := r.read(ctx, r.sales[sale.Name].store, sale.Name)
	if err == nil {
		r.differs(sale, actual)
	}
	return err
}

func (r *run) Drop(sale string) {
	r.keepRunning()
	e := r.sales[sale]
	r.mu.Lock()
	delete(r.sales, sale)
	r.mu.Unlock()
	e.end()
}

func (r *run) Lack(unserved map[string]reload.Lack) { r.http.Declare(unserved) }
