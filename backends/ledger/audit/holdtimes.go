package audit

import (
	"cmp"
	"slices"
)

// HoldTimes has statistics of the time that units spent in holds, from the commit of the claim to
// the commit that ended its hold. It excludes open holds. All times are in seconds.
type HoldTimes struct {
	Holds       int64   `json:"holds"`       // number of holds that have ended
	UnitSeconds float64 `json:"unitSeconds"` // sum over all their units

	// Percentiles and maximum of the time per unit.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// endedHold is the duration of one hold, and its number of units.
type endedHold struct {
	us    int64
	units int64
}

// newHoldTimes returns the statistics of ended holds, nil if there are none. It sorts all.
func newHoldTimes(all []endedHold) *HoldTimes {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b endedHold) int { return cmp.Compare(a.us, b.us) })
	var units, sum int64
	for _, h := range all {
		units += h.units
		sum += h.us * h.units
	}
	at := func(percent int64) float64 {
		left := (units*percent + 99) / 100
		for _, h := range all {
			if left -= h.units; left <= 0 {
				return seconds(h.us)
			}
		}
		return seconds(all[len(all)-1].us)
	}
	return &HoldTimes{
		Holds: int64(len(all)), UnitSeconds: seconds(sum),
		P50: at(50), P90: at(90), P99: at(99), Max: at(100),
	}
}

// seconds converts microseconds to seconds.
func seconds(us int64) float64 { return float64(us) / 1e6 }
