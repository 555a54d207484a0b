package cli

import (
	"context"
	"fmt"
	"io"

	urfave "github.com/urfave/cli/v2"

	"salectl/planner"
	"salectl/spec"
)

type planOptions struct {
	source
	out      string // where to save the plan, "" for nowhere
	detailed bool   // exit with 2 if there are changes
	destroy  bool
}

func (p *program) planCommand() *urfave.Command {
	return &urfave.Command{
		Name: "plan", Category: groupSale, Usage: "show what apply would change",
		Description: "Compares the files with what the backends have. It changes and creates nothing.\n" +
			"A saved plan is carried out by 'salectl apply --plan FILE', as long as nothing has\n" +
			"changed since.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("out", "save the plan in `FILE`; there must be one sale only"),
			onFlag("destroy", "show what destroy would remove"),
			onFlag("detailed-exitcode", "exit with 2 if there are changes, 0 if there are none"),
			timeoutFlag(),
			jsonFlag(),
		},
		Action: action(func(f *flags) planOptions {
			return planOptions{
				source: parseSource(f), out: f.text("out"),
				detailed: f.on("detailed-exitcode"), destroy: f.on("destroy"),
			}
		}, p.plan),
	}
}

func (p *program) plan(ctx context.Context, o planOptions) error {
	show := pick(o.json, p.planText, func(_ spec.Sale, plan *planner.Plan) { p.emit(plan) })
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	if o.out != "" && len(sales) > 1 {
		return &usageError{"salectl plan", fmt.Sprintf("--out saves the plan of one sale, and -f names %d", len(sales))}
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		plan, err := p.makePlan(ctx, sale, o.destroy)
		if err != nil {
			return err
		}
		if o.out != "" {
			if err := savePlan(o.out, plan); err != nil {
				return err
			}
		}
		show(sale, plan)
		if o.out != "" && !o.json {
			p.savedText(plan, o.out)
		}
		if o.detailed && !plan.Empty() {
			return shown{errChanges}
		}
		return nil
	})
}

func (p *program) makePlan(ctx context.Context, sale spec.Sale, destroy bool) (plan *planner.Plan, err error) {
	read := planner.ReadActual
	if destroy {
		read = planner.ReadSale
	}
	err = p.withActual(ctx, sale, read, func(cfg planner.Config, actual *planner.Actual) error {
		if destroy {
			plan, err = planner.MakeDestroy(actual)
		} else {
			actual.Users = p.checkUsers(ctx, sale)
			if err = readGoods(ctx, cfg.Logs, sale, actual); err != nil {
				return err
			}
			plan, err = planner.Make(sale, actual)
		}
		return err
	})
	return plan, err
}

// savePlan writes a plan for apply --plan. Nobody else may read it: it says
// what is about to be sold.
func savePlan(path string, plan *planner.Plan) error {
	text, err := plan.Encode()
	if err != nil {
		return err
	}
	err = saveFile(path, 0o600, true, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	return nil
}
