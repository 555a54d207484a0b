package audit

import "testing"

// TestHoldTimesByUnits weighs each hold by its units.
func TestHoldTimesByUnits(t *testing.T) {
	for name, c := range map[string]struct {
		all  []endedHold
		want *HoldTimes
	}{
		"none": {nil, nil},
		"by units": {[]endedHold{{9_000_000, 1}, {2_000_000, 98}, {1_000_000, 1}},
			&HoldTimes{Holds: 3, UnitSeconds: 206, P50: 2, P90: 2, P99: 2, Max: 9}},
		"of three": {[]endedHold{{1_000_000, 1}, {2_000_000, 1}, {3_000_000, 1}},
			&HoldTimes{Holds: 3, UnitSeconds: 6, P50: 2, P90: 3, P99: 3, Max: 3}},
	} {
		if got := newHoldTimes(c.all); (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
