package spec

import (
	"fmt"
	"iter"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rows returns the number of names of each item of Ranges, in order: units of one item are
// adjacent, those of two are not. It is nil for nil and for units of a file.
func (u *Units) Rows() (counts []int64) {
	if u == nil {
		return nil
	}
	for _, text := range u.Ranges {
		if r, f := readRange(text); f == nil { // otherwise neither Load nor FromJSON accepts it
			counts = append(counts, r.count())
		}
	}
	return counts
}

// named returns the number of names of Ranges.
func (u *Units) named() (count int64) {
	for _, n := range u.Rows() {
		count += n
	}
	return count
}

// Names yields the names of the units of Ranges, in order; none for nil.
func (u *Units) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		if u == nil {
			return
		}
		for _, text := range u.Ranges {
			r, f := readRange(text)
			if f != nil {
				continue // neither Load nor FromJSON accepts it
			}
			for n := r.from; n <= r.to; n++ {
				if !yield(r.name(n)) {
					return
				}
			}
		}
	}
}

// unitRange is the range of names from prefix plus one number to prefix plus another.
type unitRange struct {
	prefix   string // never ends in a digit
	from, to int64
	width    int    // digits of each number with leading zeros; 0: no leading zeros
	bare     bool   // no number: prefix is the only name
	text     string // as declared, for add
}

func (r unitRange) count() int64 { return r.to - r.from + 1 }

func (r unitRange) name(n int64) string {
	if r.bare {
		return r.prefix
	}
	return fmt.Sprintf("%s%0*d", r.prefix, r.width, n)
}

// common returns a name in both ranges.
func (r unitRange) common(other unitRange) (string, bool) {
	if r.prefix != other.prefix || r.bare != other.bare || r.width > 0 && other.width > 0 && r.width != other.width {
		return "", false
	}
	// Between numbers with a width and those without, only ones without leading zeros are
	// equal.
	first, last := max(r.from, other.from), min(r.to, other.to)
	if r.width != other.width {
		first = max(first, int64(math.Pow10(max(r.width, other.width)-1)))
	}
	return r.name(first), first <= last
}

// maxRangeDigits keeps the numbers of a range, and their sums, within an int64.
const maxRangeDigits = 15

var numberedRE = regexp.MustCompile(`^(.*[^0-9])?([0-9]+)$`)

// readRange parses an item of a range. Both names of FROM-TO have the same prefix, so the
// hyphen between them is the middle one.
func readRange(text string) (unitRange, *fault) {
	const write = "Write the first and the last name, such as A1-A40, or one name."
	switch {
	case len(text) > MaxRangeText:
		return unitRange{}, &fault{fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxRangeText), "Shorten the names."}
	case strings.TrimSpace(text) != text || text == "":
		return unitRange{}, &fault{"begins or ends with a blank, or is blank", write}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return unitRange{}, &fault{"has a control character in it", write}
	}
	parts := strings.Split(text, "-")
	if len(parts)%2 == 1 {
		if len(parts) > 1 {
			return unitRange{}, &fault{"is neither a name without a hyphen nor a first and last name", write}
		}
		return readOneName(text)
	}
	middle := len(parts) / 2
	first, last := strings.Join(parts[:middle], "-"), strings.Join(parts[middle:], "-")
	from, to := numberedRE.FindStringSubmatch(first), numberedRE.FindStringSubmatch(last)
	if from == nil || to == nil {
		return unitRange{}, &fault{fmt.Sprintf("is not a range: %s must end in a number, and so must %s", first, last), write}
	}
	if from[1] != to[1] {
		return unitRange{}, &fault{fmt.Sprintf("goes from %q to %q, and only the number may differ", first, last),
			fmt.Sprintf("Write %s-%s%s, if that is meant, and an item for each row.", first, from[1], to[2])}
	}
	return numbered(from[1], from[2], to[2])
}

func readOneName(name string) (unitRange, *fault) {
	if at := numberedRE.FindStringSubmatch(name); at != nil {
		return numbered(at[1], at[2], at[2])
	}
	return unitRange{prefix: name, bare: true}, nil
}

func numbered(prefix, from, to string) (unitRange, *fault) {
	if max(len(from), len(to)) > maxRangeDigits {
		return unitRange{}, &fault{fmt.Sprintf("has a number of more than %d digits", maxRangeDigits), "Write shorter numbers."}
	}
	r := unitRange{prefix: prefix}
	r.from, _ = strconv.ParseInt(from, 10, 64)
	r.to, _ = strconv.ParseInt(to, 10, 64)
	if from[0] == '0' && len(from) > 1 || to[0] == '0' && len(to) > 1 {
		if r.width = len(from); len(to) != r.width {
			return unitRange{}, &fault{"has a number that begins with a zero, and numbers of different length",
				"Write as many digits in both, such as A01-A40, or no zeros before them."}
		}
	}
	if r.to < r.from {
		return unitRange{}, &fault{fmt.Sprintf("ends before it begins: %d is below %d", r.to, r.from),
			fmt.Sprintf("Write %s%s-%s%s, if that is meant.", prefix, to, prefix, from)}
	}
	return r, nil
}

// ranges decodes ranges of names.
func (d *decoder) ranges(v value, o *option) (any, bool) {
	items, complete := d.items(v, o, "Write longer ranges, or name the units in a file.")
	var all []string
	var distinct distinctRanges
	for _, item := range items {
		text, ok := checked(d, item, o.example, distinct.add)
		all, complete = append(all, text), complete && ok
	}
	return all, complete
}

// distinctRanges are ranges without a common name.
type distinctRanges []unitRange

// add adds a range. It returns the fault of one that is invalid or has a name of another.
func (all *distinctRanges) add(text string) *fault {
	r, f := readRange(text)
	if f != nil {
		return f
	}
	r.text = text
	for _, other := range *all {
		if name, twice := r.common(other); twice {
			return &fault{fmt.Sprintf("names %s, which %q does already", name, other.text), "Name each unit once."}
		}
	}
	*all = append(*all, r)
	return nil
}

// asMany reports ranges that do not name as many units as the stock has.
func (d *decoder) asMany(v value, u *Units, stock int64) {
	if count := u.named(); count > 0 && stock > 0 && count != stock {
		d.refuse(v.at, fmt.Sprintf("Write stock: %d, or name as many units as the stock has.", count), "%s names %s, but the stock is %d",
			v.path, Count(count, "unit"), stock)
	}
}
