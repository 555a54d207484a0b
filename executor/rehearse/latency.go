package rehearse

import (
	"fmt"
	"math"
	"time"
)

// latencies are how long requests took, the quickest first.
type latencies []time.Duration

// at returns the least that so many of a hundred took no longer than; 0 of none.
func (l latencies) at(percent float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	// 99.9 % of 1,000 are 999, and not the 1,000 that rounding up what is a little above
	// 999 in floating point would make of it.
	rank := math.Ceil(percent*float64(len(l))/100 - 1e-9)
	return l[min(max(int(rank), 1), len(l))-1]
}

// ms is at in milliseconds, to the microsecond.
func (l latencies) ms(percent float64) float64 {
	return float64(l.at(percent).Round(time.Microsecond).Microseconds()) / 1000
}

func (l latencies) mean() time.Duration {
	if len(l) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range l {
		sum += d
	}
	return sum / time.Duration(len(l))
}

// round cuts off the digits that no measurement has.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func ms(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.2f ms", f)
	}
	return fmt.Sprintf("%.0f ms", f)
}
