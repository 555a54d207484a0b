package cli

import (
	"context"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/spec"
)

func (p *program) auditCommand() *urfave.Command {
	return &urfave.Command{
		Name: "audit", Category: groupLook, Usage: "prove that every unit is in one place",
		Description: "Reads the whole ledger and accounts for each unit and each user, also while the sale\n" +
			"is served. Exits with 3 if anything is wrong. With --user, --unit or --state it also\n" +
			"lists the claims that match all of them, as the ledger has them just after.",
		Flags: append([]urfave.Flag{fileFlag(), timeoutFlag(), jsonFlag()}, filterFlags("list")...),
		Action: action(func(f *flags) auditOptions {
			return auditOptions{source: parseSource(f), filter: parseFilter(f)}
		}, p.audit),
	}
}

type auditOptions struct {
	source
	filter ledger.ClaimFilter
}

func (p *program) audit(ctx context.Context, o auditOptions) error {
	show := pick(o.json, p.auditText, p.auditJSON)
	defer sparing()()
	return p.forEach(ctx, o.source, func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			a, err := ledger.NewAudit(ctx, store.Logs, sale.Name)
			if err != nil {
				return readError(ctx, err)
			}
			a.Warn(time.Now())
			var found []ledger.ExportClaim
			if o.filter.Set() {
				if found, err = find(ctx, store.Logs, sale, o.filter); err != nil {
					return readError(ctx, err)
				}
			}
			show(a, found)
			if !a.OK {
				return shown{errAudit}
			}
			return nil
		})
	})
}

// auditText writes an audit, and the claims that were found; nil: none were looked for.
func (p *program) auditText(a *ledger.Audit, found []ledger.ExportClaim) {
	c := p.colours(p.out)
	p.gap()
	verdict := c.green("ok")
	if !a.OK {
		verdict = c.red(count(len(a.Problems), "problem"))
	}
	fmt.Fprintf(p.out, "%s: %s\n", c.bold(a.Sale), verdict)
	fmt.Fprintf(p.out, "  %s\n", accounted(a))
	if a.Packets != nil {
		fmt.Fprintf(p.out, "  %s\n", paid(a.Packets))
	}
	for _, line := range becameOf(a) {
		fmt.Fprintf(p.out, "  %s\n", line)
	}
	fmt.Fprintf(p.out, "  %s and %s read, run %s\n", count(a.Shards, "shard"), count(a.Slots, "slot"), a.UID)
	for _, problem := range a.Problems {
		fmt.Fprintf(p.out, "  %s %s\n", c.red("-"), problem)
	}
	writeWarnings(p.out, c, a.Warnings)
	if found != nil {
		p.foundText(found)
	}
}

// becameOf says what became of claims that were not just sold; nothing where all were.
func becameOf(a *ledger.Audit) (lines []string) {
	o := a.Outcomes
	if o == (ledger.Outcomes{}) {
		return nil
	}
	lines = append(lines, fmt.Sprintf("claims: %s held, %s paid, %s expired, %s cancelled, %s refunded, %s sold after they had expired",
		grouped(o.OpenHolds), grouped(o.Confirmed), grouped(o.Expired), grouped(o.Cancelled), grouped(o.Refunded), grouped(o.Resold)))
	if o.RefundsDue > 0 {
		lines = append(lines, fmt.Sprintf("%s bought nothing and must be paid back: --state refund_due lists their claims", count(o.RefundsDue, "payment")))
	}
	if h := a.HoldTimes; h != nil {
		lines = append(lines, fmt.Sprintf("units lay in %s that ended: half of the units up to %.1f s, the longest %.1f s, %.1f unit-seconds in all",
			count(h.Holds, "hold"), h.P50, h.Max, h.UnitSeconds))
	}
	return lines
}

// accounted says where the units of a sale are.
func accounted(a *ledger.Audit) string {
	s := fmt.Sprintf("%s of %s sold to %s", grouped(a.Sold), count(a.Stock, "unit"), count(a.Users, "user")) +
		some(a.Held, "held") + some(a.Available, "available") + some(a.InFlight, "on the way between shards")
	if a.OK {
		s += "; each in one place, nobody beyond the limit"
	}
	return s
}

// paid says what became of a red packet's money.
func paid(r *ledger.PacketsAudit) string {
	return fmt.Sprintf("%s %s in %s: %s granted in %s, %s left",
		r.Total, r.Currency, count(r.Packets, "packet"), r.Granted, grouped(r.Taken), r.Left)
}

func (p *program) auditJSON(a *ledger.Audit, found []ledger.ExportClaim) {
	p.emit(struct {
		FormatVersion int `json:"formatVersion"`
		*ledger.Audit
		// Found are the claims that were looked for.
		Found []ledger.ExportClaim `json:"found,omitzero"`
	}{formatVersion, a, found})
}
