package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"salectl/api/streampb"
)

// How is a way to settle an accepted claim. In paths it follows the claim.
type How string

// Ways to settle a claim. Refund is a request to an admin address, the others go where claims go,
// Return to either.
const (
	Confirm How = "confirm" // it is paid
	Extend  How = "extend"  // once, to a later deadline
	Cancel  How = "cancel"  // before it is paid
	Refund  How = "refund"  // after it was sold
	Return  How = "return"  // of a payment that is owed back: it was paid back
)

// settlements has the outcome of each way.
var settlements = map[How]Outcome{Confirm: Sold, Extend: Held, Cancel: Cancelled, Refund: Refunded, Return: Returned}

// Done returns the outcome of a claim settled this way, now or before. It is "" for an unknown
// way.
func (h How) Done() Outcome { return settlements[h] }

// NamesPayment reports whether a settlement of this way names a payment.
func (h How) NamesPayment() bool { return h == Confirm || h == Return }

// HasReason reports whether the ledger records who settles a claim this way, and why.
func (h How) HasReason() bool { return h == Cancel || h == Refund || h == Return }

// Check returns an error if the settlement is invalid.
func (s Settlement) Check(how How) error {
	switch {
	case how.Done() == "":
		return fmt.Errorf("%q does not settle a claim; use confirm, extend, cancel, refund or return", how)
	case how.NamesPayment() && s.Payment == "":
		return fmt.Errorf("payment: missing; a %s names the payment", how)
	case !how.NamesPayment() && s.Payment != "":
		return fmt.Errorf("payment: only a confirm or return has one")
	case !how.HasReason() && s.Who != "":
		return fmt.Errorf("who: only a cancel, refund or return has it")
	case !how.HasReason() && s.Reason != "":
		return fmt.Errorf("reason: only a cancel, refund or return has one")
	case how != Refund && s.Retire:
		return fmt.Errorf("retire: only a refund has it")
	}
	return cmp.Or(
		checkText("payment", s.Payment, MaxPayment), checkText("who", s.Who, MaxWho), checkText("reason", s.Reason, MaxReason))
}

// Settle sends a settlement until a server has decided it, as Claim does. Settling a claim
// twice has no further effect. It is done if the Answer's Outcome is how.Done(); then the
// Answer has the Claim. The errors are those of Claim and of Settlement.Check.
func (c *Client) Settle(ctx context.Context, claim string, how How, s Settlement) (Answer, error) {
	if err := s.Check(how); err != nil {
		return Answer{}, err
	}
	body, err := json.Marshal(s)
	if err != nil {
		return Answer{}, err
	}
	a := c.newSubmission()
	defer a.free()
	a.path, a.key, a.body = "/"+url.PathEscape(claim)+"/"+string(how), []string{}, body
	id, ok := ParseClaimID(claim)
	if ok && c.cfg.Stream && how != Refund {
		a.settles = &streampb.Settlement{Claim: id.ToStream(), How: string(how), Payment: s.Payment, Who: s.Who, Reason: s.Reason}
	}
	a.server = c.first(func(int) int { return id.Shard })
	return a.submit(ctx)
}
