package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/cli/terminal"
	"salectl/internal/files"
	"salectl/internal/signals"
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
		Name: "export", Category: groupInspect, Usage: "write the ledger of a sale to a file",
		Description: "NDJSON: a header, a line per claim, a line per commit. The file is written completely or " +
			"not at all, and never replaces a file with other content. The export of a sale that is " +
			"selling is a consistent cut: every unit is in one place.\n\n" +
			"With --user, --unit or --state it is an extract: a header and the claims that match all " +
			"of them. With --csv it is a table of claims for bookkeeping. Extracts and tables are " +
			"printed unless --out names a file, and prove nothing. With --redact-keys an export can " +
			"be shared: keys of requests are replaced by digests, and secret codes are left out; it " +
			"still has users and payments. With --follow it is a feed: a line per event, as it occurs.",
		Flags: append(salesFlags(
			valueFlag("out", "write to `FILE`, of one sale only; - is standard output (default: SALE-UID.live.ndjson; of a table or an extract -)"),
			onFlag("csv", "write a table of claims, of one sale, instead of an export"),
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
			if filepath.Ext(o.out) == ".csv" && !o.csv {
				f.refuse("--out %s is the name of a table: add --csv, or let it end with .ndjson", o.out)
			}
			return o
		}, p.export),
	}
}

func (p *program) export(ctx context.Context, o exportOptions) error {
	if o.follow.on {
		return p.follow(ctx, o)
	}
	defer sparing()()
	only := isForOne("export", "out", o.out != "")
	if o.csv {
		only = isForOne("export", "csv", true)
	}
	return p.forEachIf(ctx, o.source, only, func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			toOut := o.out == "-" || o.out == "" && (o.filter.Set() || o.csv)
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
			write, err := exportWriter(ctx, logs, sale, log, shards, o)
			if err != nil {
				return err
			}
			if toOut {
				return write(p.out)
			}
			path := cmp.Or(o.out, fmt.Sprintf("%s-%s.live.%s", sale.Name, log.UID(), o.extension()))
			if err := files.CheckManifest(path); err != nil {
				return withFlag(err, "--out")
			}
			var saving files.Saving // it has users and the keys of their requests, so only its owner may read it
			digest, err := saving.Save(path, write)
			if err == nil {
				err = saving.WriteManifest(path, digest)
			}
			if err != nil {
				return withFlag(fmt.Errorf("exporting %s: %w", sale.Name, err), "--out")
			}
			end()
			p.exported(path, o, export.CountsOf(shards))
			return nil
		})
	})
}

// exportWriter returns the function that writes the requested export, extract or table.
func exportWriter(ctx context.Context, logs ledger.Logs, sale spec.Sale, log *ledger.Sale, shards []*ledger.State, o exportOptions) (func(io.Writer) error, error) {
	x := export.Sale{Name: sale.Name, Log: log, Shards: shards, Logs: logs, Redacted: o.redact}
	if o.csv {
		return func(w io.Writer) error { return x.WriteCSV(ctx, o.filter, w) }, nil
	}
	var err error
	if x.Payloads, err = payloadReader(ctx, logs, sale, log); err != nil {
		return nil, err
	}
	if o.filter.Set() {
		return func(w io.Writer) error { return x.WriteExtract(ctx, o.filter, w) }, nil
	}
	return func(w io.Writer) error { return x.Write(ctx, w) }, nil
}

// extension ends the default name of the file, which differs from that of destroy: it would block
// that.
func (o exportOptions) extension() string {
	if o.redact {
		return "redacted.ndjson"
	}
	return "ndjson"
}

// exported prints a summary, unless the file itself is the answer.
func (p *program) exported(path string, o exportOptions, c export.Counts) {
	switch manifest := files.ManifestPath(path); {
	case o.csv:
		fmt.Fprintf(p.out, "Wrote a table of claims to %s; %s has its SHA-256. A table proves nothing: keep an export too.\n", path, manifest)
	case o.filter.Set():
		fmt.Fprintf(p.out, "Extracted claims to %s; %s has its SHA-256. An extract proves nothing: keep an export too.\n", path, manifest)
	default:
		fmt.Fprintf(p.out, "Exported %s and %s to %s; %s has its SHA-256\n", count(c.Claims, "claim"), count(c.Slots, "slot"), path, manifest)
	}
}

// followed are the options of export --follow.
type followed struct {
	on      bool
	from    *feed.Position // nil: beginning of the run
	now     bool           // from the current end of the ledger
	commits bool
}

func followFlags() []urfave.Flag {
	return []urfave.Flag{
		onFlag("follow", "print each event as it occurs, until Ctrl-C or the sale is destroyed; see docs/feed.md"),
		valueFlag("from", "with --follow: continue at `POSITION`, from a line of type salectl.resolved, or at the end of the ledger: now (default: its beginning)"),
		onFlag("commits", "with --follow: also print the stored bytes of the ledger, which prove the events"),
	}
}

func parseFollow(f *flags) (o followed) {
	o = followed{on: f.on("follow"), commits: f.on("commits")}
	switch from := f.text("from"); {
	case from == "now":
		o.now = true
	case from != "":
		position, err := feed.ParsePosition(from)
		if err != nil {
			f.refuse("--from: %v; copy the position of a line of type %s, or write now", err, feed.TypeResolved)
		}
		o.from = &position
	}
	for _, name := range []string{"from", "commits"} {
		if f.c.IsSet(name) && !o.on {
			f.refuse("--%s needs --follow", name)
		}
	}
	for _, name := range []string{"out", "csv", "redact-keys", "user", "unit", "state"} {
		if f.c.IsSet(name) && o.on {
			f.refuse("--%s cannot be combined with --follow, which writes all events to standard output", name)
		}
	}
	return o
}

// follow prints the feed of a sale.
func (p *program) follow(ctx context.Context, o exportOptions) error {
	return p.forEachIf(ctx, o.source, isForOne("export", "follow", true), func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			w := bufio.NewWriterSize(p.out, 1<<16)
			lines := json.NewEncoder(w)
			lines.SetEscapeHTML(false)
			r := feed.New(feed.Config{Sale: sale.Name, From: o.follow.from, Now: o.follow.now, Commits: o.follow.commits})
			shell := feed.Shell{Logs: store.Logs, Trouble: func(err error) {
				if err == nil {
					p.logf("The ledger can be read again.")
					return
				}
				p.logf("The ledger cannot be read, retrying: %v", err)
			}}
			return explained(feed.Follow(ctx, shell, r, func(b *feed.Batch) error {
				for i := range b.Events {
					if err := lines.Encode(&b.Events[i]); err != nil {
						return err
					}
				}
				return w.Flush()
			}))
		})
	})
}

// explained adds a remedy to the error of a feed that cannot continue.
func explained(err error) error {
	switch {
	case errors.Is(err, signals.ErrInterrupted):
		return nil // the usual end of a follow
	case errors.Is(err, feed.ErrForeign):
		return advised{err.Error(), "Start without --from, and discard the events before that position.", err}
	case errors.Is(err, feed.ErrGone) && !errors.Is(err, ledger.ErrGone):
		return advised{err.Error(), "Read the rest from that export: 'salectl audit --export FILE' checks it.", err}
	}
	return err
}
