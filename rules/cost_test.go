package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

// An evaluation stops at the limit of its cost, under the options that all rules are
// evaluated with. CEL has once ignored the limit under some options. The same probes
// notice where the limit is missing, far too high or too low.
func TestEvaluationsStopAtTheirCost(t *testing.T) {
	if err := tryLimit(programOptions); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]func(uint64) []cel.ProgramOption{
		"no options":            func(uint64) []cel.ProgramOption { return nil },
		"costs without a limit": func(uint64) []cel.ProgramOption { return programOptions(1 << 40) },
		"too low":               func(uint64) []cel.ProgramOption { return programOptions(1) },
	} {
		if err := tryLimit(options); err == nil {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
}

// probeLimit is far above what each probe costs with little data, and far
// below what it costs with much.
const probeLimit = 60

// probes are expressions of all kinds that count: loops, calls, texts, reading
// attributes, making lists.
var probes = []string{
	"user.list.all(x, x != 'no')",
	"user.list.map(x, x + 'a').size() > -1",
	"!history.exists(h, h.sale == 'no')",
	"history.units() > -1",
	"user.list.all(x, !x.contains('no'))",
	"user.list.all(x, !x.matches('^no+$'))",
	"user.list.all(x, !(x in ['no', 'never']))",
	"variables.far",
}

// tryLimit evaluates each probe with little data, which must succeed, and with
// much, which must stop.
func tryLimit(options func(limit uint64) []cel.ProgramOption) error {
	schema := NewSchema(spec.Attribute{Name: "list", Type: spec.TypeStrings})
	few, err := probeInput(schema, 1)
	if err != nil {
		return err
	}
	many, err := probeInput(schema, MaxList)
	if err != nil {
		return err
	}
	c, err := newCompiler(declaration{Attributes: schema, History: true}.sale())
	if err != nil {
		return err
	}
	c.options = options(probeLimit)
	c.variable(spec.Variable{Name: "far", Expression: probes[0]}, "")
	for _, probe := range probes {
		x := c.expression(place{"rule probe, require", ""}, probe, "", types.BoolType)
		if len(c.problems) > 0 {
			return c.problems[0]
		}
		if err := tryProbe(c.set, x, few, many); err != nil {
			return fmt.Errorf("%q: %w", probe, err)
		}
	}
	return nil
}

func tryProbe(s *Set, x *expression, few, many *Input) error {
	e := evaluation{counts: true}
	e.reset(s, few)
	if val, err := e.evaluate(x); err != nil || val != types.True {
		return fmt.Errorf("with one element it is %v, %v", val, err)
	}
	e.reset(s, many)
	switch _, err := e.evaluate(x); {
	case err == nil:
		return errors.New("the limit of its cost is ignored")
	case !tooCostly(err):
		return err
	}
	return nil
}

func probeInput(s *Schema, n int) (*Input, error) {
	list := make([]string, n)
	for i := range list {
		list[i] = "yes"
	}
	user := s.Known("probe", []Value{listOf(list)})
	return &Input{User: user.WithHistory(slices.Repeat([]Purchase{{Sale: "yes"}}, n))}, nil
}
