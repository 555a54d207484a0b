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
		Flags: []urfave.Flag{fileFlag(), timeoutFlag(), jsonFlag()},
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			from := parseSource(f)
			if err := f.done(0); err != nil {
				return err
			}
			return p.audit(c.Context, from)
		},
	}
}

func (p *program) audit(ctx context.Context, from source) error {
	var view auditView = (*auditHuman)(p)
	if from.json {
		view = (*auditJSON)(p)
	}
	sales, err := p.load(ctx, from)
	if err != nil {
		return err
	}
	ctx, cancel := from.bounded(ctx)
	defer cancel()
	defer sparing()()
	return p.eachSale(ctx, from, sales, func(sale spec.Sale) error {
		return p.withStore(sale, func(store *backends.Store) error {
			a, err := ledger.NewAudit(ctx, store.Logs, sale.Name)
			if err != nil {
				return readError(ctx, err)
			}
			a.Warn(time.Now())
			view.Audit(a)
			if !a.OK {
				return shown{errAudit}
			}
			return nil
		})
	})
}

// auditView is all that audit says.
type auditView interface{ Audit(*ledger.Audit) }

var (
	_ auditView = (*auditHuman)(nil)
	_ auditView = (*auditJSON)(nil)
)

type auditHuman program

func (v *auditHuman) Audit(a *ledger.Audit) {
	p := (*program)(v)
	c := p.colours(v.out)
	p.gap()
	verdict := c.green("ok")
	if !a.OK {
		verdict = c.red(count(len(a.Problems), "problem"))
	}
	fmt.Fprintf(v.out, "%s: %s\n", c.bold(a.Sale), verdict)
	fmt.Fprintf(v.out, "  %s\n", accounted(a))
	if a.Packets != nil {
		fmt.Fprintf(v.out, "  %s\n", paid(a.Packets))
	}
	fmt.Fprintf(v.out, "  %s and %s read, run %s\n", count(a.Shards, "shard"), count(a.Slots, "slot"), a.UID)
	for _, problem := range a.Problems {
		fmt.Fprintf(v.out, "  %s %s\n", c.red("-"), problem)
	}
	writeWarnings(v.out, c, a.Warnings)
}

// accounted says where the units of a sale are.
func accounted(a *ledger.Audit) string {
	s := fmt.Sprintf("%s of %s sold to %s", grouped(a.Sold), count(a.Stock, "unit"), count(a.Users, "user"))
	for _, where := range []struct {
		units int64
		name  string
	}{{a.Held, "held"}, {a.Available, "available"}, {a.InFlight, "on the way between shards"}} {
		if where.units > 0 {
			s += fmt.Sprintf(", %s %s", grouped(where.units), where.name)
		}
	}
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

type auditJSON program

func (v *auditJSON) Audit(a *ledger.Audit) {
	(*program)(v).emit(struct {
		FormatVersion int `json:"formatVersion"`
		*ledger.Audit
	}{formatVersion, a})
}
