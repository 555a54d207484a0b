package rules

import (
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/spec"
)

// Explanation is the result of each rule for an input, with its values and costs.
type Explanation struct {
	Verdict Verdict // as returned by Decide
	Rules   []RuleResult
	// Priority is the priority in the queue; nil if the declaration has none.
	Priority *PriorityResult
}

// RuleResult is the result of one rule.
type RuleResult struct {
	Name      string       `json:"name"`
	Enforce   spec.Enforce `json:"enforce"`
	Require   string       `json:"require"` // the expression
	Finding                // with the reason Satisfied if the rule is satisfied
	Values    []NamedValue `json:"values"`
	Cost      uint64       `json:"cost"`      // of this evaluation, in units of CEL, including variables and message
	WorstCost uint64       `json:"worstCost"` // worst case of require with its variables
}

// PriorityResult is the priority of a claim.
type PriorityResult struct {
	Expression string           `json:"expression"`
	Value      string           `json:"value,omitempty"` // in CEL notation; empty if Err is set
	Err        *PriorityFailure `json:"error,omitempty"`
	Values     []NamedValue     `json:"values"`
	Cost       uint64           `json:"cost"`
	WorstCost  uint64           `json:"worstCost"`
}

// NamedValue is a value that an expression reads, such as user.level.
type NamedValue struct {
	Name  string `json:"name"`
	Value string `json:"value"` // in CEL notation, or "missing", or the error of a variable
}

// Explain evaluates each rule separately, so that the cost of a variable counts for each rule that
// uses it.
func (s *Set) Explain(in *Input) Explanation {
	x := Explanation{Verdict: s.Decide(in)}
	e := s.evaluation(in)
	defer s.release(e)
	e.counts = true
	for i, r := range s.rules {
		e.reset(s, in)
		result := RuleResult{Name: r.Name, Enforce: r.Enforce, Require: r.Require, Finding: e.apply(i), WorstCost: r.require.worst}
		result.Cost = e.spent
		result.Values = e.named(r.require)
		x.Rules = append(x.Rules, result)
	}
	if s.priority == nil {
		return x
	}
	e.reset(s, in)
	x.Priority = &PriorityResult{Expression: s.priority.text, WorstCost: s.priority.worst}
	if val, failed := e.priority(); failed != nil {
		x.Priority.Err = failed
	} else {
		x.Priority.Value = Show(val)
	}
	x.Priority.Cost = e.spent
	x.Priority.Values = e.named(s.priority)
	return x
}

// named returns the values of all names that an expression reads directly or through variables, and
// then those of the variables.
func (e *evaluation) named(x *expression) []NamedValue {
	values := []NamedValue{}
	seen := map[string]bool{}
	read := func(x *expression) {
		for _, name := range x.reads {
			if !seen[name] {
				seen[name] = true
				values = append(values, NamedValue{name, e.read(name)})
			}
		}
	}
	for _, i := range x.uses {
		read(&e.set.variables[i].expression)
	}
	read(x)
	for _, i := range x.uses {
		val, err := e.variable(i)
		values = append(values, NamedValue{variablesName + "." + e.set.variables[i].name, shown(val, err)})
	}
	return values
}

// read returns the value of a name such as user.level.
func (e *evaluation) read(name string) string {
	switch name {
	case nowName:
		return Show(types.Timestamp{Time: e.in.Now.UTC()})
	case historyName:
		if err, ok := e.purchases().(*types.Err); ok {
			return shown(nil, err)
		}
		return Show(e.purchases())
	}
	object, name, _ := strings.Cut(name, ".")
	f, _ := e.set.provider.find(object, name)
	return shown(f.get(e))
}

func shown(val ref.Val, err error) string {
	switch {
	case err != nil:
		return "error: " + oneLine(err.Error())
	case val == nil:
		return "missing"
	}
	return Show(val)
}
