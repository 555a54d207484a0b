package rules

import (
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

func TestParseValue(t *testing.T) {
	for _, c := range []struct {
		kind string
		text string
		want string // the value, or the text of the error
	}{
		{spec.TypeInt, "42", "42"}, {spec.TypeInt, "-9223372036854775808", "-9223372036854775808"}, {spec.TypeInt, "", "missing"},
		{spec.TypeInt, "042", `"042" is no int`}, {spec.TypeInt, "+1", `"+1" is no int`}, {spec.TypeInt, "1.0", `"1.0" is no int`}, {spec.TypeInt, "-0", `"-0" is no int`},
		{spec.TypeInt, "9223372036854775808", "is no int"}, {spec.TypeInt, " 1", "is no int"},
		{spec.TypeDouble, "0.5", "0.5"}, {spec.TypeDouble, "1", "1.0"}, {spec.TypeDouble, "-0", "0.0"}, {spec.TypeDouble, "1e3", "1000.0"},
		{spec.TypeDouble, "NaN", "is no double"}, {spec.TypeDouble, "inf", "is no double"}, {spec.TypeDouble, "1e999", "is no double"},
		{spec.TypeDouble, "0x1p4", "is no double"}, {spec.TypeDouble, "1_0", "is no double"}, {spec.TypeDouble, "1,5", "is no double"},
		{spec.TypeBool, "true", "true"}, {spec.TypeBool, "false", "false"}, {spec.TypeBool, "True", "is no bool; write true or false"}, {spec.TypeBool, "1", "is no bool"},
		{spec.TypeTimestamp, "2026-11-21T08:00:00+08:00", `timestamp("2026-11-21T00:00:00Z")`},
		{spec.TypeTimestamp, "2026-11-21", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{spec.TypeTimestamp, "2026-11-21T7:00:00Z", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{spec.TypeTimestamp, "2026-11-21T07:00:00,5Z", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{spec.TypeTimestamp, "0000-01-01T00:00:00Z", "is no timestamp"},
		{spec.TypeStrings, "a|b", `["a", "b"]`}, {spec.TypeStrings, "a", `["a"]`}, {spec.TypeStrings, strings.Repeat("a|", 100), "has 101 elements, at most 100"},
		{spec.TypeStrings, "a|" + strings.Repeat("x", 257), "has an element that has 257 bytes"},
		{spec.TypeString, "x y", `"x y"`}, {spec.TypeString, strings.Repeat("x", 257), "has 257 bytes, at most 256"}, {spec.TypeString, "\xff", "is not UTF-8"},
	} {
		v, err := ParseValue(c.kind, c.text)
		if err != nil {
			if v != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %q: %v", c.kind, c.text, err)
			}
			continue
		}
		if got := Show(v); got != c.want {
			t.Errorf("%s %q is %s, want %s", c.kind, c.text, got, c.want)
		}
	}
}

// Two values have the same digest if and only if they are the same value of the
// same type, however and in whatever zone they were written.
func TestDigest(t *testing.T) {
	of := func(kind string, v Value) Digest {
		return mustNew(t, NewSchema(spec.Attribute{Name: "a", Type: kind}), "ada", v).Digest()
	}
	vienna := time.FixedZone("", 3600)
	seen := map[Digest]int{}
	for i, c := range []struct {
		kind string
		v    Value
	}{
		{spec.TypeInt, types.Int(1)}, {spec.TypeDouble, types.Double(1)}, {spec.TypeString, types.String("1")}, {spec.TypeBool, types.Bool(true)}, {spec.TypeTimestamp, types.Timestamp{Time: time.Unix(1, 0)}},
		{spec.TypeStrings, listOf([]string{"1"})}, {spec.TypeStrings, listOf([]string{"1", ""})}, {spec.TypeStrings, listOf([]string{"", "1"})}, {spec.TypeStrings, listOf(nil)},
		{spec.TypeInt, nil}, {spec.TypeString, nil}, {spec.TypeString, types.String("")}, {spec.TypeInt, types.Int(0)}, {spec.TypeDouble, types.Double(0)}, {spec.TypeBool, types.Bool(false)},
		{spec.TypeTimestamp, types.Timestamp{Time: time.Unix(1, 1)}}, {spec.TypeInt, types.Int(math.MinInt64)},
	} {
		d := of(c.kind, c.v)
		if j, ok := seen[d]; ok {
			t.Errorf("%d and %d have the same digest", i, j)
		}
		seen[d] = i
	}
	if of(spec.TypeTimestamp, types.Timestamp{Time: noon}) != of(spec.TypeTimestamp, types.Timestamp{Time: noon.In(vienna)}) {
		t.Error("a time zone changes the digest")
	}
	ab := NewSchema(spec.Attribute{Name: "a", Type: spec.TypeInt}, spec.Attribute{Name: "b", Type: spec.TypeInt})
	if mustNew(t, ab, "ada").Digest() == mustNew(t, ab, "eve").Digest() || mustNew(t, ab, "ada").Digest() == ab.Unknown("ada").Digest() {
		t.Error("who a user is, and whether known, is not in the digest")
	}
	if mustNew(t, ab, "ada").Digest() == ab.Unreadable("ada", io.EOF).Digest() || ab.Unknown("ada").Digest() == ab.Unreadable("ada", io.EOF).Digest() {
		t.Error("a user who could not be read has the digest of one who could")
	}
	// Recorded decisions name digests.
	if got := mustNew(t, shopper, "ada", ada...).Digest().String(); !strings.HasPrefix(got, "8bb89597") {
		t.Errorf("the digest has changed to %s", got)
	}
}
