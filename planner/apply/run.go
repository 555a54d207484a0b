package apply

import (
	"context"
	"fmt"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
)

// Run carries out a plan of Make, MakePhase, MakeCloseDraw or MakeReveal. It returns when every
// shard has the generation of the plan and the sale's log records that. Run retries within
// Config.Patience until ctx ends; the same plan or the next one completes what it has begun.
//
// An empty plan is already carried out and changes nothing, with one exception. An empty plan of
// MakePhase verifies that the sale is still in the phase that it found: it appends Applied to the
// sale's log. If the read behind the plan lagged behind a change of phase, the error is ErrStale.
//
// The result is set, as far as it is known, even beside an error. An incomplete removal is
// ErrPartly with Result.Shortfall and needs a new plan. Lock nodes without a marker are
// ErrPartly with Result.Unmarked; the sale is sold without their votes. Result.Generation is
// set only if nothing else is left to do.
func Run(ctx context.Context, cfg Config, plan *planner.Plan) (*Result, error) {
	if plan.Kind == planner.KindDestroy {
		return nil, fmt.Errorf("%w: it is a plan of destroy", planner.ErrBadPlan)
	}
	m, result, err := NewExecution(cfg.terms(), plan, nil)
	if err != nil {
		return nil, err
	}
	return result, cfg.Run(ctx, plan.Sale, m)
}

// Destroy carries out a plan of MakeDestroy. It exports the ledger to exportPath, or to
// DefaultExport if that is ""; an existing file must be the same export. Nothing is deleted
// before the export was read back from disk and the sale's log has its digest.
//
// An empty plan for a destroyed sale is carried out too, and changes no log: a lock node that
// was away may have a marker that it no longer recognizes as its own, and no plan shows that.
func Destroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string) (*Result, error) {
	if plan.Kind != planner.KindDestroy {
		return nil, fmt.Errorf("%w: it is not a plan of destroy", planner.ErrBadPlan)
	}
	if exportPath == "" {
		exportPath = DefaultExport(plan.Sale, plan.UID)
	}
	return destroy(ctx, cfg, plan, exportPath, false)
}

func destroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string, rehearsal bool) (*Result, error) {
	exporter := fileExporter(exportPath, nil)
	if cfg.Remember != nil {
		exporter = remembering(exporter, cfg.Remember)
	}
	x, err := newExecution(cfg.terms(), plan, exporter, rehearsal)
	if err != nil {
		return nil, err
	}
	if !rehearsal && x.first() != nil {
		if err := checkDestroy(ctx, cfg, plan, exportPath); err != nil {
			return nil, err
		}
		files.RemoveTemps(exportPath) // perhaps nothing is exported any more
	}
	return &x.result, cfg.Run(ctx, plan.Sale, machine.New(x.core, x))
}

// checkDestroy refuses, before anything is closed, an export path that cannot be written, a
// key that does not decrypt the payloads, which the export contains, and a table that cannot
// store what users bought.
func checkDestroy(ctx context.Context, cfg Config, plan *planner.Plan, exportPath string) error {
	if plan.Phase == ledger.PhaseSealed || plan.Phase == ledger.PhaseDestroyed {
		return nil
	}
	actual, err := current.ReadSale(ctx, cfg.Backends, plan.Sale)
	if err != nil {
		return err
	}
	// The plan may be older than its execution: once that has sealed the sale, nothing is
	// exported any more, and an existing file does not matter.
	if ended := actual.Sale.UID() == plan.UID && !actual.Sale.Live(); ended {
		return nil
	}
	if err := payload.CheckKey(ctx, cfg.Logs, actual.Sale, cfg.Key); err != nil {
		return fmt.Errorf("sale %s is not destroyed, because its export would lack payloads: %w", plan.Sale, err)
	}
	if cfg.Remember != nil {
		if err := cfg.Remember(ctx, plan.Sale, plan.UID, nil); err != nil {
			return fmt.Errorf("sale %s is not destroyed, because purchases could not be recorded: %w", plan.Sale, err)
		}
	}
	return checkExportPath(exportPath, plan.UID, actual.ShardsSealed())
}
