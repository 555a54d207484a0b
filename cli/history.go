package cli

import (
	"context"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/planner/current"
	"salectl/spec"
)

func (p *program) historyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "history", Category: groupInspect, Usage: "list the changes of a sale",
		Description: "Lists every generation of a sale, from its own log: when it was planned and applied, by " +
			"whom, the digest of its plan, and its changes. Destroy keeps that log, so that earlier " +
			"runs are listed, too.",
		Flags: salesFlags(
			timeoutFlag(), allFlag(), jsonFlag(),
		),
		Action: action(parseSource, p.history),
	}
}

func (p *program) history(ctx context.Context, from source) error {
	return p.forEach(ctx, from, func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			h, err := current.ReadHistory(ctx, store.Logs, sale.Name)
			if err != nil {
				return err
			}
			if from.json {
				p.emit(h)
				return nil
			}
			p.view("history", struct {
				*current.SaleHistory
				All bool // also the declaration of a new run
			}{h, from.all})
			return nil
		})
	})
}
