package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"salectl/spec"
)

// place is the place of an expression or a message.
type place struct {
	name string // for people
	path string // in a document
}

// refuse adds a problem without a place in an expression.
func (c *compiler) refuse(at place, remedy, message string, args ...any) {
	c.add(at, &spec.Problem{Message: fmt.Sprintf(message, args...), Remedy: remedy})
}

// refuseAt adds a problem at a line (from 1) and a column (from 0) of an expression.
func (c *compiler) refuseAt(at place, text string, line, column int, remedy, message string) {
	lines := strings.Split(text, "\n")
	line = min(max(line, 1), len(lines))
	c.add(at, &spec.Problem{Line: line, Column: max(column, 0) + 1,
		Source: strings.TrimRight(lines[line-1], "\r"), Message: message, Remedy: remedy})
}

// add adds a problem whose line and column count within an expression, and moves it to its place in
// the sale's file. Without a file, the name of the expression stands for that of the file.
func (c *compiler) add(at place, p *spec.Problem) {
	p.File = at.name
	if in := c.sale.Place(at.path); in.Known() {
		p = in.Problem(p.Line, p.Column, p.File+": "+p.Message, p.Remedy)
	} else if c.sale.Name != "" {
		p.File = fmt.Sprintf("sale %s, %s", c.sale.Name, p.File)
	}
	c.problems = append(c.problems, p)
}

// issues adds the errors that CEL has found. parsed is nil after a syntax error.
func (c *compiler) issues(at place, text string, parsed *cel.Ast, issues *cel.Issues) {
	reported := map[string]bool{}
	for _, e := range issues.Errors() {
		line, column := e.Location.Line(), e.Location.Column()
		message, remedy := c.reword(e.Message, exprOf(parsed, e.ExprID))
		if undefinedField.MatchString(e.Message) {
			column = fieldAt(text, line, column, undefinedField.FindStringSubmatch(e.Message)[1])
		}
		if key := fmt.Sprint(line, column, message); !reported[key] {
			reported[key] = true
			c.refuseAt(at, text, line, column, remedy, message)
		}
	}
}

// fieldAt returns the column of a field that is selected at or after a column: CEL reports the
// point, or the bracket of has().
func fieldAt(text string, line, column int, name string) int {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return column
	}
	runes := []rune(lines[line-1])
	behind := string(runes[min(max(column, 0), len(runes)):])
	if i := strings.Index(behind, "."+name); i >= 0 {
		return column + utf8.RuneCountInString(behind[:i]) + 1
	}
	return column
}

// exprOf returns the part of an expression with an id, or nil if it is unknown.
func exprOf(parsed *cel.Ast, id int64) (found ast.Expr) {
	if parsed == nil || id == 0 {
		return nil
	}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.ID() == id {
			found = e
		}
	}))
	return found
}

var (
	undefinedField  = regexp.MustCompile(`^undefined field '([^']*)'`)
	undeclared      = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload      = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	syntaxExpecting = regexp.MustCompile(` expecting [^']*\{.*\}$`)
)

// reword rephrases CEL's errors about names and types.
func (c *compiler) reword(message string, at ast.Expr) (reworded, remedy string) {
	switch {
	case undefinedField.MatchString(message):
		return c.noField(undefinedField.FindStringSubmatch(message)[1], at)
	case undeclared.MatchString(message):
		name := undeclared.FindStringSubmatch(message)[1]
		if at != nil && at.Kind() == ast.CallKind && name != "dyn" {
			return fmt.Sprintf("there is no function %s()", name), oneOf(name, functions, "function")
		}
		return c.noName(name)
	case noOverload.MatchString(message):
		m := noOverload.FindStringSubmatch(message)
		return wrongTypes(m[1], m[2])
	case strings.HasPrefix(message, "Syntax error: "):
		message = strings.TrimPrefix(message, "Syntax error: ")
		return "this is no CEL: " + syntaxExpecting.ReplaceAllString(message, ""), "Complete the expression or correct it here."
	case strings.HasPrefix(message, "regex program size"):
		return message, "Write a shorter pattern, with smaller numbers of repetitions."
	case strings.Contains(message, "exceeds limit"), strings.Contains(message, "exceeds max"):
		return message, "Move parts of it into variables or into rules of their own."
	}
	return message, ""
}

// functions are the functions that rules may call, for remedies.
var functions = []string{
	"has", "all", "exists", "exists_one", "filter", "map", "size", "contains", "startsWith", "endsWith", "matches", "units",
	"int", "double", "string", "timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDate", "getDayOfWeek",
	"getHours", "getMinutes", "getSeconds", "getMilliseconds",
}

// noField returns the problem of an unknown field of an object.
func (c *compiler) noField(name string, at ast.Expr) (message, remedy string) {
	owner, structType := "this", purchaseType // rules name purchases themselves
	if at != nil && at.Kind() == ast.SelectKind && at.AsSelect().Operand().Kind() == ast.IdentKind {
		owner = at.AsSelect().Operand().AsIdent()
	}
	if _, ok := c.provider.objects[owner]; ok {
		structType = owner
	}
	if structType == variablesName && c.isVariable(name) {
		return fmt.Sprintf("the variable %q is not known here", name),
			"Use a variable only after its declaration; if the variable has a problem itself, correct that first."
	}
	kind := cmp.Or(map[string]string{userName: "attribute", variablesName: "variable"}[structType], "field")
	message = fmt.Sprintf("%s has no %s %q", owner, kind, name)
	if known, ok := c.provider.FindStructFieldNames(structType); ok {
		remedy = oneOf(name, known, kind)
	}
	return message, remedy
}

// oneOf returns the remedy for an unknown name.
func oneOf(name string, known []string, kind string) string {
	if near := spec.Nearest(name, known); near != "" {
		return fmt.Sprintf("Did you mean %s?", near)
	}
	if len(known) == 0 {
		return fmt.Sprintf("No %s is declared.", kind)
	}
	return fmt.Sprintf("The %ss are %s.", kind, strings.Join(known, ", "))
}

// noName returns the problem of an unknown variable or function.
func (c *compiler) noName(name string) (message, remedy string) {
	var known []string
	for _, n := range c.provider.names {
		known = append(known, n.Name())
	}
	_, attribute := c.provider.find(userName, name)
	switch first, _, _ := strings.Cut(name, "."); {
	case name == historyName && c.set != nil:
		return "history is not declared", "Declare the source of earlier purchases, or do not use history."
	case name == "dyn":
		return "dyn is not supported", "Convert with int(), double() or string()."
	case c.isVariable(name):
		return fmt.Sprintf("%q is not known", name), fmt.Sprintf("Write variables.%s.", name)
	case attribute:
		return fmt.Sprintf("%q is not known", name), fmt.Sprintf("Write user.%s.", name)
	default:
		return fmt.Sprintf("%q is not known", name), oneOf(first, known, "name")
	}
}

func (c *compiler) isVariable(name string) bool {
	return slices.ContainsFunc(c.sale.Variables, func(v spec.Variable) bool { return v.Name == name })
}

// wrongTypes returns the problem of a function or operator with arguments of wrong types.
func wrongTypes(function, types string) (message, remedy string) {
	if function == operators.Index {
		return "[] does not work with " + types, "Index a list by an int."
	}
	if symbol, ok := operators.FindReverse(function); ok && symbol != "" {
		return fmt.Sprintf("%s does not work with %s", symbol, types),
			"Values of different types are never equal and never add up; convert with int(), double() or string()."
	}
	return fmt.Sprintf("%s() does not work with %s", function, types), ""
}
