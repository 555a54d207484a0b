package rules

import (
	"cmp"
	"errors"
	"math"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Priority is the rank of a claim in a queue. All priorities of one set are of
// one type, int or double, and compare exactly.
type Priority struct {
	whole   int64
	decimal float64
}

// Last is the priority behind all others.
var Last = Priority{math.MinInt64, math.Inf(-1)}

// Compare returns +1 if p comes before q, that is if it is higher, -1 if it comes
// after it, and 0 if the order of arrival decides.
func (p Priority) Compare(q Priority) int {
	if c := cmp.Compare(p.whole, q.whole); c != 0 {
		return c
	}
	return cmp.Compare(p.decimal, q.decimal)
}

// Priority evaluates the expression for the order of the queue. Without one, all
// claims are equal. The error says why it could not be evaluated; Reason sorts it.
func (s *Set) Priority(in *Input) (Priority, error) {
	if s.priority == nil {
		return Priority{}, nil
	}
	e := s.evaluation(in)
	defer s.release(e)
	val, err := ref.Val(nil), in.User.Err()
	if err == nil {
		val, err = e.evaluate(s.priority)
	}
	if err == nil && e.exceeded {
		err = errors.New("the evaluation came to the limit of its cost")
	}
	if err != nil {
		reason, detail := e.reason(err)
		return Priority{}, &PriorityError{reason, detail}
	}
	if n, ok := val.(types.Int); ok {
		return Priority{whole: int64(n)}, nil
	}
	f := float64(val.(types.Double))
	if math.IsNaN(f) {
		return Priority{}, &PriorityError{Failed, "the priority is not a number (NaN)"}
	}
	return Priority{decimal: f}, nil
}

// PriorityError is a priority that could not be evaluated.
type PriorityError struct {
	Reason Reason // Missing, TooCostly or Failed
	Detail string
}

func (e *PriorityError) Error() string { return "priority: " + e.Detail }
