package units

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode"
	"unicode/utf8"

	"salectl/internal/csvfile"
)

// Limits of a file.
const (
	maxColumns = 32
	maxField   = 4096 // bytes
	maxLine    = maxColumns * (2*maxField + 3)
)

// lines passes a file on to a CSV reader, without the lines that the reader could not handle.
// It replaces each of these by an empty line, so that lines keep their numbers. In its output
// each record is one line.
type lines struct {
	from   *bufio.Reader
	refuse csvfile.Refuse
	number int    // of the last line read
	empty  int    // the first of the empty lines at the end so far; 0: there is none
	rest   []byte // of the line, not passed on yet
	text   []byte // the line without its end
	err    error  // what follows rest

	// filled is the number of lines that are not empty, most their maximum, and surplus the
	// number of the first line beyond it; 0: there is none.
	filled, most int64
	surplus      int
}

func newLines(from io.Reader, most int64, refuse csvfile.Refuse) *lines {
	l := &lines{from: bufio.NewReaderSize(from, maxLine+2), refuse: refuse, most: most}
	if mark, _ := l.from.Peek(3); string(mark) == "\ufeff" {
		_, _ = l.from.Discard(3)
	}
	return l
}

// Read implements io.Reader. It returns at most one line at a time, so that number is that of
// the record being read.
func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 && l.err == nil {
		l.next()
	}
	if len(l.rest) == 0 {
		return 0, l.err
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

var newline = []byte("\n")

func (l *lines) next() {
	line, err := l.from.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.from.ReadSlice('\n')
	}
	l.err = err
	if len(line) == 0 {
		return
	}
	l.number++
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, newline), []byte("\r"))
	l.text, l.rest = text, line
	if len(text) == 0 {
		if l.empty == 0 {
			l.empty = l.number
		}
		return
	}
	if l.filled++; l.filled == l.most+1 {
		l.surplus = l.number
	}
	if l.empty > 0 {
		_ = l.refuse(l.empty, 1, "Remove it.", "the line is empty")
		l.empty = 0
	}
	switch {
	case long:
		l.leaveOut(1, "Write one unit a line.", "the line has more than %d bytes", maxLine)
	case !l.foreign(text) && bytes.Count(text, []byte(`"`))%2 == 1: // its record would continue in the next line
		l.leaveOut(1, "Close it in the same line, and double a quote that is meant.", "a quote is not closed")
	}
}

// column converts a column in bytes of the line to one in characters.
func (l *lines) column(bytes int) int { return utf8.RuneCount(l.text[:min(bytes-1, len(l.text))]) + 1 }

// foreign leaves out a line that is not UTF-8, or has tabs or invisible characters. It reports whether it did.
func (l *lines) foreign(text []byte) bool {
	column := 1
	for rest := text; len(rest) > 0; column++ {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			l.leaveOut(column, "Save the file as UTF-8.", "this is not UTF-8")
			return true
		case r == '\t':
			l.leaveOut(column, "Separate cells by commas or semicolons, and write spaces within them.", "this is a tab")
			return true
		case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff':
			l.leaveOut(column, "Remove it; an editor that shows invisible characters finds it.", "this is a control character")
			return true
		}
		rest = rest[size:]
	}
	return false
}

func (l *lines) leaveOut(column int, remedy, message string, args ...any) {
	_ = l.refuse(l.number, column, remedy, message, args...)
	l.rest = newline
}
