package terminal

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"sold: unit 7\n\tfür 用户 🎫": "sold: unit 7\n\tfür 用户 🎫",
		"\x1b[32msold\x1b[0m":      "\x1b[32msold\x1b[0m", // as palette writes it
		"\x1b[2Jgone\r\x07":        `\x1b[2Jgone\r\a`,
		"\x1b]0;title\x07":         `\x1b]0;title\a`,
		"\x1b[8mhidden":            `\x1b[8mhidden`,
		"\u009b2J\x7f":             `\u009b2J\x7f`,
		"\xff\x9b":                 "\xff\x9b", // no text; no terminal of UTF-8 obeys it
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
