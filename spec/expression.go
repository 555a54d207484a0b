package spec

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// expression is the place of a CEL expression. Package rules defines the language; this
// package locates each line of the expression in the file.
type expression struct {
	src  *source
	node *yaml.Node
}

// expression decodes a CEL expression and records its place.
func (d *decoder) expression(o object, key, example string) string {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "an expression in CEL", "Write an expression, such as "+key+": "+example+".") {
		return ""
	}
	text := strings.TrimRight(v.node.Value, "\n") // line end of a block
	if strings.TrimSpace(text) == "" {
		d.refuse(v.at, "Write an expression, such as "+key+": "+example+".", "%s is blank", v.path)
		return ""
	}
	if d.expressions == nil {
		d.expressions = make(map[string]*expression)
	}
	d.expressions[v.path] = &expression{d.src, v.node}
	return text
}

// InExpression converts a problem of an expression to one with the place in the file. Line and
// Column of p are relative to the expression, whose path is like spec.payment.check.success.
// If YAML has folded or unescaped the text, the place is the expression's first character. A
// declaration of FromJSON has no file, so p is returned unchanged.
func (s Sale) InExpression(path string, p Problem) *Problem {
	e := s.expressions[path]
	if e == nil {
		return &p
	}
	line, column, exact := e.place(p.Line, p.Column)
	if !exact {
		line, column = e.node.Line, e.node.Column
	}
	return e.src.problem(line, column, path+": "+p.Message, p.Remedy)
}

// place returns the position in the file of a character of the expression.
func (e *expression) place(line, column int) (int, int, bool) {
	lines := strings.Split(e.node.Value, "\n")
	if line < 1 || line > len(lines) {
		return 0, 0, false
	}
	text := lines[line-1]
	if e.node.Style&yaml.LiteralStyle != 0 {
		source := e.src.line(e.node.Line + line)
		if !strings.HasSuffix(source, text) {
			return 0, 0, false
		}
		return e.node.Line + line, utf8.RuneCountInString(strings.TrimSuffix(source, text)) + column, true
	}
	first := e.node.Column
	if e.node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		first++
	}
	if rest := string(e.src.runesAt(e.node.Line, first)); len(lines) > 1 || !strings.HasPrefix(rest, text) {
		return 0, 0, false
	}
	return e.node.Line, first + column - 1, true
}
