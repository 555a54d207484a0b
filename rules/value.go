package rules

import (
	"encoding/binary"
	"encoding/json"
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

// Value is the CEL value of an attribute: a types.String of at most MaxText bytes of UTF-8, a
// types.Int, a finite types.Double, a types.Bool, a types.Timestamp in UTC, or a list of at most MaxList
// types.String. A nil Value is missing. Values of different types are never equal, whatever their
// notation: the int 1, the double 1 and the string "1" are three values.
type Value = ref.Val

// celTypes are the CEL types of attributes.
var celTypes = map[string]*types.Type{
	spec.TypeString: types.StringType, spec.TypeInt: types.IntType, spec.TypeDouble: types.DoubleType,
	spec.TypeBool: types.BoolType, spec.TypeTimestamp: types.TimestampType,
	spec.TypeStrings: types.NewListType(types.StringType),
}

// listOf returns a list of strings. It boxes them once, not at each evaluation.
func listOf(list []string) Value {
	elements := make([]ref.Val, len(list))
	for i, s := range list {
		elements[i] = types.String(s)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

// Show formats a value in CEL notation, or as "missing". It cuts a list after five elements.
func Show(v Value) string {
	list, isList := v.(traits.Lister)
	switch {
	case v == nil:
		return "missing"
	case !isList:
		return types.Format(v)
	}
	const shown = 5
	var all []string
	size := int(list.Size().(types.Int))
	for i := range min(size, shown) {
		all = append(all, Show(list.Get(types.Int(i))))
	}
	if size > shown {
		all = append(all, fmt.Sprintf("… %d more", size-shown))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// withinBounds returns the fault of a value that is larger than cost estimates assume, or nil.
func withinBounds(v ref.Val) error {
	size, most, of := 0, MaxText, "bytes"
	switch v := v.(type) {
	case types.String:
		size = len(v)
	case types.Bytes:
		size = len(v)
	case traits.Lister:
		size, most, of = int(v.Size().(types.Int)), MaxList, "elements"
	}
	if size > most {
		return fmt.Errorf("has %d %s, at most %d are allowed", size, of, most)
	}
	if list, ok := v.(traits.Lister); ok {
		for it := list.Iterator(); it.HasNext() == types.True; {
			if err := withinBounds(it.Next()); err != nil {
				return fmt.Errorf("has an element that %w", err)
			}
		}
	}
	return nil
}

// ListSeparator separates the elements of a list in a text.
const ListSeparator = "|"

// ParseValue parses a value of a type from its canonical text: digits for an int, true or false, an
// instant in RFC 3339 with any offset, a list with ListSeparator between elements. An empty text is a
// missing value. Errors name the text and the remedy.
func ParseValue(kind, text string) (Value, error) {
	if text == "" {
		return nil, nil
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%s is not UTF-8; convert it", quoted(text))
	}
	v, err := parse(kind, text)
	if err != nil {
		return nil, err
	}
	if err := withinBounds(v); err != nil {
		return nil, fmt.Errorf("%s %w", quoted(text), err)
	}
	return v, nil
}

func parse(kind, text string) (Value, error) {
	switch kind {
	case spec.TypeInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return nil, fmt.Errorf("%s is no int; write digits such as 42, from %d to %d", quoted(text), math.MinInt64, math.MaxInt64)
		}
		return types.Int(n), nil
	case spec.TypeDouble:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(text, "xX_pPnN") { // nor hexadecimal, Inf and NaN
			return nil, fmt.Errorf("%s is no double; write a number such as 0.5", quoted(text))
		}
		if f == 0 {
			f = 0 // minus zero equals it
		}
		return types.Double(f), nil
	case spec.TypeBool:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("%s is no bool; write true or false", quoted(text))
		}
		return types.Bool(text == "true"), nil
	case spec.TypeTimestamp:
		at, err := spec.ParseTime(text)
		if at = at.UTC(); err != nil || at.Year() < 1 || at.Year() > 9999 {
			return nil, fmt.Errorf("%s is no timestamp; write one such as 2026-11-21T07:00:00Z", quoted(text))
		}
		return types.Timestamp{Time: at}, nil
	case spec.TypeStrings:
		return listOf(strings.Split(text, ListSeparator)), nil
	}
	return types.String(text), nil
}

// jsonValue converts a value that parseJSON decoded from UTF-8, with numbers as written. Errors name the value.
func jsonValue(kind string, from any) (v Value, err error) {
	switch val := from.(type) {
	case nil:
		return nil, nil
	case json.Number:
		if kind == spec.TypeInt || kind == spec.TypeDouble {
			return ParseValue(kind, val.String())
		}
	case string:
		switch {
		case kind == spec.TypeString:
			v = types.String(val)
		case kind == spec.TypeTimestamp && val != "":
			return ParseValue(kind, val)
		}
	case bool:
		if kind == spec.TypeBool {
			v = types.Bool(val)
		}
	case []any:
		list := make([]string, len(val))
		all := kind == spec.TypeStrings
		for i := range val {
			text, ok := val[i].(string)
			list[i], all = text, all && ok
		}
		if all {
			v = listOf(list)
		}
	}
	if v == nil {
		err = fmt.Errorf("is no %s in JSON", kind)
	} else {
		err = withinBounds(v)
	}
	if err != nil {
		written, _ := json.Marshal(from)
		return nil, fmt.Errorf("%s %w", oneLine(string(written)), err)
	}
	return v, nil
}

// quoted returns a quoted text for a message, cut to a readable length.
func quoted(text string) string {
	const shown = 40
	if len(text) <= shown {
		return strconv.Quote(text)
	}
	return strconv.Quote(strings.ToValidUTF8(text[:shown], "")) + "…"
}

// canonical appends the unique encoding of a value. Values of one type are equal if and only if their
// encodings are. It is part of digests and never changes.
func canonical(b []byte, v Value) []byte {
	if v == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	switch v := v.(type) {
	case types.String:
		b = appendText(b, string(v))
	case types.Int:
		b = binary.AppendVarint(b, int64(v))
	case types.Double:
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(v)))
	case types.Bool:
		b = strconv.AppendBool(b, bool(v))
	case types.Timestamp:
		b = binary.AppendVarint(b, v.Unix())
		b = binary.AppendUvarint(b, uint64(v.Nanosecond()))
	case traits.Lister:
		size := v.Size().(types.Int)
		b = binary.AppendUvarint(b, uint64(size))
		for i := range size {
			b = appendText(b, string(v.Get(i).(types.String)))
		}
	}
	return b
}

// readValue decodes a canonical value of a type, and returns the rest of b.
func readValue(kind string, b []byte) (Value, []byte) {
	present, b := b[0] == 1, b[1:]
	if !present {
		return nil, b
	}
	switch kind {
	case spec.TypeInt:
		n, width := binary.Varint(b)
		return types.Int(n), b[width:]
	case spec.TypeDouble:
		return types.Double(math.Float64frombits(binary.BigEndian.Uint64(b))), b[8:]
	case spec.TypeBool:
		value := b[0] == 't'
		return types.Bool(value), b[len(strconv.FormatBool(value)):]
	case spec.TypeTimestamp:
		seconds, width := binary.Varint(b)
		nanos, more := binary.Uvarint(b[width:])
		return types.Timestamp{Time: time.Unix(seconds, int64(nanos)).UTC()}, b[width+more:]
	case spec.TypeStrings:
		size, width := binary.Uvarint(b)
		list, b := make([]string, size), b[width:]
		for i := range list {
			var text []byte
			text, b = readText(b)
			list[i] = string(text)
		}
		return listOf(list), b
	}
	text, b := readText(b)
	return types.String(text), b
}

// appendText appends the length of a text and the text. readText reads both, and returns the rest of b.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func readText(b []byte) (text, rest []byte) {
	n, width := binary.Uvarint(b)
	end := width + int(n)
	return b[width:end], b[end:]
}
