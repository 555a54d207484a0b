package spec

import (
	"fmt"
	"strings"
)

// Count formats a number with its noun for people: "1 unit", "2 units", "12,345 units".
func Count[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + noun + "s"
}

// Subject is Count with a verb for one and for several: "1 unit is", "2 units are".
func Subject[N int | int64 | uint64](n N, noun, one, several string) string {
	if n != 1 {
		one = several
	}
	return Count(n, noun) + " " + one
}

// mostRanges is the maximum number of ranges in the result of Numbers.
const mostRanges = 10

// Numbers lists ascending whole numbers, with ranges for three or more consecutive ones: "0-3,
// 5, 6". After ten ranges and single numbers it only counts the rest.
func Numbers[N int | int64](list []N) string {
	var words []string
	for at := 0; at < len(list); {
		end := at + 1
		for end < len(list) && list[end] == list[end-1]+1 {
			end++
		}
		if end < at+3 {
			end = at + 1
		}
		if len(words) == mostRanges {
			return fmt.Sprintf("%s and %s more", strings.Join(words, ", "), Grouped(len(list)-at))
		}
		word := fmt.Sprint(list[at])
		if end > at+1 {
			word += fmt.Sprintf("-%d", list[end-1])
		}
		words, at = append(words, word), end
	}
	return strings.Join(words, ", ")
}

// Grouped formats a number with a comma every three digits.
func Grouped[N int | int64 | uint64](n N) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
