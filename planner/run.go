package planner

import (
	"context"
	"fmt"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
)

// Apply carries out a plan of Make or MakePhase. It ends when every shard has
// what is planned, and the sale's log says so. An empty plan is carried out
// already: Apply changes nothing then. Until ctx ends it keeps trying, within
// Config.Patience; what it has begun by then is completed by the same plan again,
// or by the next one.
//
// The result is set, as far as it goes, even beside an error. A removal that
// fell short is ErrPartly with Result.Shortfall: it is as far as this plan goes,
// and takes a new one. Lock nodes without a marker are ErrPartly with
// Result.Unmarked; the sale is sold without their votes. Result.Generation is
// set only where nothing else is left to do.
func Apply(ctx context.Context, cfg Config, plan *Plan) (*Result, error) {
	if plan.Kind == KindDestroy {
		return nil, fmt.Errorf("%w: it is a plan of destroy", ErrBadPlan)
	}
	if plan.Empty() {
		if _, err := plan.planned(); err != nil {
			return nil, err
		}
		return &Result{Sale: plan.Sale, UID: plan.UID, Generation: plan.Generation}, nil
	}
	return execute(ctx, cfg, plan)
}

// Confirm makes sure that a sale still is in the phase that an empty plan of
// MakePhase has found it in: it appends Applied to the sale's log. What the plan was
// made of may have lagged behind a later change of phase, and then it is ErrStale.
func Confirm(ctx context.Context, cfg Config, plan *Plan) (*Result, error) {
	if plan.Kind != KindPhase || !plan.Empty() {
		return nil, fmt.Errorf("%w: it is no empty plan of a phase", ErrBadPlan)
	}
	return execute(ctx, cfg, plan)
}

func execute(ctx context.Context, cfg Config, plan *Plan) (*Result, error) {
	m, result, err := NewExecution(cfg.terms(), plan, nil)
	if err != nil {
		return nil, err
	}
	return result, cfg.run(ctx, plan.Sale, m)
}

// Destroy carries out a plan of MakeDestroy. The ledger is exported to a file at
// exportPath, "" being DefaultExport; a file that is there already must be the
// same export. Nothing is deleted before the export was read back from the disk
// and the sale's log has its digest.
//
// An empty plan of a destroyed sale is carried out too, which changes no log: a
// lock node that was away has a marker that it may not know for its own any
// more, so that no plan shows it.
func Destroy(ctx context.Context, cfg Config, plan *Plan, exportPath string) (*Result, error) {
	if plan.Kind != KindDestroy {
		return nil, fmt.Errorf("%w: it is not a plan of destroy", ErrBadPlan)
	}
	if exportPath == "" {
		exportPath = DefaultExport(plan.Sale, plan.UID)
	}
	return destroy(ctx, cfg, plan, exportPath, false)
}

func destroy(ctx context.Context, cfg Config, plan *Plan, exportPath string, rehearsal bool) (*Result, error) {
	export := fileExporter(exportPath)
	if cfg.Remember != nil {
		export = remembering(export, cfg.Remember)
	}
	if cfg.Linger > 0 {
		export = lingering(export, cfg.Linger)
	}
	m, result, err := newMachine(cfg.terms(), plan, export, rehearsal)
	if err != nil {
		return nil, err
	}
	if !rehearsal && m.first != nil {
		if err := checkDestroy(ctx, cfg, plan, exportPath); err != nil {
			return nil, err
		}
		RemoveTemps(exportPath) // there may be nothing to export any more
	}
	return result, cfg.run(ctx, plan.Sale, m)
}

// checkDestroy refuses, before anything is closed, an export path that cannot be written, a key
// that opens nothing of what the units are, which the export is to say, and a table that cannot
// keep what users bought.
func checkDestroy(ctx context.Context, cfg Config, plan *Plan, exportPath string) error {
	if plan.Phase == ledger.PhaseSealed || plan.Phase == ledger.PhaseDestroyed {
		return nil
	}
	actual, err := ReadSale(ctx, cfg, plan.Sale)
	if err != nil {
		return err
	}
	// The plan may be older than its own run: once that has sealed the sale
	// nothing is exported any more, and the file there is no concern.
	if ended := actual.Sale.UID() == plan.UID && !actual.Sale.Live(); ended {
		return nil
	}
	if err := payload.CheckKey(ctx, cfg.Logs, actual.Sale, cfg.Key); err != nil {
		return fmt.Errorf("sale %s is not destroyed, its export could not say what was sold: %w", plan.Sale, err)
	}
	if cfg.Remember != nil {
		if err := cfg.Remember(ctx, plan.Sale, plan.UID, nil); err != nil {
			return fmt.Errorf("sale %s is not destroyed, what users bought could not be kept: %w", plan.Sale, err)
		}
	}
	return checkExportPath(exportPath, plan.UID, actual.shardsSealed())
}

// run makes a machine's calls, each in a goroutine, and tells it the time until it
// is done. When ctx ends the machine is told to stop; calls under way are
// cancelled and waited for.
func (c Config) run(ctx context.Context, sale string, m *Machine) error {
	making := calls.NewMaking(context.WithoutCancel(ctx), c.Clock, func(ctx context.Context, k calls.Call) any { return c.do(ctx, sale, k) })
	defer making.End()
	for {
		made, wake, done, err := m.Next(c.Clock())
		if done {
			return err
		}
		making.Make(made)
		switch due, err := making.Await(ctx, wake); {
		case err != nil:
			m.Stop(c.Clock(), err)
		case due:
			m.Tick(c.Clock())
		}
	}
}

// do makes one call.
func (c Config) do(ctx context.Context, sale string, k calls.Call) any {
	made := k.Do(ctx, calls.Ends{Logs: c.Logs, Nodes: c.Nodes, Lists: c.Lists})
	if err := made.(reply).failure(); err != nil {
		c.logger().DebugContext(ctx, "a call failed", "sale", sale, "call", k.What, "error", err)
	}
	return made
}
