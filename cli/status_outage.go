package cli

import (
	"context"
	"errors"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/current"
)

const (
	// readPatience bounds the read of the ledger, after which status shows what others know;
	// half of --timeout, if that is less.
	readPatience = 20 * time.Second
	// lookPatience bounds the queries to those others.
	lookPatience = 5 * time.Second
	// mostLooked bounds the number of processes that are then asked whether they serve the
	// sale.
	mostLooked = 8
)

// readStatus reads the status of a sale, and queries the process that serves it. If the ledger
// cannot be read, it returns what others report, beside the error, which is ErrStore. bounded
// is ctx until --timeout.
func (p *program) readStatus(ctx, bounded context.Context, store *backends.Store, name string, a asker, o statusOptions) (*saleStatus, error) {
	cfg := p.planning(store)
	cfg.ReadTimeout = min(readPatience, o.timeout/2)
	status, err := current.ReadStatus(bounded, cfg.Backends, name)
	if err == nil {
		view := &saleStatus{Status: status}
		askServer(bounded, view, a)
		view.judge()
		return view, nil
	}
	if bounded.Err() != nil {
		return nil, err
	}
	if !errors.Is(err, planner.ErrStore) {
		return nil, err
	}
	return p.readOutage(ctx, store, name, a, err), err
}

// readOutage returns a sale's status as reported by the lock nodes and a process that serves
// it, which knows the last state of the ledger; nil if there is none.
func (p *program) readOutage(ctx context.Context, store *backends.Store, name string, a asker, why error) *saleStatus {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	outage, err := current.ReadOutage(ctx, p.planning(store).Backends, name, why)
	if err != nil {
		return nil
	}
	view := &saleStatus{Status: outage.Status("")}
	for i, address := range a.where(outage.Processes()) {
		if i == mostLooked {
			break
		}
		told, err := a.read(ctx, address, name)
		var problem *api.Problem
		switch {
		case err == nil:
			view.Status = outage.Status(told.UID) // of all leases those of this run
			view.Server = &current.ServerStatus{Address: address, Phase: told.Phase}
			if told.Nodes == nil {
				view.Server.Error = a.advise(notOperating)
			}
			view.know(told)
			view.judge()
			return view
		case errors.As(err, &problem) && problem.Outcome == api.NoSuchSale:
		case errors.As(err, &problem) && view.Processes == nil: // it has, or had, the sale
			view.Server = &current.ServerStatus{Address: address, Error: err.Error()}
			view.tell(told)
		case view.Server == nil:
			view.Server = &current.ServerStatus{Address: address, Error: err.Error()}
		}
	}
	view.judge()
	return view
}

// know adds the report of the process that serves the sale, which may be older than the
// ledger.
func (s *saleStatus) know(told api.Sale) {
	s.SaleSummary = told.SaleSummary
	s.Phase = ledger.PhaseUnknown // to others than the process, which ServerStatus has
	for _, shard := range told.Shards {
		if shard.State == api.ShardStalled && s.shard(shard.Shard) == nil {
			s.Shards = append(s.Shards, current.ShardStatus{Shard: shard.Shard, Error: current.NotRead})
		}
	}
	s.tell(told)
}

// unread reports whether the ledger cannot be read.
func (s *saleStatus) unread() bool { return s.Phase == ledger.PhaseUnknown }

// shard returns the shard with a number; nil if nothing is known of it.
func (s *saleStatus) shard(n int) *current.ShardStatus {
	for i := range s.Shards {
		if s.Shards[i].Shard == n {
			return &s.Shards[i]
		}
	}
	return nil
}
