package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/cli/planview"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/spec"
)

// phaseOptions is the command line of pause, resume and close.
type phaseOptions struct {
	source
	phase pb.Phase
	yes   bool
	all   bool // no flag selects sales
}

func (p *program) pauseCommand() *urfave.Command {
	return p.phaseCommand("pause", pb.Phase_PAUSED, "pause a sale",
		"Once the command has returned, no claim is accepted until resume; claims are answered with paused. "+bulk)
}

func (p *program) resumeCommand() *urfave.Command {
	return p.phaseCommand("resume", pb.Phase_OPEN, "open a paused sale again", bulk)
}

func (p *program) closeCommand() *urfave.Command {
	return p.phaseCommand("close", pb.Phase_CLOSED, "close a sale for good",
		"Asks for confirmation. Once the command has returned, no claim is accepted any more. A "+
			"closed sale can be read, exported and destroyed, but not opened again. In a draw, an entry without a unit then wins none.")
}

// bulk ends the description of a command that prompts only before it changes all sales.
const bulk = "Asks for confirmation if the files declare several sales, and neither --sale nor --selector selects some."

func (p *program) phaseCommand(name string, phase pb.Phase, usage, description string) *urfave.Command {
	return &urfave.Command{
		Name: name, Category: groupSale, Usage: usage, Description: description,
		Flags: salesFlags(yesFlag(), timeoutFlag(), jsonFlag()),
		Action: action(func(f *flags) phaseOptions {
			return phaseOptions{source: parseSource(f), phase: phase, yes: f.on("yes"), all: !f.c.IsSet("sale") && !f.c.IsSet("selector")}
		}, p.setPhase),
	}
}

func (p *program) setPhase(ctx context.Context, o phaseOptions) error {
	confirm := func(sales []spec.Sale) error {
		if o.phase == pb.Phase_CLOSED || !o.all || len(sales) < 2 {
			return nil
		}
		return p.confirm(ctx, fmt.Sprintf("Shall all %d sales be %s?", len(sales), phaseWords[o.phase]), o.yes, o.json)
	}
	return p.forEachIf(ctx, o.source, confirm, func(ctx context.Context, sale spec.Sale) error {
		return p.withSale(ctx, sale, func(cfg apply.Config, actual *planner.Actual) error {
			plan, err := planner.MakePhase(actual, o.phase)
			if err != nil {
				return err
			}
			if !o.json {
				p.warn(p.completed(plan.Warnings, sale.Name)) // no view of the plan prints them
			}
			if o.phase == pb.Phase_CLOSED && !plan.Empty() {
				question := fmt.Sprintf("Close %s for good?", sale.Name)
				if err := p.confirm(ctx, question, o.yes, o.json); err != nil {
					return err
				}
			}
			return p.carryOut(ctx, cfg, plan, o.json, func(r *apply.Result) string {
				if r == nil {
					return planview.NothingToDo(plan)
				}
				return fmt.Sprintf("%s is %s, as generation %d.", sale.Name, phaseWords[o.phase], r.Generation)
			})
		})
	})
}

// phaseWords describe a sale whose phase was set.
var phaseWords = map[pb.Phase]string{
	pb.Phase_OPEN: "open again", pb.Phase_PAUSED: "paused", pb.Phase_CLOSED: "closed for good",
}
