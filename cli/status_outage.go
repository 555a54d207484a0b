package cli

import (
	"context"
	"errors"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
)

const (
	// ledgerPatience is how long status waits for the ledger before it tells the rest.
	ledgerPatience = 10 * time.Second
	// nodesPatience is how long it then takes for that.
	nodesPatience = 5 * time.Second
)

// readStatus reads how a sale stands, and asks the process that serves it. Where the ledger cannot be
// read it returns what the others tell, beside the error.
func (p *program) readStatus(ctx context.Context, store *backends.Store, name, token string) (*saleStatus, error) {
	patient, cancel := context.WithTimeout(ctx, ledgerPatience)
	status, err := planner.ReadStatus(patient, p.planning(store), name)
	cancel()
	switch {
	case err == nil:
		view := &saleStatus{Status: status}
		askServer(ctx, view, token)
		view.judge()
		return view, nil
	case errors.Is(err, planner.ErrStore), errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) != errInterrupted:
		return p.readOutage(context.WithoutCancel(ctx), store, name, token, err), err
	}
	return nil, err
}

// readOutage returns what the lock nodes tell of a sale, and the process that says that it
// serves it, which knows what the ledger had; nil if there is nothing to tell.
func (p *program) readOutage(ctx context.Context, store *backends.Store, name, token string, why error) *saleStatus {
	ctx, cancel := context.WithTimeout(ctx, nodesPatience)
	defer cancel()
	outage, err := planner.ReadOutage(ctx, p.planning(store), name, why)
	if err != nil {
		return nil
	}
	view := &saleStatus{Status: outage.Status("")}
	for _, uid := range outage.Runs() {
		s := outage.Status(uid)
		if told, ok := servesIt(ctx, s, token); ok {
			view.Status = s
			view.know(told)
			break
		}
	}
	view.judge()
	return view
}

// servesIt asks the processes that have the leases of a run whether that is of a sale.
func servesIt(ctx context.Context, s *planner.Status, token string) (told api.Sale, ok bool) {
	for _, address := range serversOf(s) {
		told, err := readServer(ctx, address, s.Sale, token)
		var problem *api.Problem
		switch {
		case err == nil:
			s.Server = &planner.ServerStatus{Address: address}
			return told, true
		case errors.As(err, &problem) && problem.Outcome != api.NoSuchSale:
			s.Server = &planner.ServerStatus{Address: address, Error: string(problem.Outcome) + ": " + problem.Detail}
			return told, true
		}
	}
	return told, false
}

// know takes in what the process that serves the sale knows of units, which may be less than
// the ledger has.
func (s *saleStatus) know(told api.Sale) {
	if told.Sale == "" {
		return
	}
	s.Generation, s.Stock, s.Sold, s.Held, s.Available, s.InFlight = told.Generation, told.Stock, told.Sold, told.Held, told.Available, told.InFlight
	s.SoldOut = told.SoldOut
	s.tell(told)
}

// unread says whether the ledger cannot be read.
func (s *saleStatus) unread() bool { return s.Phase == ledger.PhaseUnknown }
