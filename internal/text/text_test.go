package text

import (
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for s, want := range map[string]string{
		"":                            "",
		"two\n\t lines \n":            "two lines",
		"a\x00b\xff":                  "a\ufffdb\ufffd",
		strings.Repeat("x", 12):       strings.Repeat("x", 12),
		strings.Repeat("x", 13):       strings.Repeat("x", 9) + "…",
		strings.Repeat("ä", 7):        strings.Repeat("ä", 4) + "…",
		strings.Repeat("x \n", 4):     "x x x x",
		"a\u2028b \u200b":             "a b \ufffd",
		strings.Repeat("y", 11) + " ": strings.Repeat("y", 11),
	} {
		if got := Short(s, 12); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
	if long := strings.Repeat("x", 1000); OneLine(long) != long {
		t.Error("OneLine cuts")
	}
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{
		"":            nil,
		"5":           {5},
		"0-3,7":       {0, 1, 2, 3, 7},
		"0,2,4":       {0, 2, 4},
		"1-2,4-5,7-9": {1, 2, 4, 5, 7, 8, 9},
	} {
		if got := Ranges(numbers); got != want {
			t.Errorf("%v becomes %q, want %q", numbers, got, want)
		}
	}
}
