package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
			"or does not own the sale. Exit codes: 0 sold or held, 10 sold out or none available now, " +
			"11 limit reached, 12 not open, paused or closed, 4 bad request, 7 no answer in time.",
		Flags: inquiryFlags(serverFlag(),
			valueFlag("user", "`ID` of the user"),
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
		user:     f.need("user"),
		quantity: f.number("quantity", 1, api.MaxQuantity, 1),
		units:    f.texts("unit"),
		adjacent: f.on("adjacent"),
		key:      f.text("key"),
	}
	switch {
	case len(o.units) == 0:
	case api.CheckNames(o.units) != nil:
		f.refuse("--unit: %s", strings.TrimPrefix(api.CheckNames(o.units).Error(), "units: "))
	case o.adjacent, f.c.IsSet("quantity"):
		f.refuse("--unit names the units to buy: leave --quantity and --adjacent out")
	}
	if !utf8.ValidString(o.user) {
		// JSON would convert it to the name of another user.
		f.refuse("--user is not UTF-8")
	}
	if o.key == "" {
		o.key = rand.Text()
	}
	if api.CheckKey(o.key) != nil {
		f.refuse("--key must be at most %d visible ASCII characters", api.MaxKey)
	}
	return o
}

// again returns the command that repeats the claim with its key.
func (o claimOptions) again() string {
	command := fmt.Sprintf("salectl claim --server %s --sale %s --user %s", quoted(o.server.String()), quoted(o.sale), quoted(o.user))
	if o.quantity != 1 {
		command += fmt.Sprintf(" --quantity %d", o.quantity)
	}
	for _, unit := range o.units {
		command += " --unit " + quoted(unit)
	}
	if o.adjacent {
		command += " --adjacent"
	}
	return command + o.secrets.words() + " --key " + quoted(o.key)
}

func (p *program) claim(ctx context.Context, o claimOptions) error {
	reply, err := p.ask(ctx, o)
	switch {
	case err != nil && o.json:
		p.emit(unanswered{o.sale, o.user, o.key, errors.As(err, new(inDoubt)), err.Error(), ExitCode(err)})
		return err
	case err != nil:
		return err
	case o.json:
		p.emit(reply)
	default:
		p.replyText(o, reply)
	}
	if reply.Outcome.Row().Exit != exitOK {
		return shown{&outcomeError{reply.Outcome, reply.Detail}}
	}
	return nil
}

// outcomeError reports a claim that got no units.
type outcomeError struct {
	outcome api.Outcome
	detail  string
}

func (e *outcomeError) Error() string { return string(e.outcome) + ": " + e.detail }

func (p *program) replyText(o claimOptions, r *claimReply) {
	c := p.colours(p.out)
	if r.Outcome.Row().Exit == exitOK {
		again := ""
		if r.Replayed {
			again = " (accepted before)"
		}
		if r.Outcome == api.Entered {
			fmt.Fprintf(p.out, "%s: %s into the draw of %s, claim %s%s\n", c.Green(string(r.Outcome)), o.user, o.sale, r.Claim, again)
			return
		}
		p.claimLines(c.Green, r.Outcome, o.sale, o.user, r.claimUnits, again)
		return
	}
	fmt.Fprintf(p.out, "%s: %s\n", c.Yellow(string(r.Outcome)), r.Detail)
	has := "had"
	if r.Outcome == api.LimitReached {
		has = "has"
	}
	for _, c := range r.Claims {
		fmt.Fprintf(p.out, "  %s %s %s%s%s, claim %s\n", o.user, has, unitList(c.Units), ofAsked(c.Asked), worth(c), c.Claim)
		p.payloadLines(c)
	}
	if r.MayBeAccepted {
		fmt.Fprintf(p.out, "  It is unknown whether the claim was accepted. Learn what became of it: %s\n", o.again())
	}
}

// claimLines prints a claim that has units, and their payloads.
func (p *program) claimLines(dress func(string) string, outcome api.Outcome, sale, user string, c claimUnits, note string) {
	fmt.Fprintf(p.out, "%s: %s%s of %s to %s%s%s, claim %s%s\n",
		dress(string(outcome)), unitList(c.Units), ofAsked(c.Asked), sale, user, worth(c), until(outcome, c), c.Claim, note)
	p.payloadLines(c)
}

// unitList formats units as "unit 7" or "units 7, 12".
func unitList(units []int64) string {
	if len(units) == 0 {
		return "no unit"
	}
	var words []string
	for _, u := range units {
		words = append(words, fmt.Sprint(u))
	}
	if len(words) == 1 {
		return "unit " + words[0]
	}
	return "units " + strings.Join(words, ", ")
}

// ofAsked returns " (3 asked)" for a claim that got fewer units than requested.
func ofAsked(asked int64) string {
	if asked == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d asked)", asked)
}

// worth returns ", worth 1.23 CNY"; "" for units that are no packets.
func worth(c claimUnits) string {
	if len(c.Amounts) == 0 {
		return ""
	}
	return fmt.Sprintf(", worth %s %s", strings.Join(c.Amounts, " and "), c.Currency)
}

// payloadLines prints the payloads of a claim's units, if any.
func (p *program) payloadLines(c claimUnits) {
	for i, has := range c.Payloads {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(has)) {
			words = append(words, name+" "+has[name])
		}
		fmt.Fprintf(p.out, "  unit %d: %s\n", c.Units[i], strings.Join(words, ", "))
	}
	if c.Undelivered {
		fmt.Fprintln(p.out, "  What the units are could not be read now: ask again with the same key, or look at the claim.")
	}
}

// until returns ", to be paid until 2026-11-11T12:10:00Z"; "" for units that are not held.
func until(o api.Outcome, c claimUnits) string {
	if o != api.Held || c.HeldUntil == "" {
		return ""
	}
	return ", to be paid until " + c.HeldUntil
}

// unanswered is the output of claim --json if no server gave an outcome. It has the key, so
// that the claim can be repeated.
type unanswered struct {
	Sale          string `json:"sale"`
	User          string `json:"user"`
	Key           string `json:"key"`
	MayBeAccepted bool   `json:"mayBeAccepted,omitempty"`
	Error         string `json:"error"`
	ExitCode      int    `json:"exitCode"`
}

// claimReply is the output of claim --json for a server's answer.
type claimReply struct {
	Outcome api.Outcome `json:"outcome"`
	Sale    string      `json:"sale"`
	User    string      `json:"user"`
	Key     string      `json:"key"`
	// MayBeAccepted reports that an earlier attempt with the key may have been accepted, which
	// this answer does not decide.
	MayBeAccepted bool `json:"mayBeAccepted,omitempty"`

	// Of an accepted claim.
	claimUnits
	Replayed bool `json:"replayed,omitempty"` // it had been accepted before

	// Of a refused claim.
	Detail  string       `json:"detail,omitempty"`
	OpensAt string       `json:"opensAt,omitempty"`
	Rule    string       `json:"rule,omitempty"`   // for not_eligible: refusing rule
	Reason  string       `json:"reason,omitempty"` // for not_eligible: reason
	Claims  []claimUnits `json:"claims,omitempty"` // of the user, for limit_reached; or the claim that the outcome is about
}

// claimUnits is the content of one claim.
type claimUnits struct {
	Claim    string   `json:"claim,omitempty"`
	Units    []int64  `json:"units,omitempty"`
	Asked    int64    `json:"asked,omitempty"`   // requested units, if fewer were granted
	Amounts  []string `json:"amounts,omitempty"` // of a red packet: amount of each unit
	Currency string   `json:"currency,omitempty"`
	At       string   `json:"at,omitempty"`

	Payloads    []map[string]string `json:"payloads,omitempty"`    // payload of each unit, if units are more than numbers
	Undelivered bool                `json:"undelivered,omitempty"` // the payloads could not be read now

	HeldUntil string `json:"heldUntil,omitempty"` // deadline for the payment of a held claim
}

func unitsOf(c api.Claim) claimUnits {
	return claimUnits{
		Claim: c.ID, Units: c.Units, Asked: c.Asked, Amounts: c.Amounts, Currency: c.Currency, At: timeText(c.At),
		Payloads: c.Payloads, Undelivered: c.Undelivered, HeldUntil: timeText(c.HeldUntil),
	}
}

// timeText formats a time as servers do; "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func replyTo(o claimOptions, a api.Answer) *claimReply {
	problem := a.Problem()
	r := &claimReply{
		Outcome: a.Outcome, Sale: o.sale, User: o.user, Key: o.key, MayBeAccepted: a.MayBeAccepted,
		claimUnits: unitsOf(a.Claim), Replayed: a.Replayed, Detail: problem.Detail, OpensAt: timeText(problem.OpensAt),
		Rule: problem.Rule, Reason: problem.Reason,
	}
	for _, c := range problem.Claims {
		r.Claims = append(r.Claims, unitsOf(c))
	}
	return r
}

// ask sends the claim until it is decided or the time is up.
func (p *program) ask(ctx context.Context, o claimOptions) (*claimReply, error) {
	a, err := p.inquire(ctx, o.inquiry, func(ctx context.Context, c *api.Client) (api.Answer, error) {
		return c.Claim(ctx, api.Request{User: o.user, Quantity: o.quantity, Key: o.key, Units: o.units, Adjacent: o.adjacent})
	})
	switch {
	case err == nil:
		return replyTo(o, a), nil
	case a.MayBeAccepted:
		err = advised{
			what: err.Error() + ": it is unknown whether the claim was accepted", err: inDoubt{err},
			remedy: "Learn what became of it: " + o.again(),
		}
	}
	return nil, err
}

// inDoubt wraps the error of a claim without an answer that may have been accepted.
type inDoubt struct{ error }

func (e inDoubt) Unwrap() error { return e.error }
