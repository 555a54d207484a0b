package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
)

// claimsOptions is the command line of claims get and claims list.
type claimsOptions struct {
	inquiry
	user, claim string // list has the user, get the claim
	page        api.Page
}

// older returns the command that shows the next page.
func (o claimsOptions) older(next string) string {
	format, limit := "salectl claims list %s", ""
	if o.claim != "" {
		format = "salectl claims get %s"
	}
	if o.page.Limit != 0 {
		limit = fmt.Sprint(o.page.Limit)
	}
	return o.inquiry.command(format, "user", o.user, "claim", o.claim, "limit", limit, "before", next)
}

func (p *program) claimsCommand() *urfave.Command {
	return group("claims", groupSale, "show, confirm, extend, cancel and refund claims, at a server",
		"Queries and changes claims that a server has accepted.",
		append([]*urfave.Command{p.claimsGetCommand(), p.claimsListCommand()}, p.settleCommands()...)...)
}

func (p *program) claimsGetCommand() *urfave.Command {
	return &urfave.Command{
		Name: "get", Usage: "show one claim",
		Description: "Shows the state, units, deadline and payments of a claim, and the newest of its refunds " +
			"that are due. " + lookUpCodes,
		Flags: inquiryFlags(serverFlag(), claimIDFlag(), beforeFlag("refunds"), limitFlag("refunds", api.DefaultRefunds)),
		Action: action(func(f *flags) claimsOptions {
			return claimsOptions{inquiry: parseInquiry(f, "server"), claim: f.claimID(), page: f.page()}
		}, p.claims),
	}
}

func (p *program) claimsListCommand() *urfave.Command {
	return &urfave.Command{
		Name: "list", Usage: "list the newest claims of a user",
		Description: "Shows the state, units, deadline and payments of each claim, in the order of acceptance; a user may have none. " + lookUpCodes,
		Flags: inquiryFlags(serverFlag(), required(valueFlag("user", "`ID` of the user")),
			beforeFlag("claims"), limitFlag("claims", api.DefaultClaims)),
		Action: action(func(f *flags) claimsOptions {
			o := claimsOptions{inquiry: parseInquiry(f, "server"), user: f.text("user"), page: f.page()}
			if o.user != "" {
				if err := api.CheckUser(o.user); err != nil {
					f.refuse("--%s", err)
				}
			}
			return o
		}, p.claims),
	}
}

// lookUpCodes ends the description of a query of claims.
const lookUpCodes = "Repeats the query while the server is overloaded or does not own the sale. " +
	"Exit codes: 0 answered, 1 no such claim or sale, 4 bad request, 7 no answer in time."

func claimIDFlag() urfave.Flag {
	return required(valueFlag("claim", "`ID` of the claim, from the answer that accepted it"))
}

// claimID returns the claim, without the apostrophe that it has in a table of export --csv.
func (f *flags) claimID() string { return strings.TrimPrefix(f.text("claim"), "'") }

func beforeFlag(what string) urfave.Flag {
	return valueFlag("before", "show "+what+" before `CURSOR`, which the output of a command has if there are older ones")
}

func limitFlag(what string, ifAbsent int) urfave.Flag {
	return valueFlag("limit", fmt.Sprintf("show at most `N` %s, at most %d (default: %d)", what, api.MaxPage, ifAbsent))
}

// page parses the flags of a page of a list.
func (f *flags) page() api.Page {
	return api.Page{Before: f.text("before"), Limit: int(f.number("limit", 1, api.MaxPage, 0))}
}

// claimsReply is the output of claims get and claims list with --json.
type claimsReply struct {
	Sale   string      `json:"sale"`
	Claims []api.Claim `json:"claims"`
	Next   string      `json:"next,omitempty"` // value of --before for older claims
}

func (p *program) claims(ctx context.Context, o claimsOptions) error {
	claims, next := []api.Claim{}, ""
	_, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		if o.claim != "" {
			one, err := lookUp(ctx, func() (api.Claim, error) { return c.LookUp(ctx, o.claim, o.page) })
			claims = append(claims, one)
			return api.Answer{}, err
		}
		has, err := lookUp(ctx, func() (api.User, error) { return c.User(ctx, o.user, o.page) })
		claims, next = append(claims, has.Claims...), has.Next
		return api.Answer{}, err
	})
	switch {
	case err != nil:
		return err
	case o.json:
		p.emit(claimsReply{o.sale, claims, next})
	default:
		if o.claim != "" {
			next = claims[0].RefundDueNext
		}
		older := ""
		if next != "" {
			older = o.older(next)
		}
		p.view("claims", struct {
			User, Sale, Before string
			Claims             []api.Claim
			Older              string // command that shows them
		}{o.user, o.sale, o.page.Before, claims, older})
	}
	return nil
}

// lookUp repeats a query until a server can answer it.
func lookUp[T any](ctx context.Context, query func() (T, error)) (T, error) {
	for {
		found, err := query()
		var problem *api.Problem
		if !errors.As(err, &problem) || problem.Outcome.Row().Retry != api.Again {
			return found, err
		}
		if slept := api.Sleep(ctx, problem.Outcome.Row().RetryAfter); slept != nil {
			return found, fmt.Errorf("%w: %s", slept, problem.Detail)
		}
	}
}

// settleOptions is the command line of claims confirm, extend, cancel, refund and return.
type settleOptions struct {
	inquiry
	claim string
	how   api.How
	api.Settlement
}

// settleCommands returns the commands that settle a claim.
func (p *program) settleCommands() []*urfave.Command {
	return []*urfave.Command{
		p.settleCommand(api.Confirm, serverFlag(), "confirm payment of a held claim", "0 sold", paymentFlag()),
		p.settleCommand(api.Extend, serverFlag(), "extend the deadline of a held claim, once", "0 extended"),
		p.settleCommand(api.Cancel, serverFlag(), "cancel a held claim and release its units", "0 cancelled", forTheBooks()...),
		p.settleCommand(api.Refund, adminFlag(), "refund a sold claim", "0 refunded",
			append(forTheBooks(), onFlag("retire", "withdraw the units instead of selling them again"))...),
		p.settleCommand(api.Return, adminFlag(), "record that a payment was paid back", "0 recorded",
			paymentFlag(), reasonFlag(), whoFlag()),
	}
}

// forTheBooks returns the flags of cancel and refund for the records.
func forTheBooks() []urfave.Flag { return []urfave.Flag{required(reasonFlag()), whoFlag()} }

func reasonFlag() *urfave.StringFlag {
	return valueFlag("reason", fmt.Sprintf("record `TEXT` as the reason, at most %d bytes", api.MaxReason))
}

func whoFlag() *urfave.StringFlag {
	return valueFlag("who", fmt.Sprintf("record `NAME` as who did it, at most %d bytes (default: user@host)", api.MaxWho))
}

func paymentFlag() *urfave.StringFlag {
	return required(valueFlag("payment", fmt.Sprintf("`REFERENCE` of the payment, at most %d bytes", api.MaxPayment)))
}

func (p *program) settleCommand(how api.How, server *urfave.StringFlag, usage, done string, more ...urfave.Flag) *urfave.Command {
	more = append([]urfave.Flag{claimIDFlag()}, more...)
	return &urfave.Command{
		Name: string(how), Usage: usage,
		Description: "Repeats the request while the server is overloaded, has no majority, or does not own " +
			"the sale; a repeated request has no further effect. Exit codes: " + done + ", 3 the " +
			"claim is in another state or the payment is not owed back, 1 no such claim or sale, 4 bad request, 7 no answer in time.",
		Flags:  inquiryFlags(server, more...),
		Action: action(func(f *flags) settleOptions { return parseSettle(f, how, server.Name) }, p.settle),
	}
}

func parseSettle(f *flags, how api.How, server string) settleOptions {
	o := settleOptions{inquiry: parseInquiry(f, server), claim: f.claimID(), how: how}
	if how.NamesPayment() {
		o.Payment = f.text("payment")
	}
	if how.HasReason() {
		o.Reason, o.Who, o.Retire = f.text("reason"), cmp.Or(f.text("who"), who()), f.on("retire")
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
	who, why := a.Claim.Who, a.Claim.Why
	switch o.how {
	case api.Return:
		r.PaidBack, who, why = o.Payment, o.Who, o.Reason
		for _, back := range a.Claim.Returned {
			if back.Payment == o.Payment {
				who, why = back.Who, back.Why
			}
		}
	case api.Refund:
		if slices.Contains(a.Claim.Owed(), a.Claim.Payment) {
			r.Owes = o.command("salectl claims return %s", "claim", o.claim, "payment", a.Claim.Payment)
		}
	}
	if o.Who != "" {
		a.Replayed = who != o.Who || why != o.Reason // an earlier request has settled it
		r.By = strings.TrimSuffix(who+": "+why, ": ")
	}
	return p.decided(r, a, err, o.json, doubt{"it was done", "Repeat the command: if it was done, it has no further effect."})
}
