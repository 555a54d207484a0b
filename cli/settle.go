package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
)

// settleOptions is the command line of claims confirm, extend, cancel and refund.
type settleOptions struct {
	inquiry
	claim string
	how   api.How
	api.Settlement
}

// settleCommands returns the commands that settle a claim.
func (p *program) settleCommands() []*urfave.Command {
	return []*urfave.Command{
		p.settleCommand(api.Confirm, serverFlag(), "confirm payment of a held claim", "0 sold",
			required(valueFlag("payment", fmt.Sprintf("`REFERENCE` of the payment, at most %d bytes", api.MaxPayment)))),
		p.settleCommand(api.Extend, serverFlag(), "extend the deadline of a held claim, once", "0 extended"),
		p.settleCommand(api.Cancel, serverFlag(), "cancel a held claim and release its units", "0 cancelled", forTheBooks()...),
		p.settleCommand(api.Refund, adminFlag(), "refund a sold claim", "0 refunded",
			append(forTheBooks(), onFlag("retire", "withdraw the units instead of selling them again"))...),
	}
}

// forTheBooks returns the flags of cancel and refund for the records.
func forTheBooks() []urfave.Flag {
	return []urfave.Flag{
		required(valueFlag("reason", fmt.Sprintf("record `TEXT` as the reason, at most %d bytes", api.MaxReason))),
		valueFlag("who", fmt.Sprintf("record `NAME` as who did it, at most %d bytes (default: user@host)", api.MaxWho)),
	}
}

func (p *program) settleCommand(how api.How, server *urfave.StringFlag, usage, done string, more ...urfave.Flag) *urfave.Command {
	more = append([]urfave.Flag{claimIDFlag()}, more...)
	return &urfave.Command{
		Name: string(how), Usage: usage,
		Description: "Repeats the request while the server is overloaded, has no majority, or does not own " +
			"the sale; a repeated request has no further effect. Exit codes: " + done + ", 3 the " +
			"claim is in another state, 1 no such claim or sale, 4 bad request, 7 no answer in time.",
		Flags:  inquiryFlags(server, more...),
		Action: action(func(f *flags) settleOptions { return parseSettle(f, how, server.Name) }, p.settle),
	}
}

func parseSettle(f *flags, how api.How, server string) settleOptions {
	o := settleOptions{inquiry: parseInquiry(f, server), claim: f.claimID(), how: how}
	switch how {
	case api.Confirm:
		o.Payment = f.text("payment")
	case api.Cancel, api.Refund:
		o.Reason, o.Who, o.Retire = f.text("reason"), f.text("who"), f.on("retire")
		if o.Who == "" {
			o.Who = who()
		}
	}
	if f.errs == nil {
		if err := o.Check(how); err != nil {
			f.refuse("--%s", err)
		}
	}
	return o
}

func (p *program) settle(ctx context.Context, o settleOptions) error {
	r := decision{Sale: o.sale, ID: o.claim, wanted: o.how.Done()}
	a, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		return c.Settle(ctx, o.claim, o.how, o.Settlement)
	})
	return p.decided(r, a, err, o.json, doubt{"it was done", "Repeat the command: if it was done, it has no further effect."})
}
