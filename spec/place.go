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

// positions returns the position of each character of a scalar, and of its end. It compares
// the value with the source text. Nil: the comparison failed.
func (s *source) positions(n *yaml.Node) []position {
	w := &walker{src: s, style: n.Style}
	w.enter(n.Line, n.Column)
	w.skipAnchor()
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		w.block(n.Value)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		w.at++
	}
	var all []position
	for _, r := range n.Value {
		if !w.follow(r, &all) {
			return nil
		}
	}
	return append(all, position{w.line, w.at + 1})
}

// walker walks along the source text of a scalar.
type walker struct {
	src    *source
	style  yaml.Style
	indent int    // indentation of a block's lines
	line   int    // from 1
	text   []rune // text of the line
	at     int    // index in the line, from 0
}

func (w *walker) enter(line, column int) {
	w.line, w.text = line, []rune(w.src.line(line))
	w.at = min(column-1, len(w.text))
}

// next moves to the continuation in the next line.
func (w *walker) next() {
	w.enter(w.line+1, w.indent+1)
	if w.indent == 0 {
		w.skipBlanks()
	}
}

func (w *walker) skipBlanks() {
	for w.at < len(w.text) && (w.text[w.at] == ' ' || w.text[w.at] == '\t') {
		w.at++
	}
}

// skipAnchor skips an anchor, which the position of a node includes.
func (w *walker) skipAnchor() {
	if w.at == len(w.text) || w.text[w.at] != '&' {
		return
	}
	for w.at < len(w.text) && w.text[w.at] != ' ' && w.text[w.at] != '\t' {
		w.at++
	}
	w.skipBlanks()
	if w.at == len(w.text) {
		w.next()
	}
}

// block moves to the first line of a block and finds its indentation: that of its first line
// that is not blank, less the leading blanks of the value.
func (w *walker) block(value string) {
	first := w.line + 1
	for line := first; line <= len(w.src.lines); line++ {
		if written := w.src.line(line); strings.TrimSpace(written) != "" {
			w.indent = leading(written)
			break
		}
	}
	for text := range strings.Lines(value) {
		if strings.TrimSpace(text) != "" {
			w.indent -= leading(text)
			break
		}
	}
	w.enter(first, w.indent+1)
}

func leading(text string) int { return len(text) - len(strings.TrimLeft(text, " ")) }

// ended reports whether the text has no more characters in this line.
func (w *walker) ended() bool {
	if w.indent > 0 {
		return w.at == len(w.text)
	}
	return strings.TrimSpace(string(w.text[w.at:])) == ""
}

// follow skips the source of one character of the value.
func (w *walker) follow(r rune, all *[]position) bool {
	for w.line <= len(w.src.lines) {
		here := position{w.line, w.at + 1}
		switch width := w.width(r); {
		case width > 0:
			w.at += width
			*all = append(*all, here)
			return true
		case w.ended():
			w.next()
			if r == ' ' || r == '\n' {
				*all = append(*all, here)
				return true
			}
		case w.style&yaml.DoubleQuotedStyle != 0 && string(w.text[w.at:]) == `\`:
			w.next()
		default:
			return false
		}
	}
	return r == '\n' // the end of the file ends its last line
}

// width returns the number of source characters here for one character of the value; 0 if it
// is not here.
func (w *walker) width(r rune) int {
	if w.at == len(w.text) {
		return 0
	}
	rest := w.text[w.at:]
	switch {
	case w.style&yaml.SingleQuotedStyle != 0 && r == '\'' && len(rest) > 1 && rest[0] == '\'' && rest[1] == '\'':
		return 2
	case w.style&yaml.DoubleQuotedStyle != 0 && rest[0] == '\\' && len(rest) > 1:
		return min(2+map[rune]int{'x': 2, 'u': 4, 'U': 8}[rest[1]], len(rest))
	case rest[0] == r:
		return 1
	}
	return 0
}
