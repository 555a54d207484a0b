package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
)

// claimsOptions is the command line of claims.
type claimsOptions struct {
	inquiry
	user, claim string // one of them is set
	page        api.Page
}

// older returns the command that shows the next page.
func (o claimsOptions) older(next string) string {
	command := fmt.Sprintf("salectl claims --server %s --sale %s", quoted(o.server.String()), quoted(o.sale))
	if o.claim != "" {
		command += " --claim " + quoted(o.claim)
	} else {
		command += " --user " + quoted(o.user)
	}
	if o.page.Limit != 0 {
		command += fmt.Sprintf(" --limit %d", o.page.Limit)
	}
	return command + o.secrets.words() + " --before " + quoted(next)
}

func (p *program) claimsCommand() *urfave.Command {
	return &urfave.Command{
		Name: "claims", Category: groupLook, Usage: "look up a user's claims, or one claim, at a server",
		Description: "Shows the state, units, deadline and payments of each. Of a user the newest claims are\n" +
			"shown, and of a claim the newest of the payments that are owed back; --before shows\n" +
			"those that are older. Asks again while the server is too busy or does not own the sale.\n" +
			"Exit codes: 0, also where the user has none, 1 no such claim or sale, 4 bad request, 7\n" +
			"no answer in time.",
		Flags: inquiryFlags("server",
			valueFlag("user", "`ID` of the user"),
			valueFlag("claim", "`ID` of the claim, as its answer had it"),
			valueFlag("before", "show what is older than `CURSOR`, which the output has where there is more"),
			valueFlag("limit", fmt.Sprintf("show at most `N` claims, or payments owed back, at most %d (default: %d claims, %d payments)", api.MaxPage, api.DefaultClaims, api.DefaultRefunds)),
		),
		Action: action(parseClaims, p.claims),
	}
}

func parseClaims(f *flags) claimsOptions {
	o := claimsOptions{inquiry: parseInquiry(f, "server"), user: f.text("user"), claim: f.text("claim")}
	if f.c.IsSet("user") == f.c.IsSet("claim") {
		f.refuse("name either --user or --claim")
	}
	o.page = api.Page{Before: f.text("before"), Limit: int(f.number("limit", 1, api.MaxPage, 0))}
	if o.user != "" {
		if err := api.CheckUser(o.user); err != nil {
			f.refuse("--%s", err)
		}
	}
	return o
}

// claimsReply is the output of claims --json.
type claimsReply struct {
	FormatVersion int         `json:"formatVersion"`
	Sale          string      `json:"sale"`
	Claims        []api.Claim `json:"claims"`
	Next          string      `json:"next,omitempty"` // value of --before for older claims
}

func (p *program) claims(ctx context.Context, o claimsOptions) error {
	claims, next := []api.Claim{}, ""
	_, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		if o.claim != "" {
			one, err := lookUp(ctx, func() (api.Claim, error) { return c.LookUpPage(ctx, o.claim, o.page) })
			claims = append(claims, one)
			return api.Answer{}, err
		}
		has, err := lookUp(ctx, func() (api.User, error) { return c.UserPage(ctx, o.user, o.page) })
		claims, next = append(claims, has.Claims...), has.Next
		return api.Answer{}, err
	})
	var problem *api.Problem
	switch {
	case errors.As(err, &problem):
		return &outcomeError{problem.Outcome, problem.Detail}
	case err != nil:
		return err
	case o.json:
		p.emit(claimsReply{formatVersion, o.sale, claims, next})
	default:
		p.claimsText(o, claims)
		if o.claim != "" {
			next = claims[0].RefundDueNext
		}
		if next != "" {
			fmt.Fprintf(p.out, "There are older ones:\n  %s\n", o.older(next))
		}
	}
	return nil
}

// lookUp repeats a query until a server can answer it.
func lookUp[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		found, err := ask()
		var problem *api.Problem
		if !errors.As(err, &problem) || problem.Outcome.Row().Retry != api.Again {
			return found, err
		}
		if slept := api.Sleep(ctx, problem.Outcome.Row().RetryAfter); slept != nil {
			return found, fmt.Errorf("%w: %s", slept, problem.Detail)
		}
	}
}

func (p *program) claimsText(o claimsOptions, claims []api.Claim) {
	if len(claims) == 0 {
		older := ""
		if o.page.Before != "" {
			older = " before " + o.page.Before
		}
		fmt.Fprintf(p.out, "%s has no claims in %s%s.\n", o.user, o.sale, older)
		return
	}
	c := p.colours(p.out)
	for _, claim := range claims {
		p.claimLines(c.bold, claim.Outcome, o.sale, claim.User, unitsOf(claim), "")
		if claim.Payment != "" {
			fmt.Fprintf(p.out, "  bought by payment %s\n", claim.Payment)
		}
		if claim.Why != "" || claim.Who != "" {
			fmt.Fprintf(p.out, "  %s by %s: %s\n", claim.Outcome, claim.Who, claim.Why)
		}
		if len(claim.RefundDue) > 0 {
			of := ""
			if n := claim.RefundsDue; n > len(claim.RefundDue) {
				of = fmt.Sprintf(" (%d of %s)", len(claim.RefundDue), count(n, "payment"))
			}
			fmt.Fprintf(p.out, "  owed back: %s%s\n", strings.Join(claim.RefundDue, ", "), of)
		}
	}
}
