package cli

import (
	"context"
	"encoding/hex"
	"fmt"

	urfave "github.com/urfave/cli/v2"

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
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			o := destroyOptions{source: parseSource(f), export: f.text("export"), yes: f.on("yes")}
			if err := f.done(0); err != nil {
				return err
			}
			return p.destroy(c.Context, o)
		},
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
			return p.takeDown(ctx, cfg, plan, o.export, p.destroyView(o.json))
		})
	})
}

// takeDown carries out a plan of kind destroy. An empty one of a destroyed sale
// may still have something to remove that no plan shows.
func (p *program) takeDown(ctx context.Context, cfg planner.Config, plan *planner.Plan, export string, view destroyView) error {
	if plan.Empty() {
		_, err := planner.Destroy(ctx, cfg, plan, export)
		if err == nil {
			view.Nothing(plan)
		}
		return err
	}
	cfg.Progress = p.progress(plan)
	result, err := planner.Destroy(ctx, cfg, plan, export)
	if err != nil {
		return err
	}
	view.Destroyed(plan, result)
	return nil
}

// destroyView is all that destroy says besides its plan.
type destroyView interface {
	Nothing(*planner.Plan)
	Destroyed(*planner.Plan, *planner.Result)
}

var (
	_ destroyView = (*destroyHuman)(nil)
	_ destroyView = (*destroyJSON)(nil)
)

func (p *program) destroyView(asJSON bool) destroyView {
	if asJSON {
		return (*destroyJSON)(p)
	}
	return (*destroyHuman)(p)
}

type destroyHuman program

// Nothing is silent: the plan said so.
func (v *destroyHuman) Nothing(*planner.Plan) {}

func (v *destroyHuman) Destroyed(plan *planner.Plan, r *planner.Result) {
	p := (*program)(v)
	fmt.Fprintf(v.out, "%s %s.\n", p.colours(v.out).green("Destroyed"), plan.Sale)
	if r.Refund != nil {
		fmt.Fprintf(v.out, "  %s\n", refunded(r.Refund))
	}
	if r.Export != "" {
		fmt.Fprintf(v.out, "  Its ledger is in %s\n  SHA-256 %s\n", r.Export, hex.EncodeToString(r.ExportDigest))
	}
	p.warn(r.Warnings)
}

// refunded says what nobody took of a red packet.
func refunded(r *planner.Refund) string {
	return fmt.Sprintf("Refund %s of %s %s: %s of %s not taken",
		r.Amount, r.Total, r.Currency, grouped(r.Packets), count(r.Packets+r.Granted, "packet"))
}

type destroyJSON program

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

func (v *destroyJSON) Nothing(plan *planner.Plan) {
	(*program)(v).emit(destroyed{FormatVersion: formatVersion, Sale: plan.Sale, UID: plan.UID, Warnings: append([]string{}, plan.Warnings...)})
}

func (v *destroyJSON) Destroyed(plan *planner.Plan, r *planner.Result) {
	(*program)(v).emit(destroyed{
		FormatVersion: formatVersion, Sale: plan.Sale, UID: plan.UID, Changed: r.Changed, Refund: r.Refund,
		Export: r.Export, ExportSHA256: hex.EncodeToString(r.ExportDigest),
		Warnings: append(append([]string{}, plan.Warnings...), r.Warnings...),
	})
}
