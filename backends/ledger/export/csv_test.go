package export

import (
	"testing"
)

// What a spreadsheet would change has an apostrophe in front, and what it shows as it is has none.
func TestSafe(t *testing.T) {
	for _, text := range []string{"0042", "1e5", "4-2-0", "1/2", "12:30", ".5", "1234567890123456", "MAR-1", "sept1", "Dec 24", "TRUE", "false", "1.10", "=1", "'x", " 1"} {
		if got := safe(text); got != "'"+text {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{"", "0", "42", "123456789012345", "user1", "u-1", "mary", "may", "truest", "müller", "用户1"} {
		if got := safe(text); got != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}
