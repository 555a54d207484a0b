package rules

import (
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"salectl/spec"
)

// Input is the input of a decision. Times may have any zone; rules see UTC.
type Input struct {
	User  Attributes // with at most MaxList purchases; ignored unless a rule uses them
	Claim Claim
	Sale  *spec.Sale
	Now   time.Time
}

// Claim is the request of a buyer.
type Claim struct {
	Quantity int64
	Key      string    // idempotency key of the request; empty: missing
	At       time.Time // time of the request; zero: missing
}

// evaluation is the evaluation of one claim. It is not safe for concurrent use.
type evaluation struct {
	set       *Set
	in        Input
	variables []variableState
	now       ref.Val // nil until used
	history   ref.Val // nil until used

	// exceeded is set when a variable of the expression has reached the cost limit, because && and
	// || may hide that error.
	exceeded bool
	// counts reports whether the cost of every expression is counted, not only of those that may
	// reach the limit. spent is the cost counted so far.
	counts bool
	spent  uint64
}

type variableState struct {
	val  ref.Val
	err  error
	done bool
}

// reset prepares e for a claim. It copies in, so that the caller's can stay on its stack.
func (e *evaluation) reset(s *Set, in *Input) {
	if cap(e.variables) < len(s.variables) {
		e.variables = make([]variableState, len(s.variables))
	}
	e.variables = e.variables[:len(s.variables)]
	clear(e.variables)
	e.set, e.in, e.now, e.history, e.exceeded, e.spent = s, *in, nil, nil, false, 0
}

// ResolveName implements cel.Activation. All objects are the evaluation itself; each field reads
// its value from it.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case userName, claimName, saleName, variablesName:
		return e, true
	case nowName:
		if e.now == nil {
			e.now = types.Timestamp{Time: e.in.Now.UTC()}
		}
		return e.now, true
	case historyName:
		return e.purchases(), true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (e *evaluation) Parent() cel.Activation { return nil }

// purchases returns history as a list, or an error if it is longer than MaxList.
func (e *evaluation) purchases() ref.Val {
	if e.history != nil {
		return e.history
	}
	bought := e.in.User.History()
	if len(bought) > MaxList {
		e.history = types.NewErr("history has %d purchases, at most %d are allowed", len(bought), MaxList)
		return e.history
	}
	all := make([]purchase, len(bought))
	vals := make([]ref.Val, len(all))
	for i, p := range bought {
		all[i].Purchase = p
		vals[i] = &all[i]
	}
	e.history = types.NewRefValList(types.DefaultTypeAdapter, vals)
	return e.history
}

// variable returns the value of a variable, which it evaluates on first use.
func (e *evaluation) variable(i int) (ref.Val, error) {
	v := &e.variables[i]
	if !v.done {
		v.val, v.err = e.evaluate(&e.set.variables[i].expression)
		if v.err == nil {
			if err := withinBounds(v.val); err != nil {
				v.err = fmt.Errorf("variables.%s %w", e.set.variables[i].name, err)
			}
		}
		v.done = true
	}
	if v.err != nil {
		e.exceeded = e.exceeded || tooCostly(v.err) // again for each expression that uses it
	}
	return v.val, v.err
}

// evaluate returns the value of an expression. It counts the cost if e.counts is set or the limit
// may be needed.
func (e *evaluation) evaluate(x *expression) (ref.Val, error) {
	program := x.program
	if x.quick != nil && !e.counts {
		program = x.quick
	}
	val, details, err := program.Eval(e)
	if cost := details.ActualCost(); cost != nil {
		e.spent += *cost
	}
	if err != nil {
		return nil, err
	}
	return val, nil
}

func tooCostly(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}
