package planview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"salectl/spec"
)

// MostCharacters is the maximum length of a comment in UTF-16 units, the largest of all ways to
// count characters. GitHub accepts 65,536; the rest is for additions of a pipeline.
const MostCharacters = 65_000

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
			if len(lines)-before > MostCharacters/most {
				return append(lines, indent+"  …")
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// mdTable returns the lines of a table with at most most rows.
func mdTable(most int, noun string, head []string, rows [][]string) []string {
	row := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
	var lines []string
	for _, cells := range rows {
		lines = append(lines, row(cells))
	}
	rule := slices.Repeat([]string{"---"}, len(head))
	return append([]string{row(head), row(rule)}, mdCut(lines, most, "\n… and %s.", noun)...)
}

// mdCut cuts a list to most lines and one that counts the others.
func mdCut(lines []string, most int, others, noun string) []string {
	if left := len(lines) - most; left > 0 {
		return append(lines[:most:most], fmt.Sprintf(others, spec.Count(left, "more "+noun)))
	}
	return lines
}

func mdLength(text string) int { return len(utf16.Encode([]rune(text))) }

// mdFew is the length to which lists are cut that no section can do without.
const mdFew = 40

// mdTail is the room for the last line of a page that was cut.
const mdTail = 1000

// mdSection is a part of a page that is written shorter, or omitted, if the page is too long.
type mdSection struct {
	sale  string                // "": it concerns no single sale
	write func(most int) string // writes it with lists of at most most lines
}

// mdPage joins sections between head and foot to a page of at most most characters. If that
// takes shorter sections, the last line describes them; how is the command that prints all.
func mdPage(head string, sections []mdSection, foot string, most int, how string) string {
	room := most - mdLength(head) - mdLength(foot)
	texts, length := make([]string, len(sections)), 0
	for i, s := range sections {
		texts[i] = s.write(math.MaxInt)
		length += mdLength(texts[i])
	}
	if length > room {
		foot += mdShorten(sections, texts, room-mdTail) + how + " prints all.\n"
	}
	return head + strings.Join(texts, "") + foot
}

// mdShorten makes complete sections shorter until they fit into the room, and describes what
// they lack. An early section leaves later ones no more than the room for their shortest texts.
func mdShorten(sections []mdSection, texts []string, room int) string {
	least, rest := make([]int, len(sections)), 0
	for i, s := range sections {
		least[i] = mdLength(s.write(0))
		rest += least[i]
	}
	lacks := "\n**This comment is shortened to the maximum size.** "
	general := false
	var whole, partly []string
	for i, s := range sections {
		rest -= least[i]
		text := texts[i]
		if least[i] > room {
			text, whole = "", append(whole, s.sale)
		}
		for _, most := range []int{400, mdFew, 0} {
			if mdLength(text) <= max(room-rest, least[i]) {
				break
			}
			text = s.write(most)
		}
		length := mdLength(text)
		if length == least[i] && text != texts[i] {
			partly = append(partly, s.sale)
		}
		general = general || s.sale == "" && text != texts[i]
		texts[i], room = text, room-length
	}
	if general {
		lacks += "General notes are incomplete. "
	}
	return lacks + mdSales("Sales left out", whole) + mdSales("Without their resources", partly)
}

// mdSales lists the sales of sections, as many as fit into a part of the last line.
func mdSales(what string, sales []string) string {
	const most = mdTail / 4
	sales = slices.DeleteFunc(sales, func(sale string) bool { return sale == "" })
	text := ""
	for i, sale := range sales {
		if sale = mdCode(sale); len(text)+len(sale) > most {
			text += fmt.Sprintf(", and %d more", len(sales)-i)
			break
		}
		text += ", " + sale
	}
	if text == "" {
		return ""
	}
	return what + ": " + text[len(", "):] + ". "
}
