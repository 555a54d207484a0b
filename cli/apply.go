package cli

import (
	"context"
	"fmt"
	"os"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/planner"
	"salectl/spec"
	"salectl/units"
)

type applyOptions struct {
	source
	saved string // the file of a saved plan, "" for a new one
	yes   bool
	trust bool // this host's clock, whatever it showed before
}

func (p *program) applyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "apply", Category: groupSale, Usage: "make sales as their files declare them",
		Description: "Shows the plan and asks. Killed anywhere and run again, it completes. A saved plan\n" +
			"is carried out without asking, and only if nothing has changed since it was made.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("plan", "carry out the plan saved in `FILE`"),
			yesFlag(),
			onFlag("trust-clock", "believe this host's clock, which was set and is right now (embedded sales)"),
			timeoutFlag(),
			jsonFlag(),
		},
		Action: action(func(f *flags) applyOptions {
			return applyOptions{source: parseSource(f), saved: f.text("plan"), yes: f.on("yes"), trust: f.on("trust-clock")}
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
	if o.saved != "" {
		return p.applySaved(ctx, o, sales)
	}
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withActual(ctx, sale, planner.ReadActual, func(cfg planner.Config, actual *planner.Actual) error {
			actual.Users = p.checkUsers(ctx, sale)
			closeGoods, err := newGoods(ctx, &cfg, sale, actual)
			if err != nil {
				return err
			}
			defer closeGoods()
			plan, err := planner.Make(sale, actual)
			if err != nil {
				return err
			}
			if cfg.DrawKey, err = secretKey(sale, plan); err != nil {
				return err
			}
			question := fmt.Sprintf("Apply this to %s?", sale.Name)
			if err := p.propose(ctx, sale, plan, question, o.yes, o.json); err != nil {
				return err
			}
			return p.carryOut(ctx, cfg, sale, plan, p.applyView(o.json))
		})
	})
}

// secretKey reads the key that the secret of a draw is encrypted with, if the plan begins
// one.
func secretKey(sale spec.Sale, plan *planner.Plan) (*units.Key, error) {
	if plan.Generation != 1 {
		return nil, nil
	}
	return units.DrawKey(sale, os.LookupEnv)
}

// propose shows a plan to people and asks whether to carry it out. A plan
// without changes needs no answer.
func (p *program) propose(ctx context.Context, sale spec.Sale, plan *planner.Plan, question string, yes, asJSON bool) error {
	if !asJSON {
		p.planText(sale, plan)
	}
	if plan.Empty() {
		return nil
	}
	return p.askPerson(ctx, question, yes, asJSON)
}

// carryOut applies a plan.
func (p *program) carryOut(ctx context.Context, cfg planner.Config, sale spec.Sale, plan *planner.Plan, view applyView) error {
	if plan.Empty() {
		if plan.Kind == planner.KindPhase {
			if _, err := planner.Confirm(ctx, cfg, plan); err != nil {
				return err
			}
		}
		view.Unchanged(plan)
		return nil
	}
	cfg.Progress = p.progress(plan)
	result, err := planner.Apply(ctx, cfg, plan)
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

// progress writes a line for everything that is done.
func (p *program) progress(plan *planner.Plan) func(planner.Progress) {
	done := map[string]string{
		planner.Create: "created", planner.Update: "updated", planner.Delete: "deleted",
		"close": "closed", "wait": "waiting", "seal": "sealed", "export": "exported",
	}
	return func(is planner.Progress) {
		word, ok := done[is.Action]
		if !ok {
			word = is.Action
		}
		note := ""
		if is.Note != "" {
			note = ": " + is.Note
		}
		digits := len(fmt.Sprint(is.Total))
		p.say("[%*d/%d] %s %s%s", digits, is.Done, is.Total, is.Address, word, note)
	}
}

// applySaved carries out a plan that was shown when it was saved.
func (p *program) applySaved(ctx context.Context, o applyOptions, sales []spec.Sale) error {
	text, err := os.ReadFile(o.saved)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	plan, err := planner.DecodePlan(text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.saved, err)
	}
	for _, sale := range sales {
		if sale.Name == plan.Sale {
			return p.eachSale(ctx, o.source, []spec.Sale{sale}, func(sale spec.Sale) error {
				return p.withStore(sale, func(store *backends.Store) error {
					cfg := p.planning(store)
					actual, err := planner.ReadSale(ctx, cfg, sale.Name)
					if err != nil {
						return err
					}
					if plan.Kind == planner.KindDestroy {
						return p.takeDown(ctx, cfg, sale, actual, plan, "", o.json)
					}
					closeGoods, err := newGoods(ctx, &cfg, sale, actual)
					if err != nil {
						return err
					}
					defer closeGoods()
					if cfg.DrawKey, err = secretKey(sale, plan); err != nil {
						return err
					}
					return p.carryOut(ctx, cfg, sale, plan, p.applyView(o.json))
				})
			})
		}
	}
	return &usageError{"salectl apply", fmt.Sprintf(
		"%s is a plan for the sale %s, which no file under -f declares; it says where the sale is kept", o.saved, plan.Sale)}
}

// applyView is all that apply says besides its plan.
type applyView interface {
	Unchanged(*planner.Plan)
	Applied(spec.Sale, *planner.Plan, *planner.Result)
}

func (p *program) applyView(asJSON bool) applyView {
	return pick[applyView](asJSON, (*applyHuman)(p), (*applyJSON)(p))
}

type applyHuman program

// Unchanged is silent: the plan said so.
func (v *applyHuman) Unchanged(*planner.Plan) {}

func (v *applyHuman) Applied(sale spec.Sale, plan *planner.Plan, r *planner.Result) {
	p := (*program)(v)
	defer p.warn(r.Warnings)
	if !r.Changed && len(r.Unmarked) > 0 {
		return // what it could not do is told
	}
	if !r.Changed { // a saved plan that was carried out before
		fmt.Fprintf(v.out, "No changes: generation %d of %s is applied already.\n", r.Generation, sale.Name)
		return
	}
	fmt.Fprintf(v.out, "%s generation %d of %s: %d created, %d updated, %d deleted.\n", p.colours(v.out).green("Applied"),
		r.Generation, sale.Name, r.Summary.Create, r.Summary.Update, r.Summary.Delete)
}

// warn writes what went wrong and does not matter for the result.
func (p *program) warn(warnings []string) {
	for _, w := range warnings {
		p.say("%s %s", p.colours(p.err).yellow("Warning:"), w)
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
	Warnings      []string        `json:"warnings"`
}

func (v *applyJSON) Unchanged(plan *planner.Plan) {
	(*program)(v).emit(applied{
		FormatVersion: formatVersion, Sale: plan.Sale, UID: plan.UID, Generation: plan.Generation,
		Warnings: append([]string{}, plan.Warnings...),
	})
}

func (v *applyJSON) Applied(_ spec.Sale, plan *planner.Plan, r *planner.Result) {
	summary := r.Summary
	if !r.Changed {
		summary = planner.Summary{}
	}
	(*program)(v).emit(applied{
		FormatVersion: formatVersion, Sale: r.Sale, UID: r.UID, Generation: r.Generation, Changed: r.Changed,
		Summary: summary, Shortfall: r.Shortfall, Unmarked: r.Unmarked,
		Warnings: append(append([]string{}, plan.Warnings...), r.Warnings...),
	})
}
