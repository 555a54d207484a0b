package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"salectl/spec"
)

// Value is a value of an attribute. The zero Value is a missing value. Values of different types are
// never equal, whatever their notation: the int 1, the double 1 and the string "1" are three values.
type Value struct {
	kind Type
	val  ref.Val // boxed once, not at each evaluation
}

// Constructors of each type. Schema.New rejects invalid values.

// StringOf returns a text of at most MaxText bytes of UTF-8.
func StringOf(s string) Value { return Value{String, types.String(s)} }

// IntOf returns a whole number.
func IntOf(n int64) Value { return Value{Int, types.Int(n)} }

// DoubleOf returns a finite number. Minus zero becomes zero, which it equals.
func DoubleOf(f float64) Value {
	if f == 0 {
		f = 0
	}
	return Value{Double, types.Double(f)}
}

// BoolOf returns true or false.
func BoolOf(b bool) Value { return Value{Bool, types.Bool(b)} }

// TimestampOf returns an instant from year 1 to 9999, in UTC.
func TimestampOf(t time.Time) Value { return Value{Timestamp, types.Timestamp{Time: t.UTC().Round(0)}} }

// StringsOf returns a list of at most MaxList texts, in their order.
func StringsOf(list []string) Value {
	elements := make([]ref.Val, len(list))
	for i, s := range list {
		elements[i] = types.String(s)
	}
	return Value{Strings, types.NewRefValList(types.DefaultTypeAdapter, elements)}
}

// Present reports whether there is a value.
func (v Value) Present() bool { return v.kind != 0 }

// Type returns the type of a present value.
func (v Value) Type() Type { return v.kind }

// String returns the value in CEL notation, or "missing".
func (v Value) String() string {
	if !v.Present() {
		return "missing"
	}
	return show(v.val)
}

// show formats a value in CEL notation. It cuts a list after five elements.
func show(v ref.Val) string {
	switch v := v.(type) {
	case types.String:
		return strconv.Quote(string(v))
	case types.Bytes:
		return "b" + strconv.Quote(string(v))
	case types.Double:
		text := strconv.FormatFloat(float64(v), 'g', -1, 64)
		if strings.Trim(text, "-0123456789") == "" {
			text += ".0"
		}
		return text
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Timestamp:
		return fmt.Sprintf("timestamp(%q)", v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return fmt.Sprintf("duration(%q)", v.Duration)
	case *purchase:
		return fmt.Sprintf("%d of %s at %s", v.Units, v.Sale, v.At.UTC().Format(time.RFC3339Nano))
	case traits.Lister:
		return showList(v)
	}
	return fmt.Sprint(v.Value())
}

func showList(list traits.Lister) string {
	const shown = 5
	var all []string
	size := int(list.Size().(types.Int))
	for i := range min(size, shown) {
		all = append(all, show(list.Get(types.Int(i))))
	}
	if size > shown {
		all = append(all, fmt.Sprintf("… %d more", size-shown))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// check returns the fault of a present value, or nil.
func (v Value) check() error {
	switch val := v.val.(type) {
	case types.String:
		return checkText(string(val))
	case types.Double:
		if math.IsNaN(float64(val)) || math.IsInf(float64(val), 0) {
			return errors.New("is no finite number; leave it out if it is not known")
		}
	case types.Timestamp:
		if y := val.Year(); y < 1 || y > 9999 {
			return fmt.Errorf("is in the year %d; write one from 1 to 9999", y)
		}
	case traits.Lister:
		if size := val.Size().(types.Int); size > MaxList {
			return fmt.Errorf("has %d elements, at most %d are allowed", size, MaxList)
		}
		for it := val.Iterator(); it.HasNext() == types.True; {
			if err := checkText(string(it.Next().(types.String))); err != nil {
				return fmt.Errorf("has an element that %w", err)
			}
		}
	}
	return nil
}

func checkText(s string) error {
	switch {
	case len(s) > MaxText:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(s), MaxText)
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8; convert it")
	}
	return nil
}

// ListSeparator separates the elements of a list in a text.
const ListSeparator = "|"

// ParseValue parses a value from its canonical text: digits for an int, true or false, an instant
// in RFC 3339 with any offset, a list with ListSeparator between elements. An empty text is a
// missing value. Errors name the text and the remedy.
func ParseValue(t Type, text string) (Value, error) {
	if text == "" {
		return Value{}, nil
	}
	v, err := parse(t, text)
	if err == nil {
		err = v.check()
		if err != nil {
			err = fmt.Errorf("%s %w", quoted(text), err)
		}
	}
	if err != nil {
		return Value{}, err
	}
	return v, nil
}

func parse(t Type, text string) (Value, error) {
	switch t {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return Value{}, fmt.Errorf("%s is no int; write digits such as 42, from %d to %d", quoted(text), math.MinInt64, math.MaxInt64)
		}
		return IntOf(n), nil
	case Double:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(text, "xX_pP") {
			return Value{}, fmt.Errorf("%s is no double; write a number such as 0.5", quoted(text))
		}
		return DoubleOf(f), nil
	case Bool:
		if text != "true" && text != "false" {
			return Value{}, fmt.Errorf("%s is no bool; write true or false", quoted(text))
		}
		return BoolOf(text == "true"), nil
	case Timestamp:
		at, err := spec.ParseTime(text)
		if err != nil {
			return Value{}, fmt.Errorf("%s is no timestamp; write one such as 2026-11-21T07:00:00Z", quoted(text))
		}
		return TimestampOf(at), nil
	case Strings:
		return StringsOf(strings.Split(text, ListSeparator)), nil
	}
	return StringOf(text), nil
}

// quoted returns a quoted text for a message, cut to a readable length.
func quoted(text string) string {
	const shown = 40
	if len(text) <= shown {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:shown], "")) + "…"
}

// canonical appends the unique encoding of a value: its type, then its content. Values are equal if and
// only if their encodings are. It is part of digests and never changes.
func (v Value) canonical(b []byte) []byte {
	b = append(b, byte(v.kind))
	switch val := v.val.(type) {
	case types.String:
		b = appendText(b, string(val))
	case types.Int:
		b = binary.AppendVarint(b, int64(val))
	case types.Double:
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(val)))
	case types.Bool:
		if val {
			return append(b, 1)
		}
		return append(b, 0)
	case types.Timestamp:
		b = binary.AppendVarint(b, val.Unix())
		b = binary.AppendUvarint(b, uint64(val.Nanosecond()))
	case traits.Lister:
		size := val.Size().(types.Int)
		b = binary.AppendUvarint(b, uint64(size))
		for i := range size {
			b = appendText(b, string(val.Get(i).(types.String)))
		}
	}
	return b
}

// readValue decodes a canonical value, and returns the rest of b.
func readValue(b []byte) (Value, []byte) {
	kind, b := Type(b[0]), b[1:]
	switch kind {
	case String:
		text, rest := readText(b)
		return StringOf(string(text)), rest
	case Int:
		n, width := binary.Varint(b)
		return IntOf(n), b[width:]
	case Double:
		return DoubleOf(math.Float64frombits(binary.BigEndian.Uint64(b))), b[8:]
	case Bool:
		return BoolOf(b[0] == 1), b[1:]
	case Timestamp:
		seconds, width := binary.Varint(b)
		nanos, more := binary.Uvarint(b[width:])
		return TimestampOf(time.Unix(seconds, int64(nanos))), b[width+more:]
	case Strings:
		size, width := binary.Uvarint(b)
		list, b := make([]string, size), b[width:]
		for i := range list {
			var text []byte
			text, b = readText(b)
			list[i] = string(text)
		}
		return StringsOf(list), b
	}
	return Value{}, b
}

// appendText appends a text after its length; readText returns it, and the rest of b.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func readText(b []byte) (text, rest []byte) {
	n, width := binary.Uvarint(b)
	end := width + int(n)
	return b[width:end], b[end:]
}
