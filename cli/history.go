package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/cli/terminal"
	"salectl/planner/current"
	"salectl/spec"
)

func (p *program) historyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "history", Category: groupLook, Usage: "list the changes of a sale",
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
	show := pick(from.json, func(h *current.SaleHistory) { p.historyText(h, from.all) }, func(h *current.SaleHistory) { p.emit(h) })
	return p.forEach(ctx, from, func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			h, err := current.ReadHistory(ctx, store.Logs, sale.Name)
			if err != nil {
				return err
			}
			show(h)
			return nil
		})
	})
}

// historyText lists generations. It omits the declaration of a new run unless all is set.
func (p *program) historyText(h *current.SaleHistory, all bool) {
	c := p.colours(p.out)
	for _, run := range h.Runs {
		p.gap()
		fmt.Fprintf(p.out, "%s: run %d, %s\n", c.Bold(h.Sale), run.Run, run.UID)
		for i := range run.Generations {
			p.generationText(&run.Generations[i], c, all)
		}
		for _, event := range []struct{ at, what string }{
			{run.EntriesClosedAt, "the entries were published"},
			{run.DrawnAt, "it was drawn"},
			{run.SealedAt, fmt.Sprintf("it was sealed and exported: %s, %s sold, SHA-256 %s", count(run.Claims, "claim"), count(run.UnitsSold, "unit"), run.ExportDigest)},
			{run.DestroyedAt, "it was destroyed"},
		} {
			if event.at != "" {
				fmt.Fprintf(p.out, "  %s  %s\n", event.at, event.what)
			}
		}
	}
}

func (p *program) generationText(g *current.GenerationRecord, c terminal.Palette, all bool) {
	by := ""
	if g.Who != "" {
		by = " by " + g.Who
	}
	applied := "not on every shard"
	if g.AppliedAt != "" {
		applied = "applied " + g.AppliedAt
	}
	fmt.Fprintf(p.out, "  %s  generation %d%s, %s  %s\n", g.At, g.Generation, by, applied, c.Dim("plan "+shortDigest(g.PlanDigest)))
	if g.Generation == 1 && !all {
		return
	}
	for _, change := range g.Changes {
		fmt.Fprintf(p.out, "      %s\n", changeText(change))
	}
}

func changeText(c current.Change) string {
	switch {
	case c.Before == "":
		return c.Name + " " + c.After
	case c.After == "":
		return fmt.Sprintf("%s %s -> none", c.Name, c.Before)
	}
	return fmt.Sprintf("%s %s -> %s", c.Name, c.Before, c.After)
}

// shortDigest shortens a digest to a length by which people recognize a plan.
func shortDigest(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return strings.TrimSpace(digest)
}
