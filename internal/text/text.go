// Package text shortens texts to one line for logs, tables and messages.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const cut = "…" // replaces omitted text

// OneLine converts s to one line: white space becomes single spaces, and invalid UTF-8 and
// unprintable characters become U+FFFD.
func OneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), unicode.IsSpace), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// Short is OneLine, cut to at most limit bytes.
func Short(s string, limit int) string {
	if s = OneLine(s); len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len(cut)], "") + cut
	}
	return s
}

// Ranges formats ascending numbers, such as "0-3,7".
func Ranges(numbers []int) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, numbers[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", numbers[j])
		}
		i = j + 1
	}
	return b.String()
}
