package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	"salectl/cli/terminal"
	"salectl/spec"
)

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
	t := terminal.NewTable("claim", "state", "user", "units", "at", "held until", "payment", "refund due")
	for _, f := range found {
		t.Row(f.Claim, f.State, f.User, numbers(f.Units)+ofAsked(f.Asked), f.At, orDash(f.HeldUntil), orDash(f.Payment), orDash(strings.Join(f.RefundDue, ", ")))
	}
	t.Write(p.out, "  ", c.Dim)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
