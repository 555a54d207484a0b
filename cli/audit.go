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
			"is served. Exits with 3 if anything is wrong.",
		Flags:  []urfave.Flag{fileFlag(), timeoutFlag(), jsonFlag()},
		Action: action(parseSource, p.audit),
	}
}

func (p *program) audit(ctx context.Context, from source) error {
	show := pick(from.json, p.auditText, p.auditJSON)
	defer sparing()()
	return p.forEach(ctx, from, func(ctx context.Context, sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			a, err := ledger.NewAudit(ctx, store.Logs, sale.Name)
			if err != nil {
				return readError(ctx, err)
			}
			a.Warn(time.Now())
			show(a)
			if !a.OK {
				return shown{errAudit}
			}
			return nil
		})
	})
}

func (p *program) auditText(a *ledger.Audit) {
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
	fmt.Fprintf(p.out, "  %s and %s read, run %s\n", count(a.Shards, "shard"), count(a.Slots, "slot"), a.UID)
	for _, problem := range a.Problems {
		fmt.Fprintf(p.out, "  %s %s\n", c.red("-"), problem)
	}
	writeWarnings(p.out, c, a.Warnings)
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

func (p *program) auditJSON(a *ledger.Audit) {
	p.emit(struct {
		FormatVersion int `json:"formatVersion"`
		*ledger.Audit
	}{formatVersion, a})
}
