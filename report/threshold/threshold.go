// Package threshold parses conditions like p99<50ms and compares measured values with them.
// The caller defines the names of metrics: Metrics.
package threshold

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"salectl/spec"
)

// Unit is the unit of a measured value; "": it is a number, of claims, units and so on.
type Unit string

// Units.
const (
	Rate     Unit = "/s"
	Duration Unit = "ms"
	percent  Unit = "%" // of Metric.Of
)

// Metric is a measured quantity.
type Metric struct {
	Name string
	Unit Unit
	Of   string // metric that is 100 %; "": thresholds in % are invalid
}

// Metrics are the metrics that thresholds may name.
type Metrics struct {
	All []Metric

	// Latency also permits percentiles of the latency: p50, p99.9.
	Latency bool
}

// Threshold is a condition on one metric.
type Threshold struct {
	Metric
	text       string
	percentile float64 // of the latency; 0: a metric of Metrics.All
	is         string  // comparison
	bound      float64
}

// form matches the name, the comparison, the number and the unit of a condition, each of which
// may be missing.
var form = regexp.MustCompile(`(?s)^\s*([_.\pL\p{Nd}]*)\s*([<>=!]*)\s*([.\p{Nd}]*)\s*(.*?)\s*$`)

// comparisons are the comparisons that are true of a measured value below, at and above a bound.
var comparisons = [][]string{{"<", "<=", "!="}, {"==", "<=", ">="}, {">", ">=", "!="}}

// Parse parses a condition: a metric's name, a comparison, and a value in the metric's unit,
// with or without spaces between them. An error states the position and what is expected
// there.
func (m Metrics) Parse(text string) (t Threshold, err error) {
	at := form.FindStringSubmatchIndex(text)
	part := func(i int) string { return text[at[2*i]:at[2*i+1]] }
	wrong := func(i int, format string, args ...any) (Threshold, error) {
		return Threshold{}, fmt.Errorf("threshold %q, character %d: %s", text, utf8.RuneCountInString(text[:at[2*i]])+1, fmt.Sprintf(format, args...))
	}
	name, figure, unit := part(1), part(3), part(4)
	t.text, t.is = strings.TrimSpace(text), part(2)
	if i := slices.IndexFunc(m.All, func(one Metric) bool { return one.Name == name }); i >= 0 {
		t.Metric = m.All[i]
	} else if t.percentile = percentileOf(name); m.Latency && t.percentile > 0 {
		t.Metric = Metric{Name: name, Unit: Duration}
	} else {
		return wrong(1, "%s", m.unknown(name))
	}
	if !slices.Contains(slices.Concat(comparisons...), t.is) {
		return wrong(2, "a comparison belongs here: one of <, <=, >, >=, == and !=")
	}
	t.bound, err = strconv.ParseFloat(figure, 64)
	switch {
	case err != nil:
	case unit == "%" && t.Of != "":
		t.Unit = percent
	case t.Unit == Duration:
		var d time.Duration
		d, err = time.ParseDuration(figure + unit)
		t.bound = float64(d) / float64(time.Millisecond)
	case unit != "" && unit != string(t.Unit):
		err = strconv.ErrSyntax
	}
	if err != nil {
		return wrong(3, "%q is no bound of %s: write %s; a threshold is one such condition", figure+unit, name, t.form())
	}
	return t, nil
}

// percentileOf returns the percentile with a name such as p99.9; 0: it is none.
func percentileOf(name string) float64 {
	digits, is := strings.CutPrefix(name, "p")
	if p, err := strconv.ParseFloat(digits, 64); is && err == nil && p > 0 && p <= 100 {
		return p
	}
	return 0
}

// unknown returns the error of a name that no metric has.
func (m Metrics) unknown(name string) string {
	var names []string
	if m.Latency {
		names = append(names, "p50", "p90", "p99", "p99.9")
	}
	for _, one := range m.All {
		names = append(names, one.Name)
	}
	if near := spec.Nearest(name, names); near != "" {
		return fmt.Sprintf("%q is not measured; did you mean %s?", name, near)
	}
	return fmt.Sprintf("%q is not measured; the names are %s", name, strings.Join(names, ", "))
}

// form describes the bounds of a metric.
func (m Metric) form() string {
	switch {
	case m.Unit == Duration:
		return "a time with its unit (ns, us, ms, s, m or h), as in " + m.Name + "<50ms"
	case m.Of != "":
		return fmt.Sprintf("a number or a share of %s, as in %s==100 or %s<5%%", m.Of, m.Name, m.Name)
	}
	return "a number, as in " + m.Name + ">10000"
}

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
	Unit      Unit    `json:"unit,omitempty"` // of Measured
}

// Check compares the measured values with the condition. A share of nothing is 0 %.
func (t Threshold) Check(v Values) Result {
	measured := v.Of[t.Name]
	switch {
	case t.percentile > 0:
		measured = v.Latency(t.percentile)
	case t.Unit == percent:
		measured = 100 * measured / max(v.Of[t.Of], 1)
	}
	return Result{t.text, slices.Contains(comparisons[1+cmp.Compare(measured, t.bound)], t.is), measured, t.Unit}
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
	if r.Unit == Duration {
		return Milliseconds(r.Measured).String()
	}
	return strconv.FormatFloat(math.Round(r.Measured*1000)/1000, 'f', -1, 64) + string(r.Unit)
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

// Milliseconds converts milliseconds, and rounds them to three digits.
func Milliseconds(ms float64) time.Duration {
	return Rounded(time.Duration(ms * float64(time.Millisecond)))
}

// Rounded rounds a duration to three digits.
func Rounded(d time.Duration) time.Duration {
	digit := time.Duration(1)
	for d >= 1000*digit {
		digit *= 10
	}
	return d.Round(digit)
}
