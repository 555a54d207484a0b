package spec

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"

	"gopkg.in/yaml.v3"
)

// JSON is a subset of YAML except for two escapes that the YAML reader lacks: \/, which PHP
// writes, and a surrogate pair \uXXXX\uXXXX.

// rewrite is a position in the rewritten text, from 1, after which its line is shorter than in
// the file by by characters.
type rewrite struct{ line, column, by int }

// readableJSON rewrites JSON for the YAML reader and returns other text unchanged.
func readableJSON(text string) (string, []rewrite) {
	if !strings.Contains(text, `\`) || !json.Valid([]byte(text)) {
		return text, nil
	}
	var b strings.Builder
	var all []rewrite
	line, column := 1, 1
	for i := 0; i < len(text); {
		took, gave := 1, text[i:i+1]
		switch {
		case text[i] == '\n' || text[i] == '\r' && !strings.HasPrefix(text[i:], "\r\n"):
			line, column = line+1, 0
		case strings.HasPrefix(text[i:], `\/`):
			took, gave = 2, "/"
		case text[i] == '\\':
			took, gave = 2, text[i:i+2] // another escape, unchanged
			if r := utf16.DecodeRune(escaped(text[i:]), escaped(text[min(i+6, len(text)):])); r != '\ufffd' {
				took, gave = 12, `\U000`+strconv.FormatInt(int64(r), 16)
				if r > 0xfffff {
					gave = `\U00` + strconv.FormatInt(int64(r), 16)
				}
			}
		case text[i]&0xc0 == 0x80:
			column-- // not the first byte of a character
		}
		b.WriteString(gave)
		column += len(gave)
		if by := took - len(gave); by != 0 {
			if n := len(all); n > 0 && all[n-1].line == line {
				by += all[n-1].by
			}
			all = append(all, rewrite{line, column, by})
		}
		i += took
	}
	return b.String(), all
}

// escaped returns the code of the \uXXXX at the start of a text, or 0.
func escaped(text string) rune {
	if len(text) < 6 || text[:2] != `\u` {
		return 0
	}
	n, _ := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n)
}

// restore sets the columns of nodes to those in the file.
func restore(n *yaml.Node, all []rewrite) {
	next := sort.Search(len(all), func(i int) bool {
		return all[i].line > n.Line || all[i].line == n.Line && all[i].column > n.Column
	})
	if next > 0 && all[next-1].line == n.Line {
		n.Column += all[next-1].by
	}
	for _, below := range n.Content {
		restore(below, all)
	}
}
