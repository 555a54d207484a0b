package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/schollz/progressbar/v3"
	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/cli/terminal"
	"salectl/executor/rehearse"
	"salectl/planner/apply"
	"salectl/report"
	"salectl/report/threshold"
	"salectl/spec"
)

type rehearseOptions struct {
	source
	reporting
	users       int // 0: a number that suits the stock
	concurrency int
	seed        uint64
}

func (p *program) rehearseCommand() *urfave.Command {
	return &urfave.Command{
		Name: "rehearse", Category: groupInspect, Usage: "sell a temporary copy of a sale to simulated buyers",
		Description: "Creates a copy under another name on the same backend, open at once, and serves it in " +
			"this process. Simulated buyers claim in a burst; some repeat requests, some claim too " +
			"much, some choose units if they may. If claims are paid, buyers pay, cancel, pay late or " +
			"twice, with deadlines of seconds. A draw is closed after the entries, and revealed with a " +
			"secret and a beacon value generated for the copy. If rules decide and the users are in a " +
			"file, the buyers are those users. Finally the ledger is audited and the copy removed. " +
			"Exits with 3 if the audit or a buyer finds a fault.",
		Flags: salesFlags(
			valueFlag("users", "simulate `N` buyers (default: 20 per unit, at least 1,000, at most 100,000)"),
			valueFlag("concurrency", fmt.Sprintf("let `N` buyers send requests concurrently (default: %d)", rehearse.DefaultConcurrency)),
			valueFlag("seed", "derive the buyers from seed `N` (default: a random one)"),
			reportFlag(), thresholdFlag("p99<50ms"),
			jsonFlag(),
		),
		Action: action(parseRehearse, p.rehearse),
	}
}

func parseRehearse(f *flags) rehearseOptions {
	const most = 1 << 53 // largest range that every JSON reader represents exactly
	return rehearseOptions{
		source:      parseSource(f),
		reporting:   parseReporting(f, rehearse.Measures),
		users:       int(f.number("users", 1, 1_000_000, 0)),
		concurrency: int(f.number("concurrency", 1, 10_000, rehearse.DefaultConcurrency)),
		seed:        uint64(f.number("seed", 0, most, rand.Int64N(1_000_000))),
	}
}

func (p *program) rehearse(ctx context.Context, o rehearseOptions) error {
	show := pick(o.json, func(r *rehearse.Report) { p.view("rehearsal", r) }, func(r *rehearse.Report) { p.emit(r) })
	return p.forEachReported(ctx, o.source, o.reporting, "rehearse", func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			page, err := p.stage(ctx, o, sale, store)
			if err != nil {
				return err
			}
			r, kept := page.Rehearsal, false
			r.Thresholds, kept = threshold.CheckAll(o.thresholds, r.Values(sale.Stock))
			page.Thresholds = r.Thresholds
			show(r)
			return p.reported(o.reporting, page, r.Verdict() == nil && page.Audit.OK, errRehearsal, kept)
		})
	})
}

// stage rehearses one sale and removes its copy in every case. The returned page has the
// results of the rehearsal and the audit.
func (p *program) stage(ctx context.Context, o rehearseOptions, sale spec.Sale, store *backends.Store) (page *report.Page, err error) {
	c := &copied{program: p, store: store, sale: sale}
	c.sale.Name, c.sale.Run = apply.CopyName(sale.Name), 1
	c.sale.OpensAt, c.sale.ClosesAt = time.Time{}, time.Time{}
	if sale.Payment != nil {
		c.sale.Payment = new(rehearse.Shortened(*sale.Payment))
	}

	if err := c.drawCopy(); err != nil {
		return nil, err
	}
	withoutRules(&c.sale)
	if c.sale.Units != nil && !c.sale.Units.Choose {
		c.sale.Units = nil // simulated buyers receive no real payloads
	}
	users := cmp.Or(o.users, rehearse.DefaultUsers(sale.Stock))
	names, refused, err := c.rehearsedRules(ctx, users)
	if err != nil {
		return nil, err
	}

	// What killed rehearsals of the sale have left.
	if err := apply.RemoveCopies(ctx, c.planning(store), sale.Name, orphanAge); err != nil {
		return nil, err
	}
	defer func() {
		// A signal ends the rehearsal, not the removal; a second one does.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		if _, left := apply.Purge(ctx, c.planning(store), c.sale.Name); left != nil {
			err = errors.Join(err, fmt.Errorf("the copy %s was not removed, the next rehearsal will: %w", c.sale.Name, left))
		}
	}()
	if err := c.apply(ctx); err != nil {
		return nil, err
	}
	places, rows, err := c.places(ctx)
	if err != nil {
		return nil, err
	}
	concurrency := min(o.concurrency, users)
	page = &report.Page{Sale: sale, Backend: store.Name, Concurrency: concurrency, Seed: o.seed}
	p.logf("Rehearsing %s: %s, %s at once, seed %d.\n", sale.Name, count(users, "buyer"), grouped(concurrency), o.seed)
	err = c.serve(ctx, func(url, admin string) error {
		crowd := rehearse.Config{
			URL: url, Admin: admin, Sale: c.sale, Users: users, Concurrency: concurrency, Seed: o.seed,
			Names: names, Refused: refused, Places: places, Rows: rows, Draw: c.drawing(), Progress: p.crowdBar(),
		}
		seen, err := rehearse.Drive(ctx, crowd)
		if err != nil {
			if terminal.IsTerminal(p.err) {
				p.logf("") // below the bar
			}
			return err
		}
		page.Rehearsal = seen
		// Concurrent with the server, as an auditor would.
		page.Audit, err = audit.Run(ctx, store.Logs, c.sale.Name, ledger.NewState, func(log *ledger.Sale, shards []*ledger.State) {
			if o.file != "" {
				page.Ledger = report.NewLedger(log, shards)
			}
		})
		if err == nil && (seen.Payment != nil || c.sale.Draw != nil) {
			err = c.compare(ctx, seen, page.Audit, sale)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	page.Rehearsal.Sale, page.Rehearsal.Backend, page.Rehearsal.Audit = sale.Name, store.Name, page.Audit
	page.Rehearsal.NotTried = notTried(sale, c.sale)
	return page, nil
}

// compare compares the answers to buyers with the ledger, claim by claim.
func (c *copied) compare(ctx context.Context, r *rehearse.Report, audit *audit.Report, declared spec.Sale) error {
	log, shards, err := ledger.LoadSale(ctx, c.store.Logs, c.sale.Name)
	if err != nil {
		return err
	}
	var books []api.Claim
	for shard, s := range shards {
		for i := range s.Claims() {
			b := s.Claim(i)
			books = append(books, api.Claim{
				ID: b.ID(shard), User: b.User, Outcome: api.Outcome(b.State.String()), Units: b.Units,
				Books: api.Books{Payment: b.Payment, RefundDue: b.RefundsDue},
			})
		}
	}
	if c.sale.Draw != nil {
		verified, err := c.verify(ctx, log, shards)
		if err != nil {
			return err
		}
		r.CompareDraw(books, verified)
	} else {
		r.Compare(books)
	}
	if r.Payment == nil {
		return nil
	}
	r.Payment.HoldTimes = audit.HoldTimes
	if terms := declared.Payment.Terms(); terms != r.Payment.Terms {
		r.Payment.Declared = &terms
	}
	return nil
}

// crowdBar returns a function that draws the progress of buyers on a terminal; nil elsewhere.
func (p *program) crowdBar() func(done, total int) {
	if !terminal.IsTerminal(p.err) {
		return nil
	}
	var b *bar
	return func(done, total int) {
		if b == nil {
			b = p.newBar("buyers", int64(total), false, progressbar.OptionShowIts(),
				progressbar.OptionSetItsString("requests"), progressbar.OptionThrottle(50*time.Millisecond))
		}
		b.at(done, "buyers")
	}
}
