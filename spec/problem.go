package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
)

// Problem is one problem of a document, with its remedy.
type Problem struct {
	File string `json:"file"` // name given by the user; "<stdin>" for standard input

	// Line and Column begin at 1; a column is a character, not a byte. Both are 0 for a
	// problem of the whole file, such as a missing one.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`

	Source  string `json:"-"`                // offending line without its end; secrets are masked
	Message string `json:"message"`          // one sentence without a full stop
	Remedy  string `json:"remedy,omitempty"` // sentences

	Cause error `json:"-"` // error of the operating system, if any
}

// Error returns file:line:column and the message in one line.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Unwrap returns the cause, such as fs.ErrNotExist.
func (p *Problem) Unwrap() error { return p.Cause }

// Text formats the problem for people: the error, the line with a caret under the column, and
// the remedy, each ended by a newline.
func (p *Problem) Text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.Error())
	if source, caret := p.Excerpt(); source != "" {
		fmt.Fprintf(&b, "    %s\n    %s\n", source, caret)
	}
	if p.Remedy != "" {
		fmt.Fprintf(&b, "  %s\n", p.Remedy)
	}
	return b.String()
}

// excerptWidth is the number of characters shown of a long line.
const excerptWidth = 100

// Excerpt returns the offending line, cut to a readable length around the column, and a line
// with a caret under the column on a terminal. Both are "" without a line.
func (p *Problem) Excerpt() (source, caret string) {
	if p.Line == 0 || strings.TrimSpace(p.Source) == "" {
		return "", ""
	}
	line, at := []rune(p.Source), p.Column-1
	if len(line) > excerptWidth {
		from := max(0, min(at-excerptWidth/2, len(line)-excerptWidth))
		line, at = line[from:from+excerptWidth], at-from
	}
	indent := make([]rune, 0, at)
	for _, r := range line[:min(at, len(line))] {
		indent = append(indent, blankLike(r))
	}
	return strings.Map(printable, string(line)), string(indent) + "^"
}

// blankLike returns a blank that is as wide on a terminal as r.
func blankLike(r rune) rune {
	switch {
	case r == '\t':
		return '\t'
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul),
		r >= 0x3000 && r <= 0x303e, r >= 0xff01 && r <= 0xff60:
		return '\u3000'
	}
	return ' '
}

// printable replaces control characters for the terminal.
func printable(r rune) rune {
	if r != '\t' && !unicode.IsPrint(r) {
		return utf8.RuneError
	}
	return r
}

// Problems returns all problems in err, in order; none if err is nil or of another kind.
func Problems(err error) []*Problem {
	if all, ok := errors.AsType[*multierror.Error](err); ok {
		var problems []*Problem
		for _, e := range all.Errors {
			problems = append(problems, Problems(e)...)
		}
		return problems
	}
	if one, ok := errors.AsType[*Problem](err); ok {
		return []*Problem{one}
	}
	return nil
}

// Join returns problems as an error, those of a file by line, and then the last ones; nil
// without problems.
func Join(problems []error, last ...error) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b error) int {
		p, ok := errors.AsType[*Problem](a)
		q, both := errors.AsType[*Problem](b)
		if !ok || !both || p.File != q.File {
			return 0
		}
		return byPlace(p, q)
	})
	return &multierror.Error{Errors: append(problems, last...), ErrorFormat: ErrorFormat}
}

// byPlace compares the places of two problems of one file.
func byPlace(p, q *Problem) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// ErrorFormat is the multierror format of Load's errors: the problems in sequence, then their
// count.
func ErrorFormat(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		if p, ok := errors.AsType[*Problem](err); ok {
			b.WriteString(p.Text())
		} else {
			fmt.Fprintln(&b, err)
		}
		b.WriteByte('\n')
	}
	if len(errs) == 1 {
		b.WriteString("1 problem")
	} else {
		fmt.Fprintf(&b, "%d problems", len(errs))
	}
	return b.String()
}
