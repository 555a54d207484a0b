package rules

import (
	"io"
	"math"
	"salectl/spec"
	"strings"
	"testing"
	"time"
)

func TestParseValue(t *testing.T) {
	for _, c := range []struct {
		kind Type
		text string
		want string // the value, or what the error has to say
	}{
		{Int, "42", "42"}, {Int, "-9223372036854775808", "-9223372036854775808"}, {Int, "", "missing"},
		{Int, "042", `"042" is no int`}, {Int, "+1", `"+1" is no int`}, {Int, "1.0", `"1.0" is no int`}, {Int, "-0", `"-0" is no int`},
		{Int, "9223372036854775808", "is no int"}, {Int, " 1", "is no int"},
		{Double, "0.5", "0.5"}, {Double, "1", "1.0"}, {Double, "-0", "0.0"}, {Double, "1e3", "1000.0"},
		{Double, "NaN", "is no finite number"}, {Double, "inf", "is no finite number"}, {Double, "1e999", "is no double"},
		{Double, "0x1p4", "is no double"}, {Double, "1_0", "is no double"}, {Double, "1,5", "is no double"},
		{Bool, "true", "true"}, {Bool, "false", "false"}, {Bool, "True", "is no bool; write true or false"}, {Bool, "1", "is no bool"},
		{Timestamp, "2026-11-21T08:00:00+08:00", `timestamp("2026-11-21T00:00:00Z")`},
		{Timestamp, "2026-11-21", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{Timestamp, "2026-11-21T7:00:00Z", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{Timestamp, "2026-11-21T07:00:00,5Z", "is no timestamp; write one such as 2026-11-21T07:00:00Z"},
		{Timestamp, "0000-01-01T00:00:00Z", "is in the year 0"},
		{Strings, "a|b", `["a", "b"]`}, {Strings, "a", `["a"]`}, {Strings, strings.Repeat("a|", 100), "has 101 elements, at most 100"},
		{Strings, "a|" + strings.Repeat("x", 257), "has an element that has 257 bytes"},
		{String, "x y", `"x y"`}, {String, strings.Repeat("x", 257), "has 257 bytes, at most 256"}, {String, "\xff", "is not UTF-8"},
	} {
		v, err := ParseValue(c.kind, c.text)
		if err != nil {
			if v.Present() || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %q: %v", c.kind, c.text, err)
			}
			continue
		}
		if v.String() != c.want {
			t.Errorf("%s %q is %s, want %s", c.kind, c.text, v, c.want)
		}
	}
}

// Two values have the same digest if and only if they are the same value of the
// same type, however and in whatever zone they were written.
func TestDigest(t *testing.T) {
	of := func(kind Type, v Value) Digest {
		return mustNew(t, NewSchema(Attribute{"a", kind}), "ada", v).Digest()
	}
	vienna := time.FixedZone("", 3600)
	seen := map[Digest]int{}
	for i, c := range []struct {
		kind Type
		v    Value
	}{
		{Int, IntOf(1)}, {Double, DoubleOf(1)}, {String, StringOf("1")}, {Bool, BoolOf(true)}, {Timestamp, TimestampOf(time.Unix(1, 0))},
		{Strings, StringsOf([]string{"1"})}, {Strings, StringsOf([]string{"1", ""})}, {Strings, StringsOf([]string{"", "1"})}, {Strings, StringsOf(nil)},
		{Int, Value{}}, {String, Value{}}, {String, StringOf("")}, {Int, IntOf(0)}, {Double, DoubleOf(0)}, {Bool, BoolOf(false)},
		{Timestamp, TimestampOf(time.Unix(1, 1))}, {Int, IntOf(math.MinInt64)},
	} {
		d := of(c.kind, c.v)
		if j, ok := seen[d]; ok {
			t.Errorf("%d and %d have the same digest", i, j)
		}
		seen[d] = i
	}
	if of(Timestamp, TimestampOf(noon)) != of(Timestamp, TimestampOf(noon.In(vienna))) {
		t.Error("a time zone changes the digest")
	}
	if of(Double, DoubleOf(math.Copysign(0, -1))) != of(Double, DoubleOf(0)) {
		t.Error("minus zero is not zero")
	}
	ab, ba := NewSchema(Attribute{"a", Int}, Attribute{"b", Int}), NewSchema(Attribute{"b", Int}, Attribute{"a", Int})
	if mustNew(t, ab, "ada", IntOf(1), IntOf(2)).Digest() != mustNew(t, ba, "ada", IntOf(2), IntOf(1)).Digest() {
		t.Error("the order of the declaration changes the digest")
	}
	if mustNew(t, ab, "ada").Digest() == mustNew(t, ab, "eve").Digest() || mustNew(t, ab, "ada").Digest() == ab.Unknown("ada").Digest() {
		t.Error("who a user is, and whether known, is not in the digest")
	}
	if mustNew(t, ab, "ada").Digest() == ab.Unreadable("ada", io.EOF).Digest() || ab.Unknown("ada").Digest() == ab.Unreadable("ada", io.EOF).Digest() {
		t.Error("a user who could not be read has the digest of one who could")
	}
	// Recorded decisions name digests.
	if got := mustNew(t, shopper, "ada", ada...).Digest().String(); !strings.HasPrefix(got, "beefbe1c") {
		t.Errorf("the digest has changed to %s", got)
	}
}

func TestNewHoldsValuesToTheirTypes(t *testing.T) {
	for want, c := range map[string]struct {
		id     string
		values []Value
	}{
		"a user has no id": {"", make([]Value, 6)},
		"has 257 bytes":    {strings.Repeat("x", 257), make([]Value, 6)},
		`user "ada" has 1 values for 6 attributes`:                         {"ada", make([]Value, 1)},
		`user "ada": level is declared as int and is of type string`:       {"ada", []Value{StringOf("5"), {}, {}, {}, {}, {}}},
		`user "ada": level is declared as int and is of type double`:       {"ada", []Value{DoubleOf(5), {}, {}, {}, {}, {}}},
		`user "ada": score is no finite number`:                            {"ada", []Value{{}, {}, DoubleOf(math.NaN()), {}, {}, {}}},
		`user "ada": since is in the year 10000; write one from 1 to 9999`: {"ada", []Value{{}, {}, {}, {}, TimestampOf(noon.AddDate(7974, 0, 0)), {}}},
	} {
		if _, err := shopper.New(c.id, c.values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestParseType(t *testing.T) {
	for _, name := range spec.AttributeTypes {
		if kind, ok := ParseType(name); !ok || kind.String() != name {
			t.Errorf("%s: %v, %v", name, kind, ok)
		}
	}
	if _, ok := ParseType("text"); ok {
		t.Error("text is a type")
	}
}
