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
		Action: actionWith(func(f *flags) applyOptions {
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
	jobs, err := p.toApply(ctx, o, sales)
	if err != nil {
		return err
	}
	return p.carryOutAll(ctx, o.source, jobs, func(j job) error {
		if o.saved.path != "" && j.plan.Empty() && !o.json {
			fmt.Fprintf(p.out, "No changes: generation %d of %s is applied already.\n", j.plan.Generation, j.sale.Name)
		}
		return p.withActual(ctx, j.sale, current.ReadSale, func(cfg apply.Config, actual *planner.Actual) error {
			closePayloads, err := newPayloads(ctx, &cfg, j.sale, actual)
			if err != nil {
				return err
			}
			defer closePayloads()
			if cfg.DrawKey, err = secretKey(j.sale, j.plan); err != nil {
				return err
			}
			return p.carryOut(ctx, cfg, j.sale, j.plan, o.json, p.applyView(o.json))
		})
	})
}

// toApply returns plans to carry out: saved ones that are still valid, or new ones that were
// shown and confirmed.
func (p *program) toApply(ctx context.Context, o applyOptions, sales []spec.Sale) (jobs []job, err error) {
	if o.saved.path != "" {
		jobs, err := savedJobs(o.saved, sales, "apply", planner.KindApply)
		if err != nil {
			return nil, err
		}
		return jobs, p.checkJobs(ctx, o.source, jobs)
	}
	if jobs, err = p.newJobs(ctx, planOptions{source: o.source}, sales); err != nil {
		return nil, err
	}
	return jobs, p.askForAll(ctx, o.source, jobs, o.yes,
		func(j job) string { return fmt.Sprintf("Apply this to %s?", j.sale.Name) }, "Apply this to %s?")
}

// secretKey reads the key for the secret of a draw, if the plan begins a run.
func secretKey(sale spec.Sale, plan *planner.Plan) (*units.Key, error) {
	if plan.Generation != 1 {
		return nil, nil
	}
	return units.DrawKey(sale, os.LookupEnv)
}

// carryOut applies a plan.
func (p *program) carryOut(ctx context.Context, cfg apply.Config, sale spec.Sale, plan *planner.Plan, asJSON bool, view applyView) error {
	if plan.Empty() {
		if _, err := apply.Run(ctx, cfg, plan); err != nil { // the phase may have changed
			return err
		}
		view.Unchanged(plan)
		return nil
	}
	tell, end := p.progress(plan, asJSON)
	cfg.Progress = tell
	result, err := apply.Run(ctx, cfg, plan)
	end()
	if err != nil && (result == nil || result.Generation == 0) {
		return err
	}
	view.Applied(sale, plan, result)
	if err != nil {
		p.report(err)
		return shown{err}
	}
	return nil
}

// applyView is the output of apply besides its plan.
type applyView interface {
	Unchanged(*planner.Plan)
	Applied(spec.Sale, *planner.Plan, *apply.Result)
}

func (p *program) applyView(asJSON bool) applyView {
	return pick[applyView](asJSON, (*applyHuman)(p), (*applyJSON)(p))
}

type applyHuman program

// Unchanged prints nothing: the plan has reported it.
func (v *applyHuman) Unchanged(*planner.Plan) {}

func (v *applyHuman) Applied(sale spec.Sale, plan *planner.Plan, r *apply.Result) {
	p := (*program)(v)
	defer p.warn(r.Warnings)
	if !r.Changed && len(r.Unmarked) > 0 {
		return // the error reports what is missing
	}
	if !r.Changed { // a saved plan that was carried out before
		fmt.Fprintf(v.out, "No changes: generation %d of %s is applied already.\n", r.Generation, sale.Name)
		return
	}
	fmt.Fprintf(v.out, "%s generation %d of %s: %d created, %d updated, %d deleted.\n", p.colours(v.out).Green("Applied"),
		r.Generation, sale.Name, r.Summary.Create, r.Summary.Update, r.Summary.Delete)
	if r.Packets != nil && r.Generation == 1 {
		fmt.Fprintf(v.out, "  %s\n", committed(r.Packets))
	}
}

// committed describes the commitment of a red packet, "" for other units.
func committed(r *ledger.PacketsStatus) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%s %s in %s, committed to %v", r.Total, r.Currency, count(r.Packets, "packet"), r.Commitment)
}

// warn prints failures that do not affect the result.
func (p *program) warn(warnings []string) {
	for _, w := range warnings {
		p.say("%s %s", p.colours(p.err).Yellow("Warning:"), w)
	}
}

type applyJSON program

// applied is the JSON of apply, and of pause, resume and close.
type applied struct {
	FormatVersion int             `json:"formatVersion"`
	Sale          string          `json:"sale"`
	UID           string          `json:"uid"`
	Generation    uint64          `json:"generation"`
	Changed       bool            `json:"changed"`
	Summary       planner.Summary `json:"summary"`
	Shortfall     int64           `json:"shortfall"`          // units that could not be removed
	Unmarked      []string        `json:"unmarked,omitempty"` // lock nodes that could not be reached
	// Packets is the public state of a red packet.
	Packets  *ledger.PacketsStatus `json:"packets,omitempty"`
	Warnings []string              `json:"warnings"`
}

func (v *applyJSON) Unchanged(plan *planner.Plan) {
	(*program)(v).emit(applied{
		FormatVersion: formatVersion, Sale: plan.Sale, UID: plan.UID, Generation: plan.Generation,
		Warnings: append([]string{}, plan.Warnings...),
	})
}

func (v *applyJSON) Applied(_ spec.Sale, plan *planner.Plan, r *apply.Result) {
	summary := r.Summary
	if !r.Changed {
		summary = planner.Summary{}
	}
	(*program)(v).emit(applied{
		FormatVersion: formatVersion, Sale: r.Sale, UID: r.UID, Generation: r.Generation, Changed: r.Changed,
		Summary: summary, Shortfall: r.Shortfall, Unmarked: r.Unmarked, Packets: r.Packets,
		Warnings: append(append([]string{}, plan.Warnings...), r.Warnings...),
	})
}
