package planview

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"salectl/spec"
)

// maxCharacters is the maximum length of a comment in UTF-16 units, the largest of all ways to
// count characters. GitHub accepts 65,536; the rest is for additions of a pipeline.
const maxCharacters = 65_000

// maxValue and maxLine are the maximum numbers of characters of a value and of a line.
const (
	maxValue = 300
	maxLine  = 1000
)

// readable replaces invisible and misleading characters: control characters, line ends, marks
// of text direction, invalid UTF-8.
func readable(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// clipped cuts a text to limit characters.
func clipped(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// mdCode formats text as code in a line of Markdown. Nothing in it is markup, a link, or a
// mention that would notify somebody.
func mdCode(text string) string {
	text = clipped(readable(text), maxValue)
	if text == "" {
		return "–"
	}
	// Renderers disagree on bars and backslashes in the cells of tables, and on spans that end
	// with blanks; character references are safe in all of them.
	if strings.ContainsAny(text, `|\`) || strings.TrimSpace(text) != text {
		var b strings.Builder
		for _, r := range text {
			if r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				fmt.Fprintf(&b, "&#%d;", r)
			} else {
				b.WriteRune(r)
			}
		}
		return "<code>" + b.String() + "</code>"
	}
	fence := strings.Repeat("`", longestRun(text)+1)
	if text[0] == '`' || text[len(text)-1] == '`' {
		text = " " + text + " "
	}
	return fence + text + fence
}

// mdFence returns a fence for a block of code with the given lines.
func mdFence(lines []string) string {
	return strings.Repeat("`", max(2, longestRun(strings.Join(lines, "\n")))+1)
}

// longestRun returns the length of the longest run of backquotes.
func longestRun(text string) (longest int) {
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	return longest
}

// mdLines splits a text into lines for a block of code.
func mdLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		lines = append(lines, clipped(readable(line), maxLine))
	}
	return lines
}

// mdCut cuts a list to limit lines and one that counts the others.
func mdCut(lines []string, limit int, others, noun string) []string {
	if left := len(lines) - limit; left > 0 {
		return append(lines[:limit:limit], fmt.Sprintf(others, spec.Count(left, "more "+noun)))
	}
	return lines
}

// mdLength returns the length of a text in UTF-16 units.
func mdLength(text string) int { return len(utf16.Encode([]rune(text))) }

// mdShortList is the minimum length of the lists that every section needs.
const mdShortList = 40

// mdTail is the room for the last lines of a page that was cut.
const mdTail = 1000

// mdSection is a part of a page.
type mdSection struct {
	sale string // "": it concerns no single sale
	text string
}

// mdPage joins head, sections and foot to a page of at most maxCharacters. write returns the
// sections with lists of at most the given number of lines. mdPage uses the longest lists that fit. If
// even the shortest do not, it omits the last sections. how is the command that prints everything.
func mdPage(head string, write func(lines int) []mdSection, foot, how string) string {
	var sections []mdSection
	for _, lines := range []int{math.MaxInt, 400, mdShortList, 0} {
		sections = write(lines)
		var page strings.Builder
		page.WriteString(head)
		for _, s := range sections {
			page.WriteString(s.text)
		}
		if page.WriteString(foot); lines < math.MaxInt {
			page.WriteString(mdShortened(nil, how))
		}
		if mdLength(page.String()) <= maxCharacters {
			return page.String()
		}
	}
	text, room := head, maxCharacters-mdLength(head)-mdLength(foot)-mdTail
	for i, s := range sections {
		if room -= mdLength(s.text); room < 0 {
			return text + foot + mdShortened(sections[i:], how)
		}
		text += s.text
	}
	return text + foot + mdShortened(nil, how)
}

// mdShortened returns the line that reports that lists are cut, and names the sales of omitted sections.
func mdShortened(omitted []mdSection, how string) string {
	const few = 10
	var sales []string
	for _, s := range omitted {
		if s.sale != "" {
			sales = append(sales, mdCode(s.sale))
		}
	}
	left := ""
	if len(sales) > 0 {
		left = "Sales left out: " + strings.Join(mdCut(sales, few, "and %s", "sale"), ", ") + ". "
	}
	return "\n**This comment is shortened to the maximum size.** " + left + how + " prints all.\n"
}
