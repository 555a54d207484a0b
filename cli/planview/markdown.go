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

// mostCharacters is the maximum length of a comment in UTF-16 units, the largest of all ways to
// count characters. GitHub accepts 65,536; the rest is for additions of a pipeline.
const mostCharacters = 65_000

// mostValue and mostLine are the numbers of characters shown of one value, and of one line.
const (
	mostValue = 300
	mostLine  = 1000
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

// clipped cuts a text to most characters.
func clipped(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// mdCode formats text as code in a line of Markdown. Nothing in it is markup, a link, or a
// mention that would notify somebody.
func mdCode(text string) string {
	text = clipped(readable(text), mostValue)
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
	longest := 2
	for _, line := range lines {
		longest = max(longest, longestRun(line))
	}
	return strings.Repeat("`", longest+1)
}

// longestRun returns the length of the longest run of backquotes.
func longestRun(text string) (longest int) {
	run := 0
	for _, r := range text {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// mdLines splits a text into lines for a block of code.
func mdLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		lines = append(lines, clipped(readable(line), mostLine))
	}
	return lines
}

// mdCut cuts a list to most lines and one that counts the others.
func mdCut(lines []string, most int, others, noun string) []string {
	if left := len(lines) - most; left > 0 {
		return append(lines[:most:most], fmt.Sprintf(others, spec.Count(left, "more "+noun)))
	}
	return lines
}

// mdLength returns the length of a text in UTF-16 units.
func mdLength(text string) int { return len(utf16.Encode([]rune(text))) }

// mdFew is the length to which lists are cut that no section can do without.
const mdFew = 40

// mdTail is the room for the last lines of a page that was cut.
const mdTail = 1000

// mdSection is a part of a page.
type mdSection struct {
	sale string // "": it concerns no single sale
	text string
}

// mdPage joins head, sections and foot to a page of at most mostCharacters. write writes the
// sections with lists of at most so many lines; the longest lists that fit are taken. If even the
// shortest do not, the last sections are omitted. how is the command that prints all.
func mdPage(head string, write func(lines int) []mdSection, foot, how string) string {
	var sections []mdSection
	for _, lines := range []int{math.MaxInt, 400, mdFew, 0} {
		sections = write(lines)
		var page strings.Builder
		page.WriteString(head)
		for _, s := range sections {
			page.WriteString(s.text)
		}
		if page.WriteString(foot); lines < math.MaxInt {
			page.WriteString(mdShortened(nil, how))
		}
		if mdLength(page.String()) <= mostCharacters {
			return page.String()
		}
	}
	text, room := head, mostCharacters-mdLength(head)-mdLength(foot)-mdTail
	for i, s := range sections {
		if room -= mdLength(s.text); room < 0 {
			return text + foot + mdShortened(sections[i:], how)
		}
		text += s.text
	}
	return text + foot + mdShortened(nil, how)
}

// mdShortened returns the line that says what a page lacks: lines of lists, and some sections.
func mdShortened(lacks []mdSection, how string) string {
	const few = 10
	var sales []string
	for _, s := range lacks {
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
