package cli

import (
	"fmt"
	"strings"
	"time"

	"salectl/api"
)

// decision is the output of claim, and of the commands that settle claims, with --json.
type decision struct {
	Outcome api.Outcome `json:"outcome,omitempty"` // "": no server answered; see Error
	Sale    string      `json:"sale"`
	User    string      `json:"user,omitempty"`
	Key     string      `json:"key,omitempty"` // of a claim, so that it can be repeated
	// MayBeAccepted reports that an earlier attempt may have succeeded, which this answer does
	// not decide.
	MayBeAccepted bool   `json:"mayBeAccepted,omitempty"`
	ID            string `json:"claim,omitempty"`

	*api.Claim      // accepted, or settled as requested
	Replayed   bool `json:"replayed,omitempty"` // it had been accepted before, or settled by somebody else or for another reason

	// Of a refused request.
	Detail    string      `json:"detail,omitempty"`
	OpensAt   time.Time   `json:"opensAt,omitzero"`
	Rule      string      `json:"rule,omitempty"`      // for not_eligible: refusing rule
	Reason    string      `json:"reason,omitempty"`    // for not_eligible: reason
	Claims    []api.Claim `json:"claims,omitempty"`    // of the user, for limit_reached; or the claim that the outcome is about
	RefundDue bool        `json:"refundDue,omitempty"` // the payment bought nothing

	Error    string `json:"error,omitempty"`
	ExitCode int    `json:"exitCode,omitempty"` // of Error

	wanted   api.Outcome // of a settlement
	PaidBack string      `json:"-"` // of a return: the payment
	By       string      `json:"-"` // of a settlement that was made before: who made it, and why
	Owes     string      `json:"-"` // of a refund whose payment is owed back: the command that records its return
}

// Accepted reports whether the request has done what it was for.
func (r *decision) Accepted() bool {
	return r.Outcome == r.wanted || r.wanted == "" && r.Outcome.Row().Exit == exitOK
}

// Settles reports whether the request is to settle a claim.
func (r *decision) Settles() bool { return r.wanted != "" }

// decisionView is the data of the view of a decision.
type decisionView struct {
	*decision
	Doubt doubt
}

// doubt describes an unknown outcome of a request, and how to determine it.
type doubt struct{ What, Remedy string }

// decided prints the answer to a request, and returns the error of the command.
func (p *program) decided(r decision, a api.Answer, err error, asJSON bool, unknown doubt) error {
	r.MayBeAccepted = a.MayBeAccepted
	if err != nil {
		if a.MayBeAccepted {
			err = advised{err.Error() + ": it is unknown whether " + unknown.What, unknown.Remedy, err}
		}
		if r.Error, r.ExitCode = err.Error(), ExitCode(err); asJSON {
			p.emit(r)
		}
		return err
	}
	if r.Outcome = a.Outcome; r.Accepted() {
		r.Claim, r.User, r.ID, r.Replayed = &a.Claim, a.Claim.User, a.Claim.ID, a.Replayed
	} else {
		q := a.Problem()
		r.Detail, r.OpensAt, r.Rule, r.Reason = q.Detail, q.OpensAt, q.Rule, q.Reason
		r.Claims, r.RefundDue = q.Claims, q.RefundDue
	}
	if asJSON {
		p.emit(r)
	} else {
		p.view("decision", decisionView{&r, unknown})
	}
	if !r.Accepted() {
		return shown{&outcomeError{r.Outcome, r.Detail}}
	}
	return nil
}

// outcomeError reports a request that was refused.
type outcomeError struct {
	outcome api.Outcome
	detail  string
}

func (e *outcomeError) Error() string { return string(e.outcome) + ": " + e.detail }

// unitList formats units as "unit 7" or "units 7, 12".
func unitList(units []int64) string {
	switch len(units) {
	case 0:
		return "no unit"
	case 1:
		return fmt.Sprint("unit ", units[0])
	}
	return "units " + numbers(units)
}

// numbers formats units as "7, 12".
func numbers(units []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(units), " ", ", "), "[]")
}

// ofRequested returns " (3 requested)" for a claim that got fewer units than requested.
func ofRequested(requested int64) string {
	if requested == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d requested)", requested)
}
