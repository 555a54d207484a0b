package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

type destroyOptions struct {
	source
	saved  savedPlan // no path: new plans
	export string    // path of the export; "" for the default name
	yes    bool
	cancel bool // cancel holds
}

func (p *program) destroyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "destroy", Category: groupSale, Usage: "export and delete a sale",
		Description: "Closes the sale, seals every shard, writes the export and verifies it, and only then " +
			"deletes the rest. If it was interrupted, run it again: it completes. The sale's own log " +
			"remains, with the final totals. The command waits until each held claim is paid, " +
			"cancelled or released; the plan shows the latest time. A plan that 'salectl plan " +
			"--destroy --out FILE' has saved needs no confirmation.",
		ArgsUsage: planFileArgument,
		Flags: salesFlags(
			valueFlag("out", "write the export to `FILE`, of one sale only (default: SALE-UID.ndjson)"),
			onFlag("cancel-holds", "cancel held claims instead of waiting for their payments"),
			yesFlag(),
			timeoutFlag(),
			allFlag(),
			jsonFlag(),
		),
		Action: actionUpTo(1, func(f *flags) destroyOptions {
			return destroyOptions{source: parseSource(f), saved: f.planFile(), export: f.text("out"), yes: f.on("yes"), cancel: f.on("cancel-holds")}
		}, p.destroy),
	}
}

func (p *program) destroy(ctx context.Context, o destroyOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	defer sparing()()
	plan := planOptions{source: o.source, destroy: true, export: o.export, cancelHolds: o.cancel}
	jobs, err := p.jobs(ctx, plan, o.saved, sales, o.yes,
		func(j job) string { return mayDestroy(j.plan, o.cancel) }, "Export %s and remove them for good?")
	if err != nil {
		return err
	}
	return p.carryOutAll(ctx, o.source, jobs, func(j job) error {
		return p.withActual(ctx, j.sale, current.ReadSale, func(cfg apply.Config, actual *planner.Actual) error {
			cfg.CancelHolds = o.cancel
			return p.takeDown(ctx, cfg, j.sale, actual, j.plan, o.export, o.json)
		})
	})
}

// makeDestroy plans a destroy, including what is held, or the remainder of a red packet.
func (p *program) makeDestroy(ctx context.Context, cfg apply.Config, actual *planner.Actual, o planOptions) (*planner.Plan, error) {
	if actual.EndsByLedger() {
		logs, end := p.watchRead(ctx, cfg.Logs, actual.Name, "reading the ledger", 1, o.json)
		actual.Ledger = current.ReadLedger(ctx, logs, actual)
		end()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	actual.CancelHolds = o.cancelHolds
	return planner.MakeDestroy(actual)
}

// mayDestroy returns the question for confirmation of a plan of kind destroy.
func mayDestroy(plan *planner.Plan, cancelHolds bool) string {
	for _, a := range plan.Actions {
		switch {
		case a.Before == nil || a.Before.Ends == nil:
		case a.Before.Ends.Held > 0 && cancelHolds:
			return fmt.Sprintf("Cancel what is held of %s, export it and remove it for good?", plan.Sale)
		case a.Before.Ends.HeldUntil != "":
			return fmt.Sprintf("Close %s, wait for payments until %s, export it and remove it for good?", plan.Sale, a.Before.Ends.HeldUntil)
		case a.Before.Ends.Held > 0:
			return fmt.Sprintf("Close %s, wait for payments of what is held, export it and remove it for good?", plan.Sale)
		case a.Before.Ends.Refund != nil:
			r := a.Before.Ends.Refund
			return fmt.Sprintf("Export %s, remove it for good, and leave %s of %s %s to be refunded?", plan.Sale, r.Amount, r.Total, r.Currency)
		}
	}
	return fmt.Sprintf("Export %s and remove it for good?", plan.Sale)
}

// lastWords is the time for followers of a sale to read its end: they poll ten times a second.
const lastWords = 500 * time.Millisecond

// takeDown carries out a plan of kind destroy. An empty plan of a destroyed sale may still
// have something to remove that no plan shows; for people the plan has already reported no
// changes.
func (p *program) takeDown(ctx context.Context, cfg apply.Config, sale spec.Sale, actual *planner.Actual, plan *planner.Plan, export string, asJSON bool) error {
	end := func() {}
	if !plan.Empty() {
		cfg.Progress, end = p.progress(plan, asJSON)
	}
	key, err := units.PayloadKey(sale, os.LookupEnv)
	if err != nil {
		return err
	}
	cfg.Key, cfg.Linger = key, lastWords
	closeHistory, err := remember(&cfg, actual)
	if err != nil {
		return err
	}
	defer closeHistory()
	result, err := apply.Destroy(ctx, cfg, plan, export)
	end()
	if err != nil {
		return err
	}
	if plan.Empty() {
		result = nil
	}
	p.applied(plan, result, asJSON, func(r *apply.Result) string { return p.destroyedText(plan, r, sale.File) })
	return nil
}

// remember makes cfg store what users bought, if the sale declares a table for it. The caller
// must call close after the destroy.
func remember(cfg *apply.Config, actual *planner.Actual) (close func() error, err error) {
	nothing := func() error { return nil }
	if !actual.Sale.Live() {
		return nothing, nil // stored before the ledger was sealed
	}
	declared, err := spec.FromJSON(actual.Sale.Newest().GetSpec())
	if err != nil || declared.History == nil || declared.History.Table == nil {
		return nothing, err
	}
	table, err := backends.OpenHistoryTable(*declared.History.Table)
	if err != nil {
		return nil, err
	}
	cfg.Remember = table.Remember
	return table.Close, nil
}

func (p *program) destroyedText(plan *planner.Plan, r *apply.Result, file string) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%s %s.", p.colours(p.out).Green("Destroyed"), plan.Sale)
	if r.Refund != nil {
		text += "\n  " + refunded(r.Refund)
	}
	if r.Export != "" {
		text += fmt.Sprintf("\n  Its ledger is in %s\n  SHA-256 %s, also in %s",
			r.Export, r.ExportDigest, r.Manifest)
	}
	return text + fmt.Sprintf("\n  Remove the declaration in %s, or write the next metadata.run there", file)
}

// refunded describes the part of a red packet that was not taken.
func refunded(r *planner.Refund) string {
	return fmt.Sprintf("Refund %s of %s %s: %s of %s not taken",
		r.Amount, r.Total, r.Currency, grouped(r.Packets), count(r.Packets+r.Granted, "packet"))
}
