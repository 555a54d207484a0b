package spec

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// source is the text of one file, which is UTF-8 without control characters.
type source struct {
	name  string   // name in problems
	dir   string   // base of relative paths
	lines []string // includes line ends

	// The last line split by runesAt. Nodes come line by line, and a line may be as long as
	// the file.
	split int
	runes []rune
}

// newSource rejects text that the YAML reader would reject without a place.
func newSource(name, dir, text string) (*source, *Problem) {
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return nil, &Problem{File: name, Line: 1, Column: 1, Message: "the file is UTF-16",
			Remedy: "Save it as UTF-8."}
	}
	text = strings.TrimPrefix(text, "\ufeff")
	src := &source{name: name, dir: dir, lines: splitLines(text)}
	for i, line := range src.lines {
		// Concatenated files have one before each document.
		if rest, is := strings.CutPrefix(line, "\ufeff"); is && (isMarker(rest, "---") || i > 0 && (isMarker(src.lines[i-1], "---") || isMarker(src.lines[i-1], "..."))) {
			src.lines[i], line = rest, rest
		}
		column := 1
		for at, r := range line {
			if message, remedy := foreign(line[at:], r); message != "" {
				return nil, src.problem(i+1, column, message, remedy)
			}
			column++
		}
	}
	return src, nil
}

// foreign returns the problem of the first character of rest, if any.
func foreign(rest string, r rune) (message, remedy string) {
	const remove = "Remove it; an editor that shows invisible characters finds it."
	switch {
	case r == utf8.RuneError && !strings.HasPrefix(rest, "\ufffd"):
		return "this is not UTF-8", "Save the file as UTF-8."
	case r < ' ' && r != '\t' && r != '\n' && r != '\r', r >= 0x7f && r <= 0x9f, r == 0xfffe, r == 0xffff:
		return "this is a control character", remove
	case r == '\u2028' || r == '\u2029':
		// YAML ends a line here and editors do not, so all later line numbers would be wrong.
		return "this is an invisible line separator (U+2028 or U+2029)", remove
	case r == '\ufeff':
		return "this is a byte order mark in the middle of the file", remove
	}
	return "", ""
}

// splitLines splits text after every line end: \n, \r\n or \r, as YAML does.
func splitLines(text string) []string {
	var lines []string
	for text != "" {
		end := strings.IndexAny(text, "\r\n") + 1
		switch {
		case end == 0:
			end = len(text)
		case strings.HasPrefix(text[end-1:], "\r\n"):
			end++
		}
		lines = append(lines, text[:end])
		text = text[end:]
	}
	return lines
}

// line returns a line, from 1, without its end; "" beyond the file.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return strings.TrimRight(s.lines[n-1], "\r\n")
}

// runesAt returns the rest of a line from a column on.
func (s *source) runesAt(line, column int) []rune {
	if s.split != line {
		s.split, s.runes = line, []rune(s.line(line))
	}
	return s.runes[min(column-1, len(s.runes)):]
}

func (s *source) problem(line, column int, message, remedy string) *Problem {
	return &Problem{File: s.name, Line: line, Column: column, Source: s.line(line), Message: message, Remedy: remedy}
}

// document is a part of a file with one YAML document.
type document struct {
	first int      // index of its first line in the file
	start int      // line for problems of the whole document, from 1
	lines []string // includes preceding comments and directives
}

// documents splits the file at its document markers. In YAML, --- and ... at the start of a
// line have no other meaning, even inside a block of text, so an error in one document does
// not hide the next.
func (s *source) documents() []document {
	var docs []document
	first, start := 0, 0
	end := func(next int) {
		if start > 0 {
			docs = append(docs, document{first, start, s.lines[first:next]})
		}
		first, start = next, 0
	}
	for i, line := range s.lines {
		switch {
		case isMarker(line, "---"):
			if start > 0 {
				end(i)
			}
			start = i + 1
		case isMarker(line, "..."):
			end(i + 1)
		case start == 0 && !isPreamble(line):
			start = i + 1
		}
	}
	end(len(s.lines))
	return docs
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n"))
}

// isPreamble reports whether a line may precede a document: a comment, a directive, or
// nothing.
func isPreamble(line string) bool {
	if strings.HasPrefix(line, "%") {
		return true
	}
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// resolve returns a path of the document relative to the working directory.
func (s *source) resolve(dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(s.dir, dir)
}
