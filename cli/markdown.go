package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// mostMarkdown is the maximum length of a comment in UTF-16 units, the largest of all ways to
// count characters. GitHub accepts 65,536; the rest is for additions of a pipeline.
const mostMarkdown = 65_000

// mostValue is the number of characters shown of one value.
const mostValue = 300

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
	fence := strings.Repeat("`", longestRun(text, '`')+1)
	if text[0] == '`' || text[len(text)-1] == '`' {
		text = " " + text + " "
	}
	return fence + text + fence
}

// mdFence returns a fence for a block of code with the given lines.
func mdFence(lines []string) string {
	longest := 2
	for _, line := range lines {
		longest = max(longest, longestRun(line, '`'))
	}
	return strings.Repeat("`", longest+1)
}

func longestRun(text string, of rune) (longest int) {
	run := 0
	for _, r := range text {
		if run++; r != of {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// mdLines splits a text into lines for a block of code, and breaks long lines.
func mdLines(text string) (lines []string) {
	const most = 110
	for line := range strings.Lines(text) {
		line = readable(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
		indent, before := line[:len(line)-len(strings.TrimLeft(line, " "))], len(lines)
		for utf8.RuneCountInString(line) > most {
			at := strings.LastIndexByte(string([]rune(line)[:most]), ' ')
			if at <= len(indent) {
				at = len(string([]rune(line)[:most]))
			}
			lines = append(lines, line[:at])
			line = indent + "  " + strings.TrimLeft(line[at:], " ")
			if len(lines)-before > mostMarkdown/most {
				return append(lines, indent+"  …")
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// mdBlock is a part of a page that is cut between two lines, or omitted, if the page is too
// long.
type mdBlock struct {
	open  string
	lines []string // with line ends
	shut  string
	cut   func(left int) string // replaces omitted lines within the block; nil: the block is complete or omitted
	rank  int                   // the lowest rank gets room first
	of    int                   // section of the block; a section is omitted with its first block
	most  int                   // maximum part of the page; 0: all
	shown int                   // number of lines that have room
	in    bool
}

// mdTable returns a table.
func mdTable(rank, of int, noun string, head []string, rows [][]string) *mdBlock {
	b := &mdBlock{rank: rank, of: of}
	row := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	rule := slices.Repeat([]string{"---"}, len(head))
	b.open = row(head) + row(rule)
	for _, cells := range rows {
		b.lines = append(b.lines, row(cells))
	}
	b.shut = "\n"
	b.cut = func(left int) string { return fmt.Sprintf("\n… and %s.\n", count(left, "more "+noun)) }
	return b
}

// mdText returns a block of code.
func mdText(rank, of int, before string, lines []string, after string) *mdBlock {
	fence := mdFence(lines)
	b := &mdBlock{rank: rank, of: of, open: before + fence + "text\n", shut: fence + "\n" + after + "\n"}
	for _, line := range lines {
		b.lines = append(b.lines, line+"\n")
	}
	b.cut = func(left int) string { return fmt.Sprintf("… and %s\n", count(left, "more line")) }
	return b
}

func mdLength(text string) int { return len(utf16.Encode([]rune(text))) }

// length returns the length of the whole block.
func (b *mdBlock) length() int {
	n := mdLength(b.open) + mdLength(b.shut)
	for _, line := range b.lines {
		n += mdLength(line)
	}
	return n
}

// room allots a block as much of the room as it needs, if possible, and returns how much.
func (b *mdBlock) room(left int) int {
	if b.most > 0 {
		left = min(left, b.most)
	}
	if n := b.length(); n <= left {
		b.shown, b.in = len(b.lines), true
		return n
	}
	if b.cut == nil {
		return 0
	}
	need := mdLength(b.open) + mdLength(b.shut) + mdLength(b.cut(len(b.lines)))
	for _, line := range b.lines {
		if need += mdLength(line); need > left {
			need -= mdLength(line)
			break
		}
		b.shown++
	}
	if b.in = b.shown > 0; !b.in {
		return 0
	}
	return need
}

func (b *mdBlock) write(to *strings.Builder) {
	to.WriteString(b.open)
	for _, line := range b.lines[:b.shown] {
		to.WriteString(line)
	}
	if left := len(b.lines) - b.shown; left > 0 {
		to.WriteString(b.cut(left))
	}
	to.WriteString(b.shut)
}

// mdPage joins blocks to a page of at most most characters. If it had to omit something, the
// last line is that of leftOut, of at most mdTail characters, which receives the sections
// omitted completely and those omitted in part.
func mdPage(blocks []*mdBlock, most int, leftOut func(whole, partly []int) string) string {
	whole := 0
	for _, b := range blocks {
		whole += b.length()
	}
	left := most
	if whole > most {
		left -= mdTail
	}
	first := map[int]*mdBlock{}
	for _, b := range blocks {
		if first[b.of] == nil {
			first[b.of] = b
		}
	}
	byRank := slices.Clone(blocks)
	slices.SortStableFunc(byRank, func(a, b *mdBlock) int { return a.rank - b.rank })
	for _, b := range byRank {
		if b == first[b.of] || first[b.of].in {
			left -= b.room(left)
		}
	}
	var page strings.Builder
	var gone, partly []int
	for _, b := range blocks {
		switch {
		case b.in:
			b.write(&page)
		case b == first[b.of]:
			gone = append(gone, b.of)
		case first[b.of].in && !slices.Contains(partly, b.of):
			partly = append(partly, b.of)
		}
	}
	if whole > most {
		page.WriteString(leftOut(gone, partly))
	}
	return page.String()
}

// mdTail is the room for the last line of a page that was cut.
const mdTail = 1000
