package spec

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 units", 1: "1 unit", 2: "2 units", 999: "999 units", 1000: "1,000 units", 1234567: "1,234,567 units",
		-1: "-1 units", -100: "-100 units", -1000: "-1,000 units",
	} {
		if got := Count(n, "unit"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
