package spec

import (
	"fmt"
	"regexp"
	"slices"
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

// currencies are the codes of ISO 4217 as of January 2026, by their decimals, without those
// that have no decimals: metals, units of account, test codes and the code for no currency.
// golang.org/x/text/currency has an old list, with customary decimals instead of those of ISO.
var currencies = map[int][]string{
	0: strings.Fields("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
	2: strings.Fields(`AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
		CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
		GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL
		MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN
		QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD
		TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`),
	3: strings.Fields("BHD IQD JOD KWD LYD OMR TND"),
	4: strings.Fields("CLF UYW"),
}

// readCurrency returns the decimals of a currency.
func readCurrency(text string) (scale int, f *fault) {
	code := strings.ToUpper(text)
	for scale, codes := range currencies {
		switch {
		case !slices.Contains(codes, code):
		case code != text:
			return 0, &fault{"is not in capitals", fmt.Sprintf("Write %s.", code)}
		default:
			return scale, nil
		}
	}
	const write = "Write a code of ISO 4217 in capitals, such as CNY or EUR."
	if code == "XXX" {
		return 0, &fault{"is the code for no currency", write}
	}
	return 0, &fault{"is no currency", write}
}
