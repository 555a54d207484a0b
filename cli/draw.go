package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	urfave "github.com/urfave/cli/v2"

	"salectl/draw"
	"salectl/internal/files"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/spec"
	"salectl/units"
)

func (p *program) drawCommand() *urfave.Command {
	return group("draw", groupSale, "close, reveal and verify draws",
		"Of a sale with queue: {order: draw}. Until closesAt each claim is an entry. After the reveal, serve awards the units. A sale that is closed for good awards no more units.",
		p.drawCloseCommand(), p.drawRevealCommand(), p.drawVerifyCommand(), p.drawListCommand())
}

// drawn describes the progress of a draw in lines; nil: the sale is no draw.
func (p *program) drawn(sale string, d *draw.Status) (lines []string) {
	if d == nil {
		return nil
	}
	lines = append(lines, fmt.Sprintf("a draw of %s, with %s, committed to %v", count(d.Winners, "unit"), count(d.Substitutes, "substitute"), d.Commitment))
	if b := d.Beacon; b != nil {
		how := fmt.Sprintf("by round %s of %s", b.Round, b.Name)
		switch {
		case b.Value != "":
			how += ": " + b.Value
		case d.Revealed:
			how = fmt.Sprintf("by the secret alone, since no value of round %s of %s was given", b.Round, b.Name)
		}
		lines = append(lines, how)
	}
	if d.Root == nil {
		return append(lines, fmt.Sprintf("%s so far", entries(d.Entries)))
	}
	lines = append(lines, fmt.Sprintf("%s, with the root %v", entries(d.Entries), d.Root))
	switch {
	case d.Complete:
		lines = append(lines, fmt.Sprintf("revealed: %v; %s, %s", d.Link, count(d.Ranks, "rank"), count(d.Lapsed, "award")+" that lapsed"))
	case d.Revealed:
		lines = append(lines, p.withFlags(fmt.Sprintf("revealed: %v; not all ranks are published: run 'salectl draw reveal' again", d.Link), sale))
	default:
		lines = append(lines, p.withFlags("not revealed yet: 'salectl draw reveal' does that", sale))
	}
	return lines
}

// entries formats a number as "1 entry" or "12 entries".
func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return grouped(n) + " entries"
}

func (p *program) drawCloseCommand() *urfave.Command {
	return &urfave.Command{
		Name: "close", Usage: "stop entries and publish their root",
		Description: "After closesAt: 'salectl status' then shows the root of all entries, " +
			"to be noted before the value of the beacon is known. 'salectl draw reveal' also does it.",
		Flags:  salesFlags(timeoutFlag(), jsonFlag()),
		Action: action(parseSource, p.drawClose),
	}
}

func (p *program) drawClose(ctx context.Context, o source) error {
	return p.forEach(ctx, o, func(ctx context.Context, sale spec.Sale) error {
		return p.withSale(ctx, sale, func(cfg apply.Config, actual *planner.Actual) error {
			plan, err := planner.MakeCloseDraw(actual)
			if err != nil {
				return err
			}
			return p.carryOut(ctx, cfg, plan, o.json, func(r *apply.Result) string {
				text := fmt.Sprintf("The entries of %s are published: 'salectl status' shows their root", sale.Name)
				if r == nil {
					return "No changes. " + text + "."
				}
				return text + ", to be noted by all."
			})
		})
	})
}

// revealOptions is the command line of draw reveal.
type revealOptions struct {
	source
	beacon   []byte // nil: none was given
	fallback bool
	yes      bool
}

func (p *program) drawRevealCommand() *urfave.Command {
	return &urfave.Command{
		Name: "reveal", Usage: "reveal the secret and draw the winners",
		Description: "After closesAt. Asks for confirmation: the secret and the order cannot be changed afterwards. " +
			"A process that serves the sale then awards the units. If it was interrupted, run it again: it completes.",
		Flags: salesFlags(
			valueFlag("beacon", "value of the declared round of the beacon, in `HEX`"),
			onFlag("fallback", "use the declared fallback, because the beacon has no value for that round"),
			yesFlag(), timeoutFlag(), jsonFlag(),
		),
		Action: action(func(f *flags) revealOptions {
			o := revealOptions{source: parseSource(f), fallback: f.on("fallback"), yes: f.on("yes")}
			o.beacon = f.hex("beacon")
			if o.fallback && o.beacon != nil {
				f.refuse("--fallback is for a beacon without a value: use --beacon or --fallback")
			}
			return o
		}, p.drawReveal),
	}
}

func (p *program) drawReveal(ctx context.Context, o revealOptions) error {
	return p.forEach(ctx, o.source, func(ctx context.Context, sale spec.Sale) error {
		return p.withSale(ctx, sale, func(cfg apply.Config, actual *planner.Actual) error {
			plan, err := planner.MakeReveal(actual, o.beacon, o.fallback)
			if err != nil {
				return err
			}
			if actual.Sale.Drawn() == nil {
				if cfg.DrawKey, err = units.DrawKey(sale, os.LookupEnv); err != nil {
					return err
				}
			}
			if !plan.Empty() {
				if err := p.confirm(ctx, fmt.Sprintf("Reveal the draw of %s for good?", sale.Name), o.yes, o.json); err != nil {
					return err
				}
			}
			return p.carryOut(ctx, cfg, plan, o.json, func(r *apply.Result) string {
				if r == nil {
					return fmt.Sprintf("No changes. All of the draw of %s is published.", sale.Name)
				}
				return fmt.Sprintf("The draw of %s is revealed. 'salectl status' shows it, 'salectl export' has the ranks.", sale.Name)
			})
		})
	})
}

// verifyOptions is the command line of draw verify.
type verifyOptions struct {
	path string // path of an export, "-" for standard input
	draw.Options
	json bool
}

func (p *program) drawVerifyCommand() *urfave.Command {
	return &urfave.Command{
		Name: "verify", Usage: "recompute a draw from an export", ArgsUsage: "EXPORT",
		Description: "Reads only the export; - is standard input. Exits with 3 if it finds a fault, and " +
			"reports its place. With --user it prints the rank of a user; in a list without users, " +
			"the key of the user's request identifies the entry.",
		Flags: []urfave.Flag{
			valueFlag("user", "print the rank of user `ID`"),
			valueFlag("key", "`KEY` of that user's request, required for a list without users"),
			valueFlag("beacon", "compare the draw with the value of the beacon's round, in `HEX`"),
			valueFlag("commitment", "compare the draw with the commitment published before the first entry, in `HEX`"),
			valueFlag("root", "compare the draw with the root published at the close, in `HEX`"),
			jsonFlag(),
		},
		Action: actionUpTo(1, func(f *flags) verifyOptions {
			o := verifyOptions{path: f.argument("name the export to verify"), json: f.on("json"), Options: draw.Options{
				User: f.text("user"), Key: f.text("key"), Beacon: f.hex("beacon"), Commitment: f.digest("commitment"), Root: f.digest("root"),
			}}
			if o.Key != "" && o.User == "" {
				f.refuse("--key needs --user: it is the key of that user's request")
			}
			return o
		}, p.drawVerify),
	}
}

// openExport opens an export, or standard input.
func (p *program) openExport(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(p.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, files.Explain(path, err)
	}
	return f, nil
}

// exportError returns the error of reading an export.
func exportError(path string, err error) error {
	if errors.As(err, new(*fs.PathError)) {
		return files.Explain(path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (p *program) drawListCommand() *urfave.Command {
	return &urfave.Command{
		Name: "list", Usage: "write the public list of entries of an export", ArgsUsage: "EXPORT",
		Description: "Reads an export, or standard input for -, and prints what 'salectl draw verify' needs of " +
			"it, without users, keys, payments and commits.",
		Action: actionUpTo(1, func(f *flags) string { return f.argument("name the export whose entries to list") }, p.drawList),
	}
}

func (p *program) drawList(_ context.Context, path string) error {
	from, err := p.openExport(path)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := draw.Publish(from, p.out); err != nil {
		return exportError(path, err)
	}
	return nil
}

var errDraw = errors.New("the draw differs from what was published")

func (p *program) drawVerify(_ context.Context, o verifyOptions) error {
	from, err := p.openExport(o.path)
	if err != nil {
		return err
	}
	defer from.Close()
	r, err := draw.Verify(from, o.Options)
	switch {
	case errors.Is(err, draw.ErrKeyNeeded):
		return &usageError{"salectl draw verify", fmt.Sprintf("%s: %v: pass the key of %s with --key", o.path, err, o.User)}
	case err != nil:
		return exportError(o.path, err)
	}
	if note := orderNote(o, r); note != "" {
		r.Notes = append([]string{note}, r.Notes...)
	}
	if o.json {
		p.emit(r)
	} else {
		p.view("verified", struct {
			*draw.Report
			User, Key string
		}{r, o.User, o.Key})
	}
	if !r.OK {
		return shown{errDraw}
	}
	return nil
}

// orderNote describes the beacon value that determined the order; "" if there is no beacon.
// The file does not prove that it is the value of that round.
func orderNote(o verifyOptions, r *draw.Report) string {
	b := r.Beacon
	switch {
	case b == nil:
		return ""
	case !r.Revealed:
		return fmt.Sprintf("the value of round %s of %s will decide the order", b.Round, b.Name)
	case b.Value == "":
		return fmt.Sprintf("the fallback was used: the operator declares that round %s of %s has no value", b.Round, b.Name)
	case o.Options.Beacon == nil:
		return fmt.Sprintf("by the value %s of round %s of %s: look it up there, or pass --beacon", b.Value, b.Round, b.Name)
	}
	return fmt.Sprintf("by the value %s of round %s of %s; --beacon is %x", b.Value, b.Round, b.Name, o.Options.Beacon)
}
