package rehearse

import (
	"fmt"
	"math"
	"time"

	"salectl/report/threshold"
)

// latencies are durations of requests in ascending order.
type latencies []time.Duration

// ms returns a percentile in milliseconds, rounded to microseconds.
func (l latencies) ms(percent float64) float64 {
	return float64(threshold.Percentile(l, percent).Round(time.Microsecond).Microseconds()) / 1000
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
