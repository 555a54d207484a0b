package rules

import (
	"cmp"
	"errors"
	"math"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

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

// Priority evaluates the priority expression. Without one, all claims are equal. The error is a
// *PriorityError.
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

// PriorityError is the error of evaluating a priority.
type PriorityError struct {
	Reason Reason // Missing, TooCostly or Failed
	Detail string
}

func (e *PriorityError) Error() string { return "priority: " + e.Detail }

// MarshalText implements encoding.TextMarshaler.
func (e *PriorityError) MarshalText() ([]byte, error) {
	return []byte(e.Reason.String() + ": " + e.Detail), nil
}
