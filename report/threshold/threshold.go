// Package threshold parses conditions like p99<50ms and compares measured values with them.
// The caller defines the names of metrics: Metrics.
package threshold

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Kind is the unit of a metric.
type Kind int

// Kinds of metrics.
const (
	Count    Kind = iota // number of claims, units and so on
	Rate                 // rate per second
	Duration             // milliseconds
)

// Metric is a measured quantity.
type Metric struct {
	Name string
	Kind Kind
	Of   string // metric that is 100 %; "": thresholds in % are invalid
	Says string // short description
}

// Metrics are the metrics that thresholds may name.
type Metrics struct {
	All []Metric

	// Latency also permits percentiles of the latency: p50, p99.9.
	Latency bool
}

// find returns the metric with a name.
func (m Metrics) find(name string) (Metric, bool) {
	for _, one := range m.All {
		if one.Name == name {
			return one, true
		}
	}
	return Metric{}, false
}

// Names returns all names, percentiles by examples.
func (m Metrics) Names() (names []string) {
	if m.Latency {
		names = append(names, "p50", "p90", "p99", "p99.9")
	}
	for _, one := range m.All {
		names = append(names, one.Name)
	}
	return names
}

// Threshold is a condition on one metric.
type Threshold struct {
	text    string
	metric  Metric
	percent float64 // percentile; 0: a metric of Metrics.All
	is      comparison
	bound   float64
	share   bool // bound is in % of metric.Of
}

// String returns the condition as written.
func (t Threshold) String() string { return t.text }

// Values are measured values. A missing metric is 0.
type Values struct {
	Of      map[string]float64            // by name of the metric; a Duration in milliseconds
	Latency func(percent float64) float64 // in milliseconds
}

// Result is the result of a threshold.
type Result struct {
	Threshold string  `json:"threshold"`
	OK        bool    `json:"ok"`
	Measured  float64 `json:"measured"`
	Unit      string  `json:"unit,omitempty"` // unit of Measured: ms, %, /s; "": a count
}

// Check compares the measured values with the condition. A share of nothing is 0 %.
func (t Threshold) Check(v Values) Result {
	r := Result{Threshold: t.text}
	switch {
	case t.percent > 0:
		r.Measured = v.Latency(t.percent)
	case t.share:
		if whole := v.Of[t.metric.Of]; whole != 0 {
			r.Measured = 100 * v.Of[t.metric.Name] / whole
		}
	default:
		r.Measured = v.Of[t.metric.Name]
	}
	switch {
	case t.share:
		r.Unit = "%"
	case t.metric.Kind == Duration:
		r.Unit = "ms"
	case t.metric.Kind == Rate:
		r.Unit = "/s"
	}
	r.OK = t.is.holds(r.Measured, t.bound)
	return r
}

// CheckAll checks all conditions, and reports whether all hold. Without conditions the results
// are nil.
func CheckAll(all []Threshold, v Values) (results []Result, ok bool) {
	ok = true
	for _, t := range all {
		r := t.Check(v)
		results, ok = append(results, r), ok && r.OK
	}
	return results, ok
}

// String formats the result in a line.
func (r Result) String() string {
	if r.OK {
		return fmt.Sprintf("%s: ok, %s", r.Threshold, r.Value())
	}
	return fmt.Sprintf("%s: FAILED, it is %s", r.Threshold, r.Value())
}

// Value returns the measured value with its unit, for people.
func (r Result) Value() string {
	switch r.Unit {
	case "ms":
		return Milliseconds(r.Measured)
	case "%":
		return number(r.Measured) + "%"
	}
	return number(r.Measured) + r.Unit
}

// Percentile returns a percentile of sorted values by nearest rank: the least value that percent of all
// do not exceed, or zero if there are none.
func Percentile[T cmp.Ordered](sorted []T, percent float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	// 99.9 % of 1,000 is 999. In floating point it is slightly more, and would round up to 1,000.
	rank := int(math.Ceil(percent*float64(len(sorted))/100 - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Milliseconds formats milliseconds in a suitable unit, with three digits.
func Milliseconds(ms float64) string {
	switch {
	case ms >= 60_000:
		return fmt.Sprintf("%d min %.0f s", int(ms/60_000), (ms-60_000*float64(int(ms/60_000)))/1000)
	case ms >= 1000:
		return digits(ms/1000) + " s"
	case ms >= 1 || ms == 0:
		return digits(ms) + " ms"
	}
	return digits(ms*1000) + " µs"
}

// digits formats a number below 1000 with three digits.
func digits(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// number formats a fractional number without trailing zeros.
func number(f float64) string {
	if f == float64(int64(f)) {
		return fmt.Sprint(int64(f))
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", f), "0"), ".")
}

// comparison is the required relation of a measured value to the bound.
type comparison string

func (c comparison) holds(measured, bound float64) bool {
	switch c {
	case "<":
		return measured < bound
	case "<=":
		return measured <= bound
	case ">":
		return measured > bound
	case ">=":
		return measured >= bound
	case "==":
		return measured == bound
	}
	return measured != bound
}
