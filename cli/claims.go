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
	user, claim string // one of them
}

func (p *program) claimsCommand() *urfave.Command {
	return &urfave.Command{
		Name: "claims", Category: groupLook, Usage: "look up a user's claims, or one claim, at a server",
		Description: "Shows the state, units, deadline and payments of each. Asks again while the server is\n" +
			"too busy or does not own the sale. Exit codes: 0, also where the user has none, 1 no\n" +
			"such claim or sale, 4 bad request, 7 no answer in time.",
		Flags: inquiryFlags("server",
			valueFlag("user", "`ID` of the user"),
			valueFlag("claim", "`ID` of the claim, as its answer had it"),
		),
		Action: action(parseClaims, p.claims),
	}
}

func parseClaims(f *flags) claimsOptions {
	o := claimsOptions{inquiry: parseInquiry(f, "server"), user: f.text("user"), claim: f.text("claim")}
	if f.c.IsSet("user") == f.c.IsSet("claim") {
		f.refuse("name either --user or --claim")
	}
	if o.user != "" {
		if err := api.CheckUser(o.user); err != nil {
			f.refuse("--%s", err)
		}
	}
	return o
}

// claimsReply is what claims --json prints.
type claimsReply struct {
	FormatVersion int         `json:"formatVersion"`
	Sale          string      `json:"sale"`
	Claims        []api.Claim `json:"claims"`
}

func (p *program) claims(ctx context.Context, o claimsOptions) error {
	claims := []api.Claim{}
	_, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		if o.claim != "" {
			one, err := lookUp(ctx, func() (api.Claim, error) { return c.LookUp(ctx, o.claim) })
			claims = append(claims, one)
			return api.Answer{}, err
		}
		has, err := lookUp(ctx, func() (api.User, error) { return c.User(ctx, o.user) })
		claims = append(claims, has.Claims...)
		return api.Answer{}, err
	})
	var problem *api.Problem
	switch {
	case errors.As(err, &problem):
		return &outcomeError{problem.Outcome, problem.Detail}
	case err != nil:
		return err
	case o.json:
		p.emit(claimsReply{formatVersion, o.sale, claims})
	default:
		p.claimsText(o, claims)
	}
	return nil
}

// lookUp asks until a server can tell.
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
		fmt.Fprintf(p.out, "%s has no claims in %s.\n", o.user, o.sale)
		return
	}
	c := p.colours(p.out)
	for _, claim := range claims {
		fmt.Fprintf(p.out, "%s: %s%s of %s to %s%s%s, claim %s\n", c.bold(string(claim.Outcome)), unitList(claim.Units), ofAsked(claim.Asked), o.sale, claim.User,
			worth(unitsOf(claim)), until(claim.Outcome, unitsOf(claim)), claim.ID)
		p.goodsLines(unitsOf(claim))
		if claim.Payment != "" {
			fmt.Fprintf(p.out, "  bought by payment %s\n", claim.Payment)
		}
		if claim.Why != "" || claim.Who != "" {
			fmt.Fprintf(p.out, "  %s by %s: %s\n", claim.Outcome, claim.Who, claim.Why)
		}
		if len(claim.RefundDue) > 0 {
			more := ""
			if n := claim.RefundsDue - len(claim.RefundDue); n > 0 {
				more = fmt.Sprintf(", and %s before them", count(n, "payment"))
			}
			fmt.Fprintf(p.out, "  owed back: %s%s\n", strings.Join(claim.RefundDue, ", "), more)
		}
	}
}
