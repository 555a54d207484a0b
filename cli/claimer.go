package cli

import (
	"context"
	"time"

	"salectl/api"
)

// claimReply is the output of claim --json for a server's answer.
type claimReply struct {
	FormatVersion int         `json:"formatVersion"`
	Outcome       api.Outcome `json:"outcome"`
	Sale          string      `json:"sale"`
	User          string      `json:"user"`
	Key           string      `json:"key"`
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
		FormatVersion: formatVersion, Outcome: a.Outcome, Sale: o.sale, User: o.user, Key: o.key, MayBeAccepted: a.MayBeAccepted,
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
