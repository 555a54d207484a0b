package audit

import (
	"cmp"
	"slices"
)

// HoldTimes says how long units lay in holds, from the commit of the claim to the commit
// that ended its hold. Holds that are open are not in it. All times are in seconds.
type HoldTimes struct {
	Holds       int64   `json:"holds"`       // that have ended
	UnitSeconds float64 `json:"unitSeconds"` // the sum over all their units

	// Of so many of a hundred units that lay in a hold, how long they did at most.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// endedHold is how long the units of one claim lay in its hold.
type endedHold struct {
	us    int64
	units int64
}

// newHoldTimes sums up, nil if no hold has ended. It sorts what it is given.
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

// seconds writes microseconds as seconds.
func seconds(us int64) float64 { return float64(us) / 1e6 }
