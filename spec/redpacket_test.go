package spec

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestReadAmount(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
		want  int64
	}{
		{"100.00", 2, 10_000}, {"100", 2, 10_000}, {"0.1", 2, 10}, {"0.01", 2, 1}, {"1", 0, 1}, {"0.001", 3, 1}, {"12.3456", 4, 123456},
		{"1000000000000000.00", 2, MaxTotal}, {"100000000000000000", 0, MaxTotal},
	} {
		if got, f := readAmount(c.text, "CNY", c.scale); f != nil || got != c.want {
			t.Errorf("%s: got %d, %v; want %d", c.text, got, f, c.want)
		}
	}
	for text, want := range map[string]string{
		"-1": "is negative", "-0.00": "is negative", "+1": "has a plus sign", "0": "is zero", "0.00": "is zero",
		"1e3": "has an exponent", "1.5E-3": "has an exponent", "0x10": "is no decimal number", "0b1": "is no decimal number",
		"1_000": "has an underscore", "1_000.00": "has an underscore", "1,000.00": "has a comma", "100,00": "has a comma",
		"01": "begins with a needless zero", "00.50": "begins with a needless zero", ".5": "begins with a point", "5.": "ends with a point",
		"1.000": "has 3 decimals, and CNY has 2", "0.001": "has 3 decimals, and CNY has 2",
		"1000000000000000.01":  "is above 1000000000000000.00, the maximum",
		"92233720368547758.08": "is above 1000000000000000.00, the maximum",
		"99999999999999999999": "is above 1000000000000000.00, the maximum",
		"":                     "is no amount", ".": "is no amount", "1.2.3": "is no amount", "¥1": "is no amount", "1 CNY": "is no amount", "１００": "is no amount",
		"1.00\n": "is no amount", " 1": "is no amount", "ten": "is no amount", ".inf": "is no amount", ".nan": "is no amount",
	} {
		n, f := readAmount(text, "CNY", 2)
		if f == nil || f.message != want || n != 0 || !strings.HasSuffix(f.remedy, ".") {
			t.Errorf("%q: got %d, %v; want %s", text, n, f, want)
		}
	}
	if _, f := readAmount("1.0", "JPY", 0); f == nil || f.remedy != "Write it without point and decimals." {
		t.Errorf("yen with decimals: %v", f)
	}
}

func TestReadCurrency(t *testing.T) {
	for text, want := range map[string]int{"CNY": 2, "USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "KWD": 3, "CLF": 4,
		// In no old list, and with decimals that are of ISO and not customary.
		"SLE": 2, "VED": 2, "XCG": 2, "ZWG": 2, "MRU": 2, "UYW": 4, "IDR": 2, "COP": 2, "IQD": 3} {
		if got, f := readCurrency(text); f != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, f, want)
		}
	}
	for text, want := range map[string]string{
		"cny": "is not in capitals", "Cny": "is not in capitals", "XXX": "is the code for no currency", "xxx": "is the code for no currency",
		"RMB": "is no currency", "HRK": "is no currency", "XAU": "is no currency", "CN": "is no currency", "CNYX": "is no currency", "¥": "is no currency", "": "is no currency",
	} {
		if got, f := readCurrency(text); f == nil || f.message != want {
			t.Errorf("%s: got %d, %v; want %s", text, got, f, want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		minor int64
		scale int
		want  string
	}{
		{0, 2, "0.00"}, {1, 2, "0.01"}, {37, 2, "0.37"}, {100, 2, "1.00"}, {12345, 3, "12.345"}, {5, 4, "0.0005"}, {0, 0, "0"}, {123, 0, "123"},
		{-1, 2, "-0.01"}, {-12345, 2, "-123.45"}, {math.MaxInt64, 2, "92233720368547758.07"}, {math.MinInt64, 2, "-92233720368547758.08"},
	} {
		if got := (RedPacket{Scale: c.scale}).Format(c.minor); got != c.want {
			t.Errorf("%d with %d decimals: got %s, want %s", c.minor, c.scale, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		minor, scale := rapid.Int64Range(1, MaxTotal).Draw(t, "minor"), rapid.IntRange(0, 4).Draw(t, "scale")
		text := formatAmount(minor, scale)
		if got, f := readAmount(text, "CNY", scale); f != nil || got != minor {
			t.Fatalf("%d is %s, and that is %d, %v", minor, text, got, f)
		}
	})
}
