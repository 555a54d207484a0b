package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
)

// claimOptions is the command line of claim.
type claimOptions struct {
	inquiry
	user     string
	quantity int64
	units    []string // names of units; empty: any
	adjacent bool
	key      string // generated if none is given, so that a repetition is safe
}

func (p *program) claimCommand() *urfave.Command {
	return &urfave.Command{
		Name: "claim", Category: groupSale, Usage: "buy units as a user",
		Description: "Repeats the request with the same key while the server is overloaded, has no majority, " +
			"or does not own the sale. Exit codes: 0 sold, held or entered, 1 no such sale, 3 a rule refuses or the claim has " +
			"ended, 10 sold out or none available now, 11 limit reached, 12 not open, paused or closed, 4 bad request, 7 no answer in time.",
		Flags: inquiryFlags(serverFlag(),
			required(valueFlag("user", "`ID` of the user")),
			valueFlag("quantity", fmt.Sprintf("buy `N` units, all or none unless the sale has partial: true, at most %d (default: 1)", api.MaxQuantity)),
			&urfave.StringSliceFlag{Name: "unit", KeepSpace: true, Usage: "buy unit `NAME`, if the sale lets buyers choose; may be repeated: all or none"},
			onFlag("adjacent", "buy adjacent units, if the sale lets buyers choose"),
			valueFlag("key", "idempotency `KEY`: requests with the same one are one claim (default: a new key)"),
		),
		Action: action(parseClaim, p.claim),
	}
}

func parseClaim(f *flags) claimOptions {
	o := claimOptions{
		inquiry:  parseInquiry(f, "server"),
		quantity: f.number("quantity", 1, api.MaxQuantity, 1),
		units:    f.texts("unit"),
		adjacent: f.on("adjacent"),
	}
	o.user, o.key = f.buyer()
	switch {
	case len(o.units) == 0:
	case api.CheckNames(o.units) != nil:
		f.refuse("--unit: %s", strings.TrimPrefix(api.CheckNames(o.units).Error(), "units: "))
	case o.adjacent, f.c.IsSet("quantity"):
		f.refuse("--unit names the units to buy: leave --quantity and --adjacent out")
	}
	o.key = cmp.Or(o.key, rand.Text())
	return o
}

// again returns the command that repeats the claim with its key.
func (o claimOptions) again() string {
	flags := []string{"user", o.user, "key", o.key}
	if o.quantity != 1 {
		flags = append(flags, "quantity", fmt.Sprint(o.quantity))
	}
	for _, unit := range o.units {
		flags = append(flags, "unit", unit)
	}
	command := o.command("salectl claim %s", flags...)
	if o.adjacent {
		command += " --adjacent"
	}
	return command
}

func (p *program) claim(ctx context.Context, o claimOptions) error {
	r := decision{Sale: o.sale, User: o.user, Key: o.key}
	a, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		return c.Claim(ctx, api.Request{User: o.user, Quantity: o.quantity, Key: o.key, Units: o.units, Adjacent: o.adjacent})
	})
	return p.decided(r, a, err, o.json, doubt{"the claim was accepted", "Repeat the request: " + o.again()})
}
