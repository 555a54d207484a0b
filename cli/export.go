package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/spec"
)

type exportOptions struct {
	source
	out    string // file, "-" for standard output, "" for the default name
	filter export.Filter
	csv    bool // table of claims instead of an export
	redact bool // omit the keys of requests
	follow followed
}

func (p *program) exportCommand() *urfave.Command {
	return &urfave.Command{
		Name: "export", Category: groupLook, Usage: "write the ledger of a sale to a file",
		Description: "NDJSON: a header, a line per claim, a line per commit. The file is written completely or " +
			"not at all, and never replaces a file with other content. The export of a sale that is " +
			"selling is a consistent cut: every unit is in one place.\n\n" +
			"With --user, --unit or --state it is an extract: a header and the claims that match all " +
			"of them, on standard output unless --out names a file. With --csv it is a table of " +
			"claims for bookkeeping, which proves nothing. With --redact-keys it can be shared: keys " +
			"of requests are replaced by digests, and secret codes are left out; it still has users " +
			"and payments. With --follow it is a feed: a line per event, as it occurs.",
		Flags: append(salesFlags(
			valueFlag("out", "write to `FILE`, of one sale only; - is standard output (default: SALE-UID.live.ndjson, or .csv)"),
			onFlag("csv", "write a table of claims instead of an export"),
			onFlag("redact-keys", "replace keys of requests by digests, and leave secret codes out"),
			timeoutFlag(),
		), append(filterFlags("export"), followFlags()...)...),
		Action: action(func(f *flags) exportOptions {
			o := exportOptions{
				source: parseSource(f), out: f.text("out"), filter: parseFilter(f),
				csv: f.on("csv"), redact: f.on("redact-keys"), follow: parseFollow(f),
			}
			if o.redact && (o.csv || o.filter.Set()) {
				f.refuse("--redact-keys is for whole exports: a table has no keys, and an extract is for its owner")
			}
			return o
		}, p.export),
	}
}

func (p *program) export(ctx context.Context, o exportOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	if o.follow.on {
		return p.follow(ctx, o, sales)
	}
	if o.out != "" && len(sales) > 1 {
		return &usageError{"salectl export", fmt.Sprintf("--out is for one sale, but %d are selected", len(sales))}
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	defer sparing()()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			toOut := o.out == "-" || o.out == "" && o.filter.Set()
			passes := int64(2) // one to fold, one to write
			if o.filter.Set() {
				passes = 1
			}
			logs, end := p.watchRead(ctx, store.Logs, sale.Name, "reading the ledger", passes, toOut && terminal.IsTerminal(p.out))
			defer end()
			log, shards, err := ledger.LoadSale(ctx, logs, sale.Name)
			if err == nil {
				err = current.ReadWhole(ctx, logs, sale.Name, log, shards)
			}
			if err != nil {
				return readError(ctx, err)
			}
			uid := log.UID()
			write, err := exportWriter(ctx, logs, sale, log, shards, o)
			if err != nil {
				return err
			}
			if toOut {
				return write(p.out)
			}
			path := o.out
			if path == "" {
				path = liveExport(sale.Name, uid)
				switch {
				case o.redact:
					path = strings.TrimSuffix(path, "ndjson") + "redacted.ndjson"
				case o.csv:
					path = strings.TrimSuffix(path, "ndjson") + "csv"
				}
			}
			if err := apply.CheckManifest(path); err != nil {
				return err
			}
			// It has users and the keys of their requests, so only its owner may read it.
			digest, err := saveFile(path, 0o600, false, write)
			if err == nil {
				err = apply.WriteManifest(path, digest)
			}
			if err != nil {
				return fmt.Errorf("exporting %s: %w", sale.Name, err)
			}
			end()
			switch {
			case o.csv:
				fmt.Fprintf(p.out, "Wrote a table of claims to %s; %s has its SHA-256. A table proves nothing: keep an export too.\n", path, files.ManifestPath(path))
				return nil
			case o.filter.Set():
				fmt.Fprintf(p.out, "Extracted claims to %s; %s has its SHA-256. An extract proves nothing: keep an export too.\n", path, files.ManifestPath(path))
				return nil
			}
			p.exported(path, export.NewHeader(sale.Name, uid, shards).Counts)
			return nil
		})
	})
}

// exportWriter returns the function that writes the requested export, extract or table.
func exportWriter(ctx context.Context, logs ledger.Logs, sale spec.Sale, log *ledger.Sale, shards []*ledger.State, o exportOptions) (func(io.Writer) error, error) {
	if o.csv {
		return func(w io.Writer) error {
			return export.WriteCSV(ctx, logs, sale.Name, log, shards, o.filter, w)
		}, nil
	}
	payloads, err := payloadReader(ctx, logs, sale, log)
	if err != nil {
		return nil, err
	}
	if o.filter.Set() {
		return func(w io.Writer) error {
			return export.WriteExtract(ctx, logs, sale.Name, log, shards, payloads, o.filter, w)
		}, nil
	}
	if o.redact {
		return func(w io.Writer) error {
			return export.WriteRedacted(ctx, logs, sale.Name, log, shards, payloads, w)
		}, nil
	}
	return func(w io.Writer) error { return export.Write(ctx, logs, sale.Name, log, shards, payloads, w) }, nil
}

// liveExport returns a file name that differs from that of destroy, which it would block.
func liveExport(sale, uid string) string { return fmt.Sprintf("%s-%s.live.ndjson", sale, uid) }

// exported prints a summary, unless the file itself is the answer.
func (p *program) exported(path string, c export.Counts) {
	fmt.Fprintf(p.out, "Exported %s and %s to %s; %s has its SHA-256\n",
		count(c.Claims, "claim"), count(c.Slots, "slot"), path, files.ManifestPath(path))
}
