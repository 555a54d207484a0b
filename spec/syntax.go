package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// parse parses the single document in text. A nil node: there is none.
func parse(text string) (root *yaml.Node, err error) {
	// The reader reports some of its own errors by panics, which a file must not pass on to
	// the program.
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("yaml: %v", r)
		}
	}()
	text = readableJSON(yaml12.ReplaceAllString(text, "${1}1$2"))
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	// Text after the document's end is only detected by reading a second one.
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, errors.New("yaml: a second document begins without ---")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return doc.Content[0], nil
}

// yaml12 matches the directive of YAML 1.2 before a document. The reader only knows 1.1;
// values that the two versions read differently, such as no and 010, are rejected elsewhere.
var yaml12 = regexp.MustCompile(`(?m)(^%YAML[ \t]+1\.)2([ \t\r]|$)`)

// syntaxProblem locates a syntax error. The reader's errors have at most a line, often that of
// the construct around the error. So the place is found by parsing shorter parts of the text.
func (s *source) syntaxProblem(doc document, err error) *Problem {
	lines, want := doc.lines, readerMessage(err)
	fails := func(text string) bool {
		_, err := parse(text)
		return err != nil && readerMessage(err) == want
	}
	text := strings.Join(lines, "")
	ends := make([]int, len(lines)+1)
	for i, line := range lines {
		ends[i+1] = ends[i] + len(line)
	}
	thorough := len(text) <= 8<<10
	line := lastStart(len(lines), thorough, func(n int) bool { return fails(text[:ends[n]]) })
	runes := []rune(lines[line-1])
	column := lastStart(len(runes), thorough, func(n int) bool {
		return fails(text[:ends[line-1]] + string(runes[:n]))
	})

	if p := s.oddSpace(doc, want); p != nil {
		return p
	}
	m := describeSyntax(want, runes[column-1])
	if m.backTo != "" {
		before := string(runes[:column])
		if at := strings.LastIndex(before, m.backTo); at >= 0 {
			column = utf8.RuneCountInString(before[:at]) + 1
		}
	}
	p := s.problem(doc.first+line, column, m.message, m.remedy)
	p.Column = min(column, utf8.RuneCountInString(p.Source)+1)
	p.Source = hideSecrets(p.Source)
	return p
}

// oddSpaces matches a space of another kind in a place where YAML requires an ordinary one: in the
// indentation, after a colon or after a dash.
var oddSpaces = regexp.MustCompile("(?m)(?:^|:|^ *-) *([\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000])")

// oddSpace returns the problem if such a space is the cause of a syntax error.
func (s *source) oddSpace(doc document, want string) *Problem {
	text := strings.Join(doc.lines, "")
	for i, line := range doc.lines {
		at := oddSpaces.FindStringSubmatchIndex(line)
		if at == nil {
			continue
		}
		_, size := utf8.DecodeRuneInString(line[at[2]:])
		before := len(strings.Join(doc.lines[:i], "")) + at[2]
		if _, err := parse(text[:before] + " " + text[before+size:]); err != nil && readerMessage(err) == want {
			continue
		}
		p := s.problem(doc.first+i+1, utf8.RuneCountInString(line[:at[2]])+1,
			"this is a space that YAML does not accept, such as a no-break space", "Write a plain space.")
		p.Source = hideSecrets(p.Source)
		return p
	}
	return nil
}

// hideSecrets masks the text after a secret key in a line that was not parsed to nodes.
func hideSecrets(line string) string {
	found := secretWord.FindStringIndex(line)
	if found == nil {
		return line
	}
	shown := len(line)
	if colon := strings.IndexByte(line[found[1]:], ':'); colon >= 0 {
		shown = found[1] + colon + 1
	}
	return line[:shown] + strings.Repeat("*", utf8.RuneCountInString(line[shown:]))
}

// lastStart returns the smallest n, from 1, from which on holds is true up to limit, given
// that it is true at limit. If thorough and limit is small, it tests every n from the end;
// otherwise it bisects, which may find an earlier change if there are several.
func lastStart(limit int, thorough bool, holds func(n int) bool) int {
	if !thorough || limit > 200 {
		return 1 + sort.Search(limit-1, func(i int) bool { return holds(i + 1) })
	}
	n := limit
	for n > 1 && holds(n-1) {
		n--
	}
	return n
}

// syntaxMistake is this package's text for an error of the YAML reader.
type syntaxMistake struct {
	yaml            string // substring of the reader's error
	message, remedy string
	backTo          string // start of the mistake, left of where reading failed
}

var syntaxMistakes = []syntaxMistake{
	{yaml: "mapping values are not allowed", message: "a key with a colon cannot stand here",
		remedy: "Put it on a line of its own, indented like its neighbours; or quote the text, if the colon is part of it."},
	{yaml: "did not find expected key", message: "the indentation fits nothing above it, or something is left over in this line",
		remedy: "Indent all keys of one level alike, and quote text with special characters."},
	{yaml: "did not find expected '-' indicator", message: "the indentation fits no list item above it",
		remedy: "Indent all items of one list alike, each with a dash."},
	{yaml: "could not find expected ':'", message: "a colon is missing behind a key",
		remedy: "Write key: value."},
	{yaml: "did not find expected ',' or ']'", message: "a list is not closed",
		remedy: "Put commas between its items and ] behind the last."},
	{yaml: "did not find expected ',' or '}'", message: "a mapping is not closed",
		remedy: "Put commas between its keys and } behind the last."},
	{yaml: "found unexpected end of stream", message: "a quote is not closed",
		remedy: "Close it with the same kind of quote."},
	{yaml: "found unexpected document indicator", message: "the document ends inside quoted text",
		remedy: "Close the quote before it."},
	{yaml: "found unknown escape character", message: "this escape is unknown in double quotes",
		remedy: `Write \\ for a backslash, / alone for \/, or use single quotes.`, backTo: `\`},
	{yaml: "unknown anchor", message: "the alias names no anchor above it",
		remedy: "Define it with & before it is used, or quote the text, if the * is part of it.", backTo: "*"},
	{yaml: "block sequence entries are not allowed", message: "a list item cannot stand here",
		remedy: "Begin each item on a line of its own."},
	{yaml: "did not find expected node content", message: "a value is missing here",
		remedy: "Write the value, or close the bracket."},
	{yaml: "<document start>", message: "something follows the end of the document",
		remedy: "Remove it, or begin another document with a line of ---."},
	{yaml: "exceeded max depth", message: "it is nested too deeply",
		remedy: "A sale has no more than four levels."},
}

var readerPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// readerMessage returns the reader's text without the line, which for some errors is that of
// the text's end.
func readerMessage(err error) string { return readerPrefix.ReplaceAllString(err.Error(), "") }

// describeSyntax translates the reader's error. at is the character at which reading failed.
func describeSyntax(err string, at rune) syntaxMistake {
	if at == '\t' {
		return syntaxMistake{message: "the indentation contains a tab", remedy: "Indent with spaces; YAML takes no tabs."}
	}
	if strings.Contains(err, "cannot start any token") {
		return syntaxMistake{message: fmt.Sprintf("a value cannot begin with %c", at), remedy: "Quote the text."}
	}
	for _, m := range syntaxMistakes {
		if strings.Contains(err, m.yaml) {
			return m
		}
	}
	return syntaxMistake{message: "this is not YAML: " + err,
		remedy: "Correct it here or in the lines before."}
}

var (
	jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	jsonEscape = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\.`)
)

// readableJSON rewrites JSON for the YAML reader and returns other text unchanged. JSON is a subset
// of YAML except for two escapes that the reader lacks: \/, which PHP writes, and a surrogate pair
// \uXXXX\uXXXX. Blanks behind a string replace the characters that it loses, so that whatever
// follows keeps its column.
func readableJSON(text string) string {
	if !strings.Contains(text, `\`) || !json.Valid([]byte(text)) {
		return text
	}
	return jsonString.ReplaceAllStringFunc(text, func(quoted string) string {
		plain := jsonEscape.ReplaceAllStringFunc(quoted, func(escape string) string {
			var decoded string
			switch {
			case escape == `\/`:
				return "/"
			case len(escape) == 2 || json.Unmarshal([]byte(`"`+escape+`"`), &decoded) != nil:
				return escape
			}
			return fmt.Sprintf(`\U%08x`, []rune(decoded)[0])
		})
		return plain + strings.Repeat(" ", len(quoted)-len(plain))
	})
}
