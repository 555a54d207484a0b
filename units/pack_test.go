package units

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func anyUnits(t *rapid.T) []Unit {
	text := rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("x", 200)))
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) Unit {
		u := Unit{Name: text.Draw(t, "name")}
		if n := rapid.IntRange(0, 3).Draw(t, "attributes"); n > 0 {
			u.Attributes = rapid.SliceOfN(text, n, n).Draw(t, "values")
		}
		return u
	})).Draw(t, "units")
}

func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := anyUnits(t)
		b := Pack([]byte("before"), us)
		if !bytes.HasPrefix(b, []byte("before\x01")) {
			t.Fatalf("got %x", b)
		}
		got, err := Unpack(b[len("before"):])
		if err != nil || len(got) != len(us) || len(us) > 0 && !reflect.DeepEqual(got, us) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// Packed units stand in ledgers: their form stays.
func TestPackedFormStays(t *testing.T) {
	us := []Unit{{"A1", nil}, {"code", []string{"", "pin"}}}
	const want = "\x01\x02" + "\x00\x02A1" + "\x02\x04code\x00\x03pin"
	if got := string(Pack(nil, us)); got != want {
		t.Errorf("got %q", got)
	}
}

// What Unpack takes is what Pack makes, to the last byte.
func TestUnpackRefusesDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Pack(nil, anyUnits(t))
		switch at := rapid.IntRange(0, len(b)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "damage") {
		case 0:
			b = b[:at]
		case 1:
			b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 2:
			b = append(b[:at], b[at+1:]...)
		default:
			b = append(b[:at:at], append(rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(t, "bytes"), b[at:]...)...)
		}
		got, err := Unpack(b)
		if err != nil && !errors.Is(err, ErrDamaged) || err == nil && !bytes.Equal(Pack(nil, got), b) {
			t.Fatalf("%x: got %q, %v", b, got, err)
		}
	})
	for name, text := range map[string]string{
		"nothing":                  "",
		"the version alone":        "\x01",
		"another version":          "\x02\x00",
		"something behind":         "\x01\x00\x00",
		"a count of two bytes":     "\x01\x80\x00",
		"more units than bytes":    "\x01\xff\xff\xff\xff\x0f\x00\x00",
		"a number beyond 64 bits":  "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a number beyond 63 bits":  "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a number without end":     "\x01\x01\x00\xff",
		"a name too long":          "\x01\x01\x00\x03ab",
		"attributes too many":      "\x01\x01\x05\x01a\x00",
		"a unit too few":           "\x01\x02\x00\x01a",
		"an attribute of no bytes": "\x01\x01\x01\x01a",
	} {
		if got, err := Unpack([]byte(text)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
