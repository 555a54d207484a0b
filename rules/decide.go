package rules

import (
	"cmp"
	"errors"
	"math"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/internal/text"
	"salectl/spec"
)

// Reason is why a rule is not satisfied.
type Reason uint8

// Reasons. All except Satisfied and Denied are failed evaluations. They refuse like an unsatisfied
// rule; callers count them separately.
const (
	Satisfied Reason = iota
	Denied           // the expression is false
	Missing          // the expression reads a missing value of user, claim or sale
	TooCostly        // the evaluation reached MaxCost
	Failed           // any other error, such as a division by zero
)

// String returns the reason as written in records and metrics.
func (r Reason) String() string {
	return [...]string{"satisfied", "denied", "missing_attribute", "too_costly", "evaluation_failed"}[r]
}

// MarshalText implements encoding.TextMarshaler.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Finding is the result of a rule that is not satisfied.
type Finding struct {
	Rule   string `json:"-"` // its name
	Index  int    `json:"-"` // index of the rule, from 0
	Reason Reason `json:"result"`
	// Message is for the buyer: one line of at most MaxMessage bytes.
	Message string `json:"message,omitempty"`
	// Detail is for the operator: the error of a failed evaluation. If that of messageExpression
	// has failed, Message is that of the declaration.
	Detail string `json:"detail,omitempty"`
}

// Verdict is the decision of all rules about a claim.
type Verdict struct {
	// Refusal is the first unsatisfied rule with enforce deny. Its Reason is Satisfied if there is
	// none: the claim is allowed.
	Refusal Finding
	// Audits are the unsatisfied rules with enforce audit, in order. All of them are evaluated,
	// whatever the result of the others.
	Audits []Finding
}

// Allowed reports whether no rule refuses the claim.
func (v *Verdict) Allowed() bool { return v.Refusal.Reason == Satisfied }

// Decide evaluates the rules. It has no side effects, and equal inputs get equal verdicts.
func (s *Set) Decide(in *Input) Verdict {
	e := s.evaluation(in)
	defer s.release(e)
	var v Verdict
	for i := range s.rules {
		r := &s.rules[i]
		if r.Enforce == spec.EnforceDeny && !v.Allowed() {
			continue
		}
		switch f := e.apply(i); {
		case f.Reason == Satisfied:
		case r.Enforce == spec.EnforceAudit:
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

// release returns e to the pool without the claim's values.
func (s *Set) release(e *evaluation) {
	e.reset(s, &Input{})
	e.counts = false
	s.pool.Put(e)
}

// apply evaluates a rule.
func (e *evaluation) apply(i int) Finding {
	r := &e.set.rules[i]
	f := Finding{Rule: r.Name, Index: i}
	var val ref.Val
	if val, f.Reason, f.Detail = e.value(r.require); val == types.True {
		return f
	}
	f.Message = r.refusal
	if f.Reason != Satisfied {
		return f
	}
	f.Reason = Denied
	if r.message == nil {
		return f
	}
	val, err := e.evaluate(r.message)
	message, _ := val.(types.String)
	switch line := oneLine(string(message)); {
	case err != nil:
		f.Detail = "messageExpression: " + err.Error()
	case line == "":
		f.Detail = "messageExpression: the text is empty"
	default:
		f.Message = line
	}
	return f
}

// value evaluates the expression of a rule or a priority. The reason is Satisfied if it has a value, and
// otherwise comes with the error.
func (e *evaluation) value(x *expression) (val ref.Val, reason Reason, detail string) {
	e.exceeded = false
	err := e.in.User.Err()
	if err == nil {
		val, err = e.evaluate(x)
	}
	if err == nil && !e.exceeded {
		return val, Satisfied, ""
	}
	var missing *MissingError
	switch {
	case e.exceeded || tooCostly(err):
		return nil, TooCostly, "the evaluation reached its cost limit"
	case errors.As(err, &missing):
		return nil, Missing, missing.Error()
	}
	return nil, Failed, oneLine(err.Error())
}

// oneLine shortens a text to one printable line of at most MaxMessage bytes.
func oneLine(s string) string { return text.Short(s, MaxMessage) }

// Priority is the priority of a claim in a queue. All priorities of one set have one type, int or
// double, and compare exactly.
type Priority struct {
	whole   int64
	decimal float64
}

// Last is the lowest priority.
var Last = Priority{math.MinInt64, math.Inf(-1)}

// Compare returns +1 if p is higher than q and comes first, -1 if it is lower, and 0 if the order
// of arrival decides.
func (p Priority) Compare(q Priority) int {
	if c := cmp.Compare(p.whole, q.whole); c != 0 {
		return c
	}
	return cmp.Compare(p.decimal, q.decimal)
}

// Priority evaluates the priority expression. Without one, all claims are equal. A claim whose priority
// cannot be evaluated is Last.
func (s *Set) Priority(in *Input) (Priority, *PriorityFailure) {
	if s.priority == nil {
		return Priority{}, nil
	}
	e := s.evaluation(in)
	defer s.release(e)
	val, failed := e.priority()
	switch val := val.(type) {
	case types.Int:
		return Priority{whole: int64(val)}, nil
	case types.Double:
		return Priority{decimal: float64(val)}, nil
	}
	return Last, failed
}

func (e *evaluation) priority() (ref.Val, *PriorityFailure) {
	val, reason, detail := e.value(e.set.priority)
	if f, ok := val.(types.Double); ok && math.IsNaN(float64(f)) {
		reason, detail = Failed, "the priority is not a number (NaN)"
	}
	if reason != Satisfied {
		return nil, &PriorityFailure{reason, detail}
	}
	return val, nil
}

// PriorityFailure is why a priority cannot be evaluated.
type PriorityFailure struct {
	Reason Reason // Missing, TooCostly or Failed
	Detail string
}

// MarshalText implements encoding.TextMarshaler.
func (e *PriorityFailure) MarshalText() ([]byte, error) {
	return []byte(e.Reason.String() + ": " + e.Detail), nil
}
