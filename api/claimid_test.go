package api

import "testing"

// A name of a claim is read in one form, and names a claim of no more bits than a message has.
func TestParseClaimID(t *testing.T) {
	for text, want := range map[string]ClaimID{
		"0-0-0": {}, "1023-18446744073709551615-2147483647": {Shard: 1023, Slot: 1<<64 - 1, Index: 1<<31 - 1},
		"3-u9223372036854775807": {Shard: 3, Unit: 1<<63 - 1},
	} {
		if id, ok := ParseClaimID(text); !ok || id != want || id.String() != text || ClaimIDOf(id.ToStream()) != id {
			t.Errorf("%s: %+v %v", text, id, ok)
		}
	}
	for _, text := range []string{
		"", "1", "1-2", "1-2-", "-1-2-3", "1-2-3-4", "1-2-3 ", " 1-2-3", "+1-2-3", "01-2-3", "1-02-3", "1-2-03", "1-2-3\n", "1-2-+3",
		"2147483648-2-3", "4294967297-2-3", "1-18446744073709551616-3", "1-2-2147483648", "1-2-4294967299",
		"3-u0", "3-u-1", "3-u01", "3-u", "3-u9223372036854775808", "3-U1", "\ufeff1-2-3",
	} {
		if id, ok := ParseClaimID(text); ok || id != (ClaimID{}) {
			t.Errorf("%q: %+v %v", text, id, ok)
		}
	}
}
