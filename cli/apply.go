package cli

import (
	"context"
	"fmt"
	"os"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

type applyOptions struct {
	source
	saved savedPlan // no path: new plans
	yes   bool
	trust bool // trust this host's clock, whatever it showed before
}

func (p *program) applyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "apply", Category: groupSale, Usage: "create or change sales as their files declare",
		Description: "Prints the plan and asks for confirmation. If it was interrupted, run it again: it " +
			"completes. A saved plan needs no confirmation, and is refused if something has changed " +
			"since it was made. Of several sales, all plans are made or checked before the first is " +
			"carried out.",
		ArgsUsage: planFileArgument,
		Flags: salesFlags(
			yesFlag(),
			onFlag("trust-clock", "accept this host's clock after it was corrected (embedded sales)"),
			timeoutFlag(),
			allFlag(),
			jsonFlag(),
		),
		Action: actionUpTo(1, func(f *flags) applyOptions {
			return applyOptions{source: parseSource(f), saved: f.planFile(), yes: f.on("yes"), trust: f.on("trust-clock")}
		}, p.apply),
	}
}

func (p *program) apply(ctx context.Context, o applyOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	if o.trust {
		err := p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
			return p.withStore(sale, func(store *backends.Store) error { return store.TrustClock(ctx) })
		})
		if err != nil {
			return err
		}
	}
	jobs, err := p.jobs(ctx, planOptions{source: o.source}, o.saved, sales, o.yes,
		func(j job) string { return fmt.Sprintf("Apply this to %s?", j.sale.Name) }, "Apply this to %s?")
	if err != nil {
		return err
	}
	return p.carryOutAll(ctx, o.source, jobs, func(j job) error {
		if o.saved.path != "" && j.plan.Empty() && !o.json {
			fmt.Fprintf(p.out, "No changes: generation %d of %s is applied already.\n", j.plan.Generation, j.sale.Name)
		}
		return p.withActual(ctx, j.sale, current.ReadSale, func(cfg apply.Config, actual *planner.Actual) error {
			err := readPayloads(ctx, cfg.Logs, j.sale, actual)
			if err != nil {
				return err
			}
			if cfg.Units, err = apply.PayloadsOf(actual); err != nil {
				return err
			}
			defer cfg.Units.Close()
			if j.plan.Generation == 1 { // it commits to the secret of a draw
				if cfg.DrawKey, err = units.DrawKey(j.sale, os.LookupEnv); err != nil {
					return err
				}
			}
			return p.carryOut(ctx, cfg, j.plan, o.json, func(r *apply.Result) string { return p.appliedText(j.plan, r) })
		})
	})
}

// jobs returns plans to carry out: saved ones that are still valid, or new ones that were shown
// and confirmed. question is for one plan, several has %s for the names of several sales.
func (p *program) jobs(ctx context.Context, o planOptions, saved savedPlan, sales []spec.Sale, yes bool, question func(job) string, several string) (jobs []job, err error) {
	if jobs, err = jobsOf(saved, sales, string(o.kind()), o.kind()); err != nil {
		return nil, err
	}
	if o.export != "" && len(jobs) > 1 {
		return nil, &usageError{"salectl destroy", fmt.Sprintf("--out is for one sale, but %d are selected", len(jobs))}
	}
	if err := p.makeAll(ctx, o, jobs); err != nil || saved.path != "" {
		return jobs, err
	}
	return jobs, p.confirmAll(ctx, o.source, jobs, yes, question, several)
}

// carryOut applies a plan, and reports the result: in JSON, or by the text that describe returns.
// For an empty plan, describe receives nil. It prints nothing for "".
func (p *program) carryOut(ctx context.Context, cfg apply.Config, plan *planner.Plan, asJSON bool, describe func(*apply.Result) string) error {
	end := func() {}
	if !plan.Empty() {
		cfg.Progress, end = p.progress(plan, asJSON)
	}
	result, err := apply.Run(ctx, cfg, plan) // also an empty plan: the phase may have changed
	end()
	if err != nil && (plan.Empty() || result == nil || result.Generation == 0) {
		return err
	}
	if plan.Empty() {
		result = nil
	}
	p.applied(plan, result, asJSON, describe)
	if err != nil {
		p.report(err)
		return shown{err}
	}
	return nil
}

// applied reports the result of a plan; nil: the plan was empty.
func (p *program) applied(plan *planner.Plan, r *apply.Result, asJSON bool, describe func(*apply.Result) string) {
	if asJSON {
		p.emit(resultOf(plan, r))
		return
	}
	if text := describe(r); text != "" {
		fmt.Fprintln(p.out, p.withFlags(text, plan.Sale))
	}
	if r != nil {
		p.warn(r.Warnings)
	}
}

// appliedText is the text of apply. The plan itself has reported that it is empty.
func (p *program) appliedText(plan *planner.Plan, r *apply.Result) string {
	switch {
	case r == nil, !r.Changed && len(r.Unmarked) > 0: // the error reports what is missing
		return ""
	case !r.Changed: // a saved plan that was carried out before
		return fmt.Sprintf("No changes: generation %d of %s is applied already.", r.Generation, plan.Sale)
	}
	text := fmt.Sprintf("%s generation %d of %s: %d created, %d updated, %d deleted.", p.colours(p.out).Green("Applied"),
		r.Generation, plan.Sale, r.Summary.Create, r.Summary.Update, r.Summary.Delete)
	if r.Packets != nil && r.Generation == 1 {
		text += "\n  " + committed(r.Packets)
	}
	return text
}

// committed describes the commitment of a red packet.
func committed(r *ledger.PacketsStatus) string {
	return fmt.Sprintf("%s %s in %s, committed to %v", r.Total, r.Currency, count(r.Packets, "packet"), r.Commitment)
}

// warn prints failures that do not affect the result.
func (p *program) warn(warnings []string) {
	for _, w := range warnings {
		p.logf("%s %s", p.colours(p.err).Yellow("Warning:"), w)
	}
}

// resultOf returns the result of a plan with the warnings of the plan; nil: the plan was empty.
func resultOf(plan *planner.Plan, r *apply.Result) apply.Result {
	if r == nil {
		r = &apply.Result{Sale: plan.Sale, UID: plan.UID, Generation: plan.Generation}
	}
	all := *r
	if !r.Changed {
		all.Summary = planner.Summary{}
	}
	all.Warnings = append(append([]string{}, plan.Warnings...), r.Warnings...)
	return all
}
