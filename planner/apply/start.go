package apply

import (
	"context"
	"errors"
	"fmt"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/machine"
)

// Exporter writes the ledger of a sale to its final location before its logs are deleted. It
// returns that location and the SHA-256 of the bytes, which are durable if err is nil. It may
// be called again for the same bytes.
type Exporter func(ctx context.Context, logs ledger.Logs, e *Export) (path string, digest []byte, err error)

// NewExecution returns a Machine that carries out a plan; a plan of destroy needs an Exporter.
// The Result is set when the Machine is done. An empty plan of MakePhase is confirmed by a
// note in the sale's log.
func NewExecution(t Terms, plan *planner.Plan, export Exporter) (*machine.Machine, *Result, error) {
	if plan.Kind == planner.KindDestroy && export == nil {
		return nil, nil, fmt.Errorf("%w: a plan of destroy needs somewhere to export to", planner.ErrBadPlan)
	}
	x, err := newExecution(t, plan, export, false)
	if err != nil {
		return nil, nil, err
	}
	return machine.New(x.core, x), &x.result, nil
}

func newExecution(t Terms, plan *planner.Plan, export Exporter, rehearsal bool) (*execution, error) {
	planned, err := plan.Intent()
	if err != nil {
		return nil, err
	}
	if planned != nil {
		planned.PlanDigest, planned.Who = plan.Digest[:], t.Who
	}
	if err := errors.Join(t.Units.Check(planned), keyFits(plan, planned, t.Key)); err != nil {
		return nil, err
	}
	x := &execution{
		Terms: t, core: machine.NewCore(t.Patience), plan: plan, intent: planned, exporter: export, rehearsal: rehearsal, stage: notBegun,
		result:  Result{Sale: plan.Sale, UID: plan.UID},
		actions: make(map[string]string),
	}
	x.openSale()
	for _, name := range t.Nodes {
		x.nodes = append(x.nodes, lockNode{name: name})
	}
	for _, a := range plan.Actions {
		x.actions[a.Address] = a.Action
	}
	return x, nil
}

// Run carries out the plan.
func (x *execution) Run() {
	if first := x.first(); first != nil {
		first()
	}
}

// first returns the steps of the plan, or nil if the plan is already carried out. An
// empty plan is, with two exceptions: that of a destroyed sale sweeps the lock nodes, and that
// of a sale already in its phase confirms the phase.
func (x *execution) first() func() {
	switch p := x.plan; {
	case p.Kind == planner.KindReveal && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind == planner.KindReveal:
		return (&revealing{x: x}).run
	case p.Kind == planner.KindApply && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind != planner.KindDestroy:
		return x.apply
	case p.Empty() && !x.rehearsal && p.Phase != ledger.PhaseDestroyed:
		return nil
	}
	return (&teardown{x: x}).run
}
