package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// fault is a problem of a value without its place. The message continues a sentence that
// begins with the value's path.
type fault struct{ message, remedy string }

// plainNumber is the only accepted form of a number. YAML 1.1, YAML 1.2 and JSON read others
// differently: 0100 is 64 or 100.
var plainNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// wrongForm is a known wrong form of a value.
type wrongForm struct {
	form *regexp.Regexp
	fault
}

// wrong returns the fault of the first form that matches a text, else other.
func wrong(text string, forms []wrongForm, other fault) *fault {
	for _, f := range forms {
		if f.form.MatchString(text) {
			return &f.fault
		}
	}
	return &other
}

var otherNumbers = []wrongForm{
	{regexp.MustCompile(`^[-+]?0[xX]`), fault{"is hexadecimal", "Write it in plain decimal digits."}},
	{regexp.MustCompile(`^[-+]?0[bB]`), fault{"is binary", "Write it in plain decimal digits."}},
	{regexp.MustCompile(`^[-+]?0[oO]`), fault{"is octal", "Write it in plain decimal digits."}},
	{regexp.MustCompile(`^[-+]?[0-9][0-9_]*_[0-9_]*$`), fault{"has an underscore", "Write the digits without it."}},
	{regexp.MustCompile(`^[-+]?0[0-9]+$`), fault{"begins with a zero, which some parsers read as octal", "Write it without the zero."}},
	{regexp.MustCompile(`^\+[0-9]+$`), fault{"has a plus sign", "Write it without the sign."}},
	{regexp.MustCompile(`^-0$`), fault{"is minus zero", "Write plain decimal digits, such as 1."}},
	{regexp.MustCompile(`^[-+]?[0-9][0-9_.]*[eE][-+]?[0-9]+$`), fault{"has an exponent", "Write the number out, such as 1000 for 1e3."}},
	{regexp.MustCompile(`^[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|\.(inf|Inf|INF))$|^\.(nan|NaN|NAN)$`), fault{"is not a whole number", "Write a whole number, without a point."}},
	{regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`), fault{"has a comma", "Write the digits without it."}},
	{truthWord, fault{"is a word for yes or no, not a number", "Write a number, such as 1."}},
}

// truthWord matches text that YAML 1.1 or 1.2 reads as a boolean.
var truthWord = regexp.MustCompile(`^(?i:yes|no|on|off|y|n|true|false)$`)

// readNumber parses an unquoted, non-empty value as a number in [least, most].
func readNumber(text string, least, most int64) (int64, *fault) {
	if !plainNumber.MatchString(text) {
		return 0, wrong(text, otherNumbers, fault{"is text, not a number", "Write plain decimal digits, such as 100."})
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && !strings.HasPrefix(text, "-"):
		return 0, &fault{"is beyond 9223372036854775807, the largest number there is here", "Write a smaller number."}
	case err != nil, n < least:
		return 0, &fault{fmt.Sprintf("is below %d", least), fmt.Sprintf("Write a number from %d on.", least)}
	case n > most:
		return 0, &fault{fmt.Sprintf("is above %d", most), fmt.Sprintf("Write a number from %d to %d.", least, most)}
	}
	return n, nil
}
