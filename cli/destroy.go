package cli

import (
	"context"
	"encoding/hex"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/planner"
	"salectl/spec"
)

type destroyOptions struct {
	source
	export string // where the ledger goes; "" for its own name
	yes    bool
}

func (p *program) destroyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "destroy", Category: groupSale, Usage: "export the ledger, then remove a sale",
		Description: "Closes the sale, seals every shard, writes the export and reads it back, and only\n" +
			"then deletes. Killed anywhere and run again, it completes. What stays is one log that\n" +
			"says what the sale came to.",
		Flags: []urfave.Flag{
			fileFlag(),
			valueFlag("export", "write the ledger to `FILE`; there must be one sale only (default: SALE-UID.ndjson)"),
			yesFlag(),
			timeoutFlag(),
			jsonFlag(),
		},
		Action: action(func(f *flags) destroyOptions {
			return destroyOptions{source: parseSource(f), export: f.text("export"), yes: f.on("yes")}
		}, p.destroy),
	}
}

func (p *program) destroy(ctx context.Context, o destroyOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	if o.export != "" && len(sales) > 1 {
		return &usageError{"salectl destroy", fmt.Sprintf("--export names the file of one sale, and -f names %d", len(sales))}
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	defer sparing()()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withActual(ctx, sale, planner.ReadSale, func(cfg planner.Config, actual *planner.Actual) error {
			plan, err := planner.MakeDestroy(actual)
			if err != nil {
				return err
			}
			question := fmt.Sprintf("Export %s and remove it for good?", sale.Name)
			if err := p.propose(ctx, sale, plan, question, o.yes, o.json); err != nil {
				return err
			}
			return p.takeDown(ctx, cfg, sale, actual, plan, o.export, o.json)
		})
	})
}

// takeDown carries out a plan of kind destroy. An empty one of a destroyed sale
// may still have something to remove that no plan shows; for people the plan has said
// that there is nothing.
func (p *program) takeDown(ctx context.Context, cfg planner.Config, sale spec.Sale, actual *planner.Actual, plan *planner.Plan, export string, asJSON bool) error {
	if !plan.Empty() {
		cfg.Progress = p.progress(plan)
	}
	key, err := goodsKey(sale)
	if err != nil {
		return err
	}
	cfg.Key = key
	closeHistory, err := remember(&cfg, actual)
	if err != nil {
		return err
	}
	defer closeHistory()
	result, err := planner.Destroy(ctx, cfg, plan, export)
	switch {
	case err != nil:
		return err
	case plan.Empty() && asJSON:
		p.destroyedJSON(plan, &planner.Result{})
	case asJSON:
		p.destroyedJSON(plan, result)
	case !plan.Empty():
		p.destroyedText(plan, result)
	}
	return nil
}

// remember has cfg keep what users bought, where the sale declares a table for it. Call
// close after the destroy.
func remember(cfg *planner.Config, actual *planner.Actual) (close func() error, err error) {
	nothing := func() error { return nil }
	if !actual.Sale.Live() {
		return nothing, nil // it was kept before the ledger was sealed
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

func (p *program) destroyedText(plan *planner.Plan, r *planner.Result) {
	fmt.Fprintf(p.out, "%s %s.\n", p.colours(p.out).green("Destroyed"), plan.Sale)
	if r.Refund != nil {
		fmt.Fprintf(p.out, "  %s\n", refunded(r.Refund))
	}
	if r.Export != "" {
		fmt.Fprintf(p.out, "  Its ledger is in %s\n  SHA-256 %s\n", r.Export, hex.EncodeToString(r.ExportDigest))
	}
	p.warn(r.Warnings)
}

// refunded says what nobody took of a red packet.
func refunded(r *planner.Refund) string {
	return fmt.Sprintf("Refund %s of %s %s: %s of %s not taken",
		r.Amount, r.Total, r.Currency, grouped(r.Packets), count(r.Packets+r.Granted, "packet"))
}

// destroyed is the JSON of destroy.
type destroyed struct {
	FormatVersion int             `json:"formatVersion"`
	Sale          string          `json:"sale"`
	UID           string          `json:"uid"`
	Changed       bool            `json:"changed"`
	Refund        *planner.Refund `json:"refund,omitempty"` // of a red packet
	Export        string          `json:"export,omitempty"`
	ExportSHA256  string          `json:"exportSha256,omitempty"`
	Warnings      []string        `json:"warnings"`
}

func (p *program) destroyedJSON(plan *planner.Plan, r *planner.Result) {
	p.emit(destroyed{
		FormatVersion: formatVersion, Sale: plan.Sale, UID: plan.UID, Changed: r.Changed, Refund: r.Refund,
		Export: r.Export, ExportSHA256: hex.EncodeToString(r.ExportDigest),
		Warnings: append(append([]string{}, plan.Warnings...), r.Warnings...),
	})
}
