package spec

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Place is the place of a text of a declaration in its file, so that other packages can report
// problems inside the text. The zero Place is unknown: the declaration was built in a program
// or comes from a ledger.
type Place struct {
	source *source
	node   *yaml.Node // a scalar
}

// Place returns the place of an expression or message by its path in the document, such as
// spec.payment.check.success or spec.rules[0].require.
func (s Sale) Place(path string) Place { return s.places[path] }

// Known reports whether the place is known.
func (p Place) Known() bool { return p.node != nil }

// Problem returns a problem at a line and a column of the text, both from 1, the column in
// characters; line 0 means the whole text. Its place is that in the file. p must be Known.
func (p Place) Problem(line, column int, message, remedy string) *Problem {
	at := position{p.node.Line, p.node.Column}
	if all := p.source.positions(p.node); all != nil {
		text := strings.TrimRight(p.node.Value, " \t\r\n")
		at = all[min(indexOf(p.node.Value, line, column), len([]rune(text)))]
	}
	return p.source.problem(at.line, at.column, message, remedy)
}

// indexOf returns the number of characters before a line and a column.
func indexOf(text string, line, column int) int {
	index := 0
	for n, part := range strings.SplitAfter(text, "\n") {
		length := len([]rune(part))
		if n+1 >= line {
			return index + min(max(column, 1)-1, length)
		}
		index += length
	}
	return index
}

// position is a line and column in a file, both from 1, the column in characters.
type position struct{ line, column int }

// char is a character of a file, with a newline for each line end.
type char struct {
	rune
	position
}

// from returns the characters of the file from a position on.
func (s *source) from(at position) (all []char) {
	for line := at.line; line <= len(s.lines); line++ {
		for i, r := range []rune(s.line(line) + "\n") {
			if line > at.line || i+1 >= at.column {
				all = append(all, char{r, position{line, i + 1}})
			}
		}
	}
	return all
}

// positions returns the position of each character of a scalar, and of its end. It compares
// the value with the source text, where indentation is skipped. Nil: the comparison failed.
func (s *source) positions(n *yaml.Node) (all []position) {
	rest := s.from(position{n.Line, n.Column})
	skip := func(while func(rune) bool) {
		for len(rest) > 0 && while(rest[0].rune) {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 && rest[0].rune == '&' { // an anchor, which the position of a node includes
		skip(func(r rune) bool { return !isBlank(r) })
		skip(isBlank)
	}
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		skip(func(r rune) bool { return r != '\n' })
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && len(rest) > 0:
		rest = rest[1:]
	}
	for _, r := range n.Value {
		width := 0
		for width == 0 && len(rest) > 0 {
			switch width = sourceWidth(r, rest, n.Style); {
			case width > 0:
			case isBlank(rest[0].rune):
				rest = rest[1:]
			case n.Style&yaml.DoubleQuotedStyle != 0 && rest[0].rune == '\\': // before a line end
				rest = rest[2:]
				skip(isBlank)
			default:
				return nil
			}
		}
		if len(rest) == 0 {
			return nil
		}
		all, rest = append(all, rest[0].position), rest[width:]
	}
	if len(rest) == 0 {
		return nil
	}
	return append(all, rest[0].position)
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// sourceWidth returns the number of characters at the start of a source text for one character
// of a scalar; 0 if it does not begin with this one.
func sourceWidth(r rune, text []char, style yaml.Style) int {
	first, second := text[0].rune, rune(0)
	if len(text) > 1 {
		second = text[1].rune
	}
	switch {
	case style&yaml.DoubleQuotedStyle != 0 && first == '\\' && second != '\n':
		return min(2+map[rune]int{'x': 2, 'u': 4, 'U': 8}[second], len(text))
	case style&yaml.SingleQuotedStyle != 0 && r == '\'' && first == '\'' && second == '\'':
		return 2
	case first == r, first == '\n' && r == ' ':
		return 1
	}
	return 0
}
