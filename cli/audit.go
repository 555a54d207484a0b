package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	"salectl/cli/terminal"
	"salectl/report"
	"salectl/report/threshold"
	"salectl/spec"
)

func (p *program) auditCommand() *urfave.Command {
	return &urfave.Command{
		Name: "audit", Category: groupInspect, Usage: "verify that every unit is accounted for",
		Description: "Reads the whole ledger and accounts for each unit and each user, also while the sale is " +
			"served. Exits with 3 if it finds a fault. With --user, --unit or --state it also lists " +
			"the claims that match all of them.\n\n" +
			"With --export it reads only an export, also of a destroyed sale, without a sale file or " +
			"a server. It reports the line of each fault, and what the file cannot prove. Flags that select " +
			"sales or claims, --report, --threshold and --timeout cannot be combined with it.",
		Flags: append(salesFlags(valueFlag("export", "audit the export in `FILE`"),
			valueFlag("units-key-file", "with --export: verify encrypted payloads of units, with their key in `FILE`"), reportFlag(), thresholdFlag("sold==100"), timeoutFlag(), allFlag(), jsonFlag()), filterFlags("list")...),
		Action: action(func(f *flags) auditOptions {
			o := auditOptions{source: parseSource(f), reporting: parseReporting(f, report.AuditMeasures), filter: parseFilter(f)}
			o.unitsKey = f.text("units-key-file")
			if o.export = f.text("export"); o.export == "" && o.unitsKey != "" {
				f.refuse("--units-key-file requires --export")
			}
			if o.export != "" {
				for _, other := range []string{"f", "sale", "selector", "report", "threshold", "timeout", "user", "unit", "state"} {
					if f.c.IsSet(other) {
						f.refuse("%s cannot be combined with --export", dashed(other))
					}
				}
			}
			return o
		}, p.audit),
	}
}

type auditOptions struct {
	source
	reporting
	filter export.Filter

	export   string // file to audit instead of sales; "": none
	unitsKey string // file with the key of its units; "": none
}

func (p *program) audit(ctx context.Context, o auditOptions) error {
	if o.export != "" {
		return p.auditExport(o)
	}
	show := pick(o.json, func(a audited) { p.auditText(a, o.all) }, func(a audited) { p.emit(a) })
	defer sparing()()
	return p.forEachReported(ctx, o.source, o.reporting, "audit", func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			logs, end := p.watchRead(ctx, store.Logs, sale.Name, "reading the ledger", 1, o.json)
			page := &report.Page{Sale: sale, Backend: store.Name}
			found, err := auditFinding(ctx, logs, sale, o.filter, func(log *ledger.Sale, shards []*ledger.State) {
				if o.requested() {
					page.Ledger = report.NewLedger(log, shards)
				}
			})
			end()
			if err != nil {
				return readError(ctx, err)
			}
			a := found.Report
			a.Warn(time.Now())
			kept := true
			if page.Audit = a; o.requested() {
				found.Thresholds, kept = threshold.CheckAll(o.thresholds, report.AuditValues(a, page.Ledger))
				page.Thresholds = found.Thresholds
			}
			show(found)
			return p.reported(o.reporting, page, a.OK, errAudit, kept)
		})
	})
}

// audited is the result of audit.
type audited struct {
	*audit.Report
	Thresholds []threshold.Result `json:"thresholds,omitempty"`
	Found      []export.Claim     `json:"found,omitzero"`   // matching claims; nil: no filter was given
	Export     *exportAudit       `json:"export,omitempty"` // audited file; nil: the ledger was audited
}

func (p *program) auditText(a audited, all bool) {
	lists := ""
	if a.Export == nil {
		lists = p.withFlags("'salectl audit --state refund_due'", a.Sale)
	}
	p.view("audit", struct {
		audited
		All   bool
		Lists string // command that lists the claims with a payment that is owed back
	}{a, all, lists})
	if a.Found != nil {
		p.foundText(a.Found)
	}
}

// accountedText describes the distribution of a sale's units.
func accountedText(a *audit.Report) string {
	s := fmt.Sprintf("%s of %s sold", grouped(a.Sold), count(a.Stock, "unit"))
	if a.Held == 0 {
		s += " to " + count(a.Users, "user")
	}
	s += some(a.Held, "held") + some(a.Available, "available") + some(a.InFlight, "in transfer between shards")
	if a.Held > 0 {
		s += "; users with units: " + grouped(a.Users)
	}
	if a.OK {
		s += "; each in one place, nobody beyond the limit"
	}
	return s
}

// filterFlags returns the flags that select claims. what begins their usage.
func filterFlags(what string) []urfave.Flag {
	return []urfave.Flag{
		valueFlag("user", what+" only the claims of user `ID`"),
		valueFlag("unit", what+" only the claims that have unit `N`, or had it last"),
		valueFlag("state", what+" only the claims in `STATE`: "+strings.Join(export.States(), ", ")),
	}
}

func parseFilter(f *flags) export.Filter {
	filter := export.Filter{User: f.text("user"), Unit: f.number("unit", 1, 1<<53, 0)}
	if f.c.IsSet("state") {
		filter.State = f.oneOf("state", export.States()...)
	}
	if filter.User != "" {
		if err := api.CheckUser(filter.User); err != nil {
			f.refuse("--%s", err)
		}
	}
	return filter
}

// auditFinding audits a sale, and finds matching claims in the states that the audit has read,
// so that both use one cut. show is that of audit.Run.
func auditFinding(ctx context.Context, logs ledger.Logs, sale spec.Sale, filter export.Filter, show func(*ledger.Sale, []*ledger.State)) (a audited, err error) {
	var log *ledger.Sale
	var shards []*ledger.State
	a.Report, err = audit.Run(ctx, logs, sale.Name, ledger.NewState, func(read *ledger.Sale, states []*ledger.State) {
		log, shards = read, states
		show(read, states)
	})
	if err != nil || !filter.Set() {
		return a, err
	}
	payloads, err := payloadReader(ctx, logs, sale, log)
	if err != nil {
		return a, err
	}
	a.Found, err = export.Sale{Name: sale.Name, Log: log, Shards: shards, Logs: logs, Payloads: payloads}.Find(ctx, filter)
	return a, err
}

// foundText prints the claims found.
func (p *program) foundText(found []export.Claim) {
	c := p.colours(p.out)
	fmt.Fprintf(p.out, "  %s found\n", count(len(found), "claim"))
	if len(found) == 0 {
		return
	}
	t := terminal.NewTable("claim", "state", "user", "units", "at", "held until", "payment", "owed back", "paid back", "by", "reason")
	for _, f := range found {
		t.Row(f.Claim, f.State, f.User, numbers(f.Units)+ofRequested(f.Requested), f.At, orDash(f.HeldUntil), orDash(f.Payment), orDash(strings.Join(f.Owed(), ", ")), orDash(strings.Join(f.PaidBack(), ", ")),
			orDash(f.Who), orDash(f.Why))
	}
	t.Write(p.out, "  ", c.Dim)
}

func orDash(text string) string { return cmp.Or(text, "-") }
