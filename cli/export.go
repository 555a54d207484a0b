package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/spec"
)

type exportOptions struct {
	source
	out    string // a file, "-" for standard output, "" for the sale's own name
	filter ledger.ClaimFilter
}

func (p *program) exportCommand() *urfave.Command {
	return &urfave.Command{
		Name: "export", Category: groupLook, Usage: "write a sale's ledger to a file",
		Description: "NDJSON: a header, a line a claim, a line a commit. The file is there in full or not at\n" +
			"all; one that is there already with other content is never overwritten. Of a sale that\n" +
			"is selling, it has a consistent cut: every unit is in one place.\n" +
			"With --user, --unit or --state it is an extract: a header that says so and the claims\n" +
			"that match all of them, on standard output unless --out names a file.",
		Flags: append([]urfave.Flag{
			fileFlag(),
			valueFlag("out", "write to `FILE`, or - for standard output; there must be one sale only (default: SALE-UID.live.ndjson)"),
			timeoutFlag(),
		}, filterFlags("write only")...),
		Action: action(func(f *flags) exportOptions {
			return exportOptions{source: parseSource(f), out: f.text("out"), filter: parseFilter(f)}
		}, p.export),
	}
}

func (p *program) export(ctx context.Context, o exportOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	if o.out != "" && len(sales) > 1 {
		return &usageError{"salectl export", fmt.Sprintf("--out names the file of one sale, and -f names %d", len(sales))}
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	defer sparing()()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			log, shards, err := foldAll(ctx, store.Logs, sale.Name)
			if err != nil {
				return readError(ctx, err)
			}
			goods, err := goodsReader(ctx, store.Logs, sale, log)
			if err != nil {
				return err
			}
			uid := log.UID()
			write := func(w io.Writer) error { return ledger.Export(ctx, store.Logs, sale.Name, uid, shards, goods, w) }
			if o.filter.Set() {
				write = func(w io.Writer) error {
					return ledger.Extract(ctx, store.Logs, sale.Name, uid, shards, goods, o.filter, w)
				}
			}
			if o.out == "-" || o.out == "" && o.filter.Set() {
				return write(p.out)
			}
			path := o.out
			if path == "" {
				path = liveExport(sale.Name, uid)
			}
			mode := fs.FileMode(0o644)
			if goods.Secret() {
				mode = 0o600
			}
			if err := saveFile(path, mode, false, write); err != nil {
				return fmt.Errorf("exporting %s: %w", sale.Name, err)
			}
			if o.filter.Set() {
				fmt.Fprintf(p.out, "Extracted claims to %s, which is no export\n", path)
				return nil
			}
			p.exported(path, ledger.Header(sale.Name, uid, shards).Counts)
			return nil
		})
	})
}

// liveExport is another file than destroy's, which would be in its way.
func liveExport(sale, uid string) string { return fmt.Sprintf("%s-%s.live.ndjson", sale, uid) }

// foldAll reads a sale's log, and every shard of its present run.
func foldAll(ctx context.Context, logs ledger.Logs, name string) (sale *ledger.Sale, shards []*ledger.State, err error) {
	log := spec.SaleLog(name)
	sale = ledger.NewSale(log)
	if _, err := ledger.Load(ctx, logs, log, sale); err != nil {
		return nil, nil, err
	}
	switch {
	case sale.UID() == "":
		return nil, nil, fmt.Errorf("sale %s does not exist: %w", name, ledger.ErrGone)
	case sale.Destroyed():
		return nil, nil, fmt.Errorf("sale %s is destroyed, its ledger is in the export that destroy wrote: %w", name, ledger.ErrGone)
	}
	shards, err = ledger.LoadShards(ctx, logs, sale)
	return sale, shards, err
}

// exported is what export says; where the file itself is the answer, nothing.
func (p *program) exported(path string, c ledger.ExportCounts) {
	fmt.Fprintf(p.out, "Exported %s and %s to %s\n", count(c.Claims, "claim"), count(c.Slots, "slot"), path)
}
