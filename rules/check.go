package rules

import (
	"fmt"
	"regexp"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// deterministic reports whether an expression is deterministic and bounded. It adds a problem for
// each part that CEL allows but rules must not contain: results that may differ between evaluations
// or hosts, and values that cannot be recorded or bounded.
func (c *compiler) deterministic(at place, text string, checked *cel.Ast) bool {
	before := len(c.problems)
	native := checked.NativeRep()
	for _, e := range ast.MatchDescendants(ast.NavigateAST(native), func(ast.NavigableExpr) bool { return true }) {
		message, remedy := c.forbidden(e)
		if message != "" {
			l := native.SourceInfo().GetStartLocation(e.ID())
			c.refuseAt(at, text, l.Line(), l.Column(), remedy, message)
		}
	}
	return len(c.problems) == before
}

// zoned are the functions that accept a time zone.
var zoned = []string{
	overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear, overloads.TimeGetDayOfMonth,
	overloads.TimeGetDate, overloads.TimeGetDayOfWeek, overloads.TimeGetHours, overloads.TimeGetMinutes,
	overloads.TimeGetSeconds, overloads.TimeGetMilliseconds,
}

var offset = regexp.MustCompile(`^(UTC|[-+](0[0-9]|1[0-4]):[0-5][0-9])$`)

// forbidden returns the problem of one part of an expression, or "".
func (c *compiler) forbidden(e ast.NavigableExpr) (message, remedy string) {
	if owner := c.provider.object(e.Type()); owner != "" {
		if parent, ok := e.Parent(); !ok || parent.Kind() != ast.SelectKind {
			names, _ := c.provider.FindStructFieldNames(owner)
			return owner + " is used as a whole", fmt.Sprintf("Name one of its fields, such as %s.%s.", owner, append(names, "name")[0])
		}
	}
	switch e.Kind() {
	case ast.StructKind:
		return "an expression cannot make an object", "Compare the fields of those that there are."
	case ast.ComprehensionKind:
		over := e.AsComprehension().IterRange().(ast.NavigableExpr)
		if k := over.Type().Kind(); k == types.MapKind {
			return "this iterates over a map, which has no fixed order", "Iterate over a list."
		}
	case ast.CallKind:
		return forbiddenCall(e.AsCall())
	}
	return "", ""
}

func forbiddenCall(call ast.CallExpr) (message, remedy string) {
	args := call.Args()
	switch {
	case slices.Contains(zoned, call.FunctionName()) && len(args) == 1:
		if zone, ok := literal(args[0]); !ok || !offset.MatchString(zone) {
			return "a time zone by its name depends on the tables of each host", `Write an offset, such as "+08:00" or "UTC".`
		}
	case call.FunctionName() == overloads.Matches && len(args) > 0:
		if _, ok := literal(args[len(args)-1]); !ok {
			return "the pattern of matches is not written out, so its cost is not known", "Write the pattern as a text in quotes."
		}
	}
	return "", ""
}

func literal(e ast.Expr) (text string, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// names collects the names that an expression reads and the variables that it needs.
func (c *compiler) names(x *expression, checked *cel.Ast) {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), func(ast.NavigableExpr) bool { return true }) {
		switch e.Kind() {
		case ast.IdentKind:
			if name := e.AsIdent(); name == nowName && e.Type().IsExactType(types.TimestampType) || name == historyName && e.Type().IsExactType(historyType) {
				x.reads = append(x.reads, name)
			}
		case ast.SelectKind:
			operand := e.AsSelect().Operand().(ast.NavigableExpr)
			owner, name := c.provider.object(operand.Type()), e.AsSelect().FieldName()
			switch owner {
			case "":
			case variablesName:
				i := slices.IndexFunc(c.set.variables, func(v variable) bool { return v.name == name })
				x.uses = append(append(x.uses, i), c.set.variables[i].uses...)
			default:
				x.reads = append(x.reads, owner+"."+name)
			}
		}
	}
	slices.Sort(x.reads)
	x.reads = slices.Compact(x.reads)
	slices.Sort(x.uses)
	x.uses = slices.Compact(x.uses)
}
