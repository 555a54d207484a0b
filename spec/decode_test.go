package spec

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Every key that the document types have must be read by the decoder. One that
// is not would be accepted whatever stands there.
func TestEveryKeyIsRead(t *testing.T) {
	// open is the text before a key's value, shut the text behind it.
	var walk func(b *block, open, path, shut string)
	walk = func(b *block, open, path, shut string) {
		for _, o := range b.options {
			at := join(path, o.key)
			isList := o.inner != nil && o.field != nil && o.typ.Kind() == reflect.Slice
			each, inside := "", "{"
			if isList {
				each, inside = "[0]", "[{"
			}
			t.Run(at, func(t *testing.T) {
				// No key takes a list with a list or a mapping in it, but for lists of mappings.
				text := open + o.key + ": [{}]" + shut
				if isList {
					text = open + o.key + ": [[]]" + shut
				}
				_, _, err := Load([]string{"-"}, strings.NewReader(text))
				for _, p := range Problems(err) {
					if strings.HasPrefix(p.Message, at+" is ") || strings.HasPrefix(p.Message, at+"[0] is ") {
						return
					}
				}
				t.Errorf("%s: nobody minds:\n%v", text, err)
			})
			if o.inner != nil {
				walk(o.inner, open+o.key+": "+inside, at+each, map[string]string{"{": "}", "[{": "}]"}[inside]+shut)
			}
		}
	}
	walk(root(), "{", "", "}")
}

func TestReadNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "7": 7, "10": 10, "9223372036854775807": math.MaxInt64,
	} {
		if got, f := readNumber(text, 1, math.MaxInt64); f != nil || got != want {
			t.Errorf("%s: got %d, %v", text, got, f)
		}
	}
	for text, want := range map[string]string{
		"0": "is below 1", "-1": "is below 1", "-9223372036854775809": "is below 1",
		"9223372036854775808": "is beyond 9223372036854775807, the largest number there is here",
		"1001":                "is above 1000",
		"010":                 "begins with a zero, which some parsers read as octal",
		"-010":                "begins with a zero, which some parsers read as octal",
		"00":                  "begins with a zero, which some parsers read as octal",
		"0o17":                "is octal", "0x1F": "is hexadecimal", "-0X1": "is hexadecimal", "0b1": "is binary",
		"1_000": "has an underscore", "+5": "has a plus sign", "-0": "is minus zero", "1,000": "has a comma",
		"1e3": "has an exponent", "1.5E+3": "has an exponent", "10.5": "is not a whole number", ".5": "is not a whole number",
		"5.": "is not a whole number", ".inf": "is not a whole number", "-.Inf": "is not a whole number", ".NaN": "is not a whole number",
		"yes": "is a word for yes or no, not a number", "Off": "is a word for yes or no, not a number", "y": "is a word for yes or no, not a number",
		"ten": "is text, not a number", "10 pieces": "is text, not a number", "--5": "is text, not a number", "1:30": "is text, not a number",
	} {
		n, f := readNumber(text, 1, 1000)
		if f == nil || f.message != want || n != 0 || f.remedy == "" {
			t.Errorf("%s: got %d, %v; want %s", text, n, f, want)
		}
	}
}

func TestReadAddress(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:6379": "localhost:6379", "Redis_1.Example.:06379": "redis_1.example:6379", "a:65535": "a:65535",
		"127.0.0.1:1": "127.0.0.1:1", "[::1]:6379": "[::1]:6379", "[0:0:0:0:0:0:0:1]:6379": "[::1]:6379",
		"[::FFFF:10.0.0.1]:6379": "10.0.0.1:6379",
	} {
		if got, f := readAddress(text); f != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, f, want)
		}
	}
	for _, text := range []string{
		":", ":6379", "a", "a:", "a:0", "a:00000", "a:65536", "a:123456", "a:-1", "a:+1", "a: 1", "a:http", "a b:1",
		"a..b:1", ".a:1", "-a:1", "a-:1", "..:1", "1.2.3:1", "1.2.3.4.5:1", "999:1", "01.2.3.4:1",
		"::1:6379", "[]:1", "[1.2.3.4:1", "[::1]", "[::1]6379", "[g::]:1", "[fe80::1%eth0]:1",
		"redis://a:1", "a:1/0", "user@a:1", ":pass@a:1", strings.Repeat("a", 64) + ":1", strings.Repeat("a.", 127) + "a:1",
	} {
		if got, f := readAddress(text); f == nil {
			t.Errorf("%s: got %s, want a refusal", text, got)
		} else if f.remedy == "" {
			t.Errorf("%s: no remedy", text)
		}
	}
}

func TestReadTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-11T20:00:00+08:00": "2026-11-11T12:00:00Z", "2026-11-11T20:00:00Z": "2026-11-11T20:00:00Z",
		"2026-11-11T20:00:00.25-00:30": "2026-11-11T20:30:00.25Z", "2026-11-11T20:00:00.123456789Z": "2026-11-11T20:00:00.123456Z",
	} {
		if got, f := readTime(text); f != nil || got.Format("2006-01-02T15:04:05.999999999Z07:00") != want {
			t.Errorf("%s: got %v, %v; want %s", text, got, f, want)
		}
	}
	for _, text := range []string{
		"2026-11-11", "2026-11-11T20:00:00", "2026-11-11T20:00", "2026-11-11 20:00:00Z", "2026-11-11t20:00:00z", "2026-11-11T20:00Z",
		"2026-11-11T2:00:00Z", "2026-11-11T20:00:00,5Z", "2026-11-11T24:00:00Z", "2026-11-11T20:00:60Z", "2026-11-31T20:00:00Z",
		"2026-11-11T20:00:00+24:00", "2026-11-11T20:00:00+8", "2026-11-11T20:00:00+0800", "1999-12-31T23:59:59Z", "3000-01-01T00:00:00Z",
		"20261111T200000Z", "tomorrow", "1794398400",
	} {
		if got, f := readTime(text); f == nil {
			t.Errorf("%s: got %v, want a refusal", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	words := keysOf(root().option("spec").inner.options)
	for name, want := range map[string]string{
		"stok": "stock", "STOCK": "stock", "lockcount": "lockCount", "lockCounts": "lockCount", "openAt": "opensAt", "reddis": "redis",
		"hbas": "hbase", "perUser": "perUserLimit", "lok": "lock", "embeded": "embedded",
		"x": "", "": "", "color": "", "price": "", "table": "", strings.Repeat("stock", 1000): "",
	} {
		if got := Nearest(name, words); got != want {
			t.Errorf("%.20s: got %q, want %q", name, got, want)
		}
	}
}

// A tag may stand before or behind an anchor, or on a line of its own.
func TestTagsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		stock  string
		tagged bool
	}{
		"none": {"10", false}, "anchor": {"&a 10", false}, "comment": {"10 # !", false}, "long anchor": {"&a-1_b 10", false},
		"short": {"!!int 10", true}, "lone": {"! 10", true}, "own": {"!units 10", true}, "long": {"!<tag:yaml.org,2002:int> 10", true},
		"behind anchor": {"&a ! 10", true}, "before anchor": {"! &a 10", true}, "next line": {"&a\n    ! 10", true},
		"behind a comment": {"&a # stock\n\n    ! 10", true}, "quoted": {`! "10"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("%s\nspec:\n  stock: %s\n  lockCount: 2\n  embedded: {}\n",
				strings.Split(aSale("tagged"), "\nspec")[0], c.stock)
			_, _, err := Load([]string{"-"}, strings.NewReader(text))
			tagged := err != nil && strings.Contains(err.Error(), "explicit tags like !")
			if tagged != c.tagged || !c.tagged && err != nil || len(Problems(err)) > 1 {
				t.Errorf("%s\ngot %v", text, err)
			}
		})
	}
}

// A line as long as a file may be, with a secret at every few characters, is starred
// out in one pass: with one for each of them it took half a minute.
func TestMaskingManySecrets(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		masks  []mask
		want   string
	}{
		"one":              {"abcdefgh", []mask{{1, 3, 2}}, "ab**efgh"},
		"two":              {"abcdefgh", []mask{{1, 7, 1}, {1, 2, 2}}, "a**def*h"},
		"one in another":   {"abcdefgh", []mask{{1, 2, 6}, {1, 4, 1}}, "a******h"},
		"overlapping":      {"abcdefgh", []mask{{1, 2, 3}, {1, 4, 3}}, "a*****gh"},
		"beyond the end":   {"abcdefgh", []mask{{1, 7, 9}, {1, 20, 3}}, "abcdef**"},
		"of several runes": {"aäöücd", []mask{{1, 2, 3}}, "a***cd"},
	} {
		d := decoder{src: &source{lines: []string{test.source + "\n", "other"}}, masks: append(test.masks, mask{2, 1, 2})}
		got := d.masked()
		if got[1] != test.want || got[2] != "**her" || len(got) != 2 {
			t.Errorf("%s: %v, want %q", name, got, test.want)
		}
	}
	const n = 100_000 // if each reached to the end, 10¹⁰ stars: no test would wait for that
	d := decoder{src: &source{lines: []string{strings.Repeat("0123456789", n)}}}
	for i := range n {
		d.masks = append(d.masks, mask{1, 10*i + 10, 10 * n})
	}
	if got := d.masked()[1]; got != "012345678"+strings.Repeat("*", 10*n-9) {
		t.Error("something was not starred out")
	}
}
