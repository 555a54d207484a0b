package table

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		values, others []float64
		wanted         string
		want           []string
	}{
		// Of the medians the ratio would be 2/1.
		"the median of the rounds' ratios": {[]float64{1, 2, 9}, []float64{1, 4, 1}, "ratio ≥ 0.8", []string{"|2|1|", "|1.00 (0.50–9.00)|", "|yes"}},
		"a miss is reported":               {[]float64{3}, []float64{4}, "ratio ≥ 0.8", []string{"|3|4|", "|0.75|", "|NO"}},
		"nothing is wanted":                {[]float64{3}, []float64{4}, "", []string{"|3|4|raw|0.75||$"}},
	} {
		t.Run(name, func(t *testing.T) {
			var all Table
			f := all.Line(Figure{Name: "claims/s", Form: "%.0f", Beside: "raw", Wanted: c.wanted, Holds: AtLeast(0.8)})
			for i := range c.values {
				f.Add(c.values[i], c.others[i])
			}
			line := strings.ReplaceAll(f.String()+"$", "\t", "|")
			for _, part := range c.want {
				if !strings.Contains(line, part) {
					t.Errorf("%q is not in %s", part, line)
				}
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	for name, c := range map[string]struct {
		values     []float64
		part, want float64
	}{
		"median of none":    {nil, 0.5, 0},
		"median of one":     {[]float64{7}, 0.5, 7},
		"median of odd":     {[]float64{9, 1, 3}, 0.5, 3},
		"median of even":    {[]float64{4, 1, 2, 3}, 0.5, 3},
		"p75 of four":       {[]float64{4, 1, 2, 3}, 0.75, 4},
		"p99 of few: worst": {[]float64{4, 1, 2, 3}, 0.99, 4},
		"all: the greatest": {[]float64{4, 1, 2, 3}, 1, 4},
	} {
		if got := Quantile(c.values, c.part); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
