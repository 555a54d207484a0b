package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/internal/signals"
	"salectl/spec"
)

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
			f.refuse("--%s does not go with --follow, which writes all events to standard output", name)
		}
	}
	return o
}

// follow prints the feed of a sale.
func (p *program) follow(ctx context.Context, o exportOptions, sales []spec.Sale) error {
	if len(sales) > 1 {
		return &usageError{"salectl export", fmt.Sprintf("--follow is for one sale, but %d are selected", len(sales))}
	}
	ctx, cancel := o.bounded(ctx)
	defer cancel()
	return p.eachSale(ctx, o.source, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			w := bufio.NewWriterSize(p.out, 1<<16)
			lines := json.NewEncoder(w)
			lines.SetEscapeHTML(false)
			r := feed.New(feed.Config{Sale: sale.Name, From: o.follow.from, Now: o.follow.now, Commits: o.follow.commits})
			shell := feed.Shell{Logs: store.Logs, Trouble: func(err error) {
				if err == nil {
					p.say("The ledger can be read again.")
					return
				}
				p.say("The ledger cannot be read, retrying: %v", err)
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
