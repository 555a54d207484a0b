package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"salectl/api/streampb"
)

// How is a way to settle a claim that was accepted. In paths it follows the claim.
type How string

// The ways to settle a claim. Refund is asked of an admin address, the others where
// claims go.
const (
	Confirm How = "confirm" // it is paid
	Extend  How = "extend"  // it gets a later deadline, once
	Cancel  How = "cancel"  // it is given up before it is paid
	Refund  How = "refund"  // it is undone after it was sold
)

// Done is the outcome that says that the claim was settled as asked, now or before.
// For any other way it is "".
func (h How) Done() Outcome {
	switch h {
	case Confirm:
		return Sold
	case Extend:
		return Held
	case Cancel:
		return Cancelled
	case Refund:
		return Refunded
	}
	return ""
}

// Check says what is wrong with what is asked, nil if nothing is.
func (s Settlement) Check(how How) error {
	undoes := how == Cancel || how == Refund
	switch {
	case how.Done() == "":
		return fmt.Errorf("%q is no way to settle a claim", how)
	case how == Confirm && s.Payment == "":
		return fmt.Errorf("payment: missing; a confirm names the payment")
	case how != Confirm && s.Payment != "":
		return fmt.Errorf("payment: only a confirm has one")
	case !undoes && s.Who != "":
		return fmt.Errorf("who: only a cancel or refund has it")
	case !undoes && s.Reason != "":
		return fmt.Errorf("reason: only a cancel or refund has one")
	case how != Refund && s.Retire:
		return fmt.Errorf("retire: only a refund has it")
	}
	for _, text := range []struct {
		name, value string
		most        int
	}{{"payment", s.Payment, MaxPayment}, {"who", s.Who, MaxWho}, {"reason", s.Reason, MaxReason}} {
		if err := checkText(text.name, text.value, text.most); err != nil {
			return err
		}
	}
	return nil
}

// checkText says what is wrong with a text for the books, nil if nothing is.
func checkText(name, value string, most int) error {
	switch {
	case len(value) > most:
		return fmt.Errorf("%s: %d bytes are too many, at most %d", name, len(value), most)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s: must be UTF-8", name)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: must not contain control characters", name)
	}
	return nil
}

// Settle asks for a claim to be settled until a server has decided, as Claim does: to
// settle a claim twice is to settle it once. It is done if the Answer's Outcome is
// how.Done(); then the Answer has the Claim. The errors are those of Claim, and those
// of Settlement.Check.
func (c *Client) Settle(ctx context.Context, claim string, how How, s Settlement) (Answer, error) {
	if err := s.Check(how); err != nil {
		return Answer{}, err
	}
	body, err := json.Marshal(s)
	if err != nil {
		return Answer{}, err
	}
	a := c.asking()
	defer a.free()
	a.path, a.key, a.body = settlePath(claim, how), []string{}, body
	if id, ok := ParseClaimID(claim); ok && c.cfg.Stream && how != Refund {
		a.settles = &streampb.Settlement{Claim: id.ToStream(), How: string(how), Payment: s.Payment, Who: s.Who, Reason: s.Reason}
	}
	a.server = c.first(func(int) int { return shardOfClaim(claim) })
	err = a.ask(ctx)
	return *a.answer, err
}
