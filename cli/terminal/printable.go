package terminal

import (
	"regexp"
	"strconv"
	"strings"
)

// unprintable matches control characters, and the colours of palette, which printable keeps.
var unprintable = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33)m|[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}]`)

// Printable escapes control characters as in \x1b: many texts come from a server, a user or a
// file.
func Printable(text string) string {
	return unprintable.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "\x1b[") {
			return found
		}
		return strings.Trim(strconv.QuoteRuneToASCII([]rune(found)[0]), "'")
	})
}
