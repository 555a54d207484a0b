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

func TestNumbers(t *testing.T) {
	var odd []int
	for i := range 14 {
		odd = append(odd, 2*i+1)
	}
	for want, list := range map[string][]int{
		"": nil, "7": {7}, "7, 8": {7, 8}, "7-9": {7, 8, 9}, "0-2, 4, 5, 9-12": {0, 1, 2, 4, 5, 9, 10, 11, 12},
		"1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 4 more": odd,
	} {
		if got := Numbers(list); got != want {
			t.Errorf("%v are %q, want %q", list, got, want)
		}
	}
}
