package rules

import (
	"errors"
	"salectl/internal/text"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Reason is why a rule is not satisfied.
type Reason uint8

// The reasons. All but Satisfied and Denied are failed evaluations, which refuse
// as a rule that is not satisfied does; a caller counts them apart.
const (
	Satisfied Reason = iota
	Denied           // the expression is false
	Missing          // the expression reads what the user, claim or sale does not have
	TooCostly        // the evaluation came to MaxCost
	Failed           // any other error, such as a division by zero
)

// String is the reason as records and metrics have it.
func (r Reason) String() string {
	return [...]string{"satisfied", "denied", "missing_attribute", "too_costly", "evaluation_failed"}[r]
}

// Finding is what a rule that is not satisfied has to say.
type Finding struct {
	Rule   string // its name
	Index  int    // its place among the rules, from 0
	Reason Reason
	// Message is for the buyer: one line of at most MaxMessage bytes.
	Message string
	// Detail is for the operator: the error of a failed evaluation.
	Detail string
	// MessageErr says why messageExpression could not be evaluated; nil if it
	// could, or there is none. Message then is that of the declaration.
	MessageErr error
}

// Verdict is what the rules say to a claim.
type Verdict struct {
	// Refusal is the first rule with enforce deny that is not satisfied. Its
	// Reason is Satisfied if there is none: the claim may go on.
	Refusal Finding
	// Audits are the rules with enforce audit that are not satisfied, in their
	// order. Each of them is evaluated, whatever the others say.
	Audits []Finding
}

// Allowed reports whether the claim may go on.
func (v *Verdict) Allowed() bool { return v.Refusal.Reason == Satisfied }

// Decide evaluates the rules. It has no side effects, and the same input always
// gets the same verdict.
func (s *Set) Decide(in *Input) Verdict {
	e := s.evaluation(in)
	defer s.release(e)
	var v Verdict
	for i := range s.rules {
		r := &s.rules[i]
		if r.Enforce == Deny && !v.Allowed() {
			continue
		}
		f, ok := e.apply(i)
		switch {
		case ok:
		case r.Enforce == Audit:
			v.Audits = append(v.Audits, f)
		default:
			v.Refusal = f
		}
	}
	return v
}

func (s *Set) evaluation(in *Input) *evaluation {
	e := s.pool.Get().(*evaluation)
	e.reset(s, in)
	return e
}

// release keeps no claim's values in memory.
func (s *Set) release(e *evaluation) {
	e.reset(s, &Input{})
	e.counts = false
	s.pool.Put(e)
}

// apply evaluates a rule; true if it is satisfied.
func (e *evaluation) apply(i int) (Finding, bool) {
	r := &e.set.rules[i]
	e.exceeded = false
	val, err := ref.Val(nil), e.in.User.Err()
	if err == nil {
		val, err = e.evaluate(r.require)
	}
	if err == nil && val == types.True && !e.exceeded {
		return Finding{}, true
	}
	f := Finding{Rule: r.Name, Index: i, Reason: Denied, Message: r.refusal}
	if err != nil || e.exceeded {
		f.Reason, f.Detail = e.reason(err)
		return f, false
	}
	if r.message != nil {
		f.tell(e, r.message)
	}
	return f, false
}

// tell evaluates what the buyer is told.
func (f *Finding) tell(e *evaluation, message *expression) {
	val, err := e.evaluate(message)
	if err != nil {
		f.MessageErr = err
		return
	}
	if text := oneLine(string(val.(types.String))); text != "" {
		f.Message = text
	} else {
		f.MessageErr = errors.New("the text is empty")
	}
}

// reason sorts the error of an evaluation.
func (e *evaluation) reason(err error) (Reason, string) {
	var missing *MissingError
	switch {
	case e.exceeded || tooCostly(err):
		return TooCostly, "the evaluation came to the limit of its cost"
	case errors.As(err, &missing):
		return Missing, missing.Error()
	}
	return Failed, oneLine(err.Error())
}

// oneLine makes one printable line of at most MaxMessage bytes of a text.
func oneLine(s string) string { return text.Short(s, MaxMessage) }
