package spec

import "fmt"

// Count writes how many of something there are, for people: "1 unit", "2 units",
// "12,345 units".
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Grouped writes a number with a comma every three digits.
func Grouped[N int | int64 | uint64](n N) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
