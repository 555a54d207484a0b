package rehearse

import (
	"fmt"
	"math"
	"time"
)

// latencies are durations of requests in ascending order.
type latencies []time.Duration

// at returns a percentile by nearest rank: the least duration that percent of all do not exceed, or
// 0 if there are none.
func (l latencies) at(percent float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	// 99.9 % of 1,000 is 999. In floating point it is slightly more, and would round up to 1,000.
	rank := math.Ceil(percent*float64(len(l))/100 - 1e-9)
	return l[min(max(int(rank), 1), len(l))-1]
}

// ms returns at in milliseconds, rounded to microseconds.
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

// round rounds to three decimal places.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func ms(f float64) string {
	if f < 10 {
		return fmt.Sprintf("%.2f ms", f)
	}
	return fmt.Sprintf("%.0f ms", f)
}
