package main

import (
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for name, c := range map[string]struct {
		ours, other []float64
		want        []string
	}{
		// Of the medians the ratio would be 2/1.
		"the median of the rounds' ratios": {[]float64{1, 2, 9}, []float64{1, 4, 1}, []string{"|2|1|", "|1.00 (0.50–9.00)|", "|yes"}},
		"a miss is told":                   {[]float64{3}, []float64{4}, []string{"|3|4|", "|0.75|", "|NO"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := figure{name: "claims/s", form: "%.0f", beside: "raw", wanted: "ratio ≥ 0.8",
				met: func(_, ratio float64) bool { return ratio >= 0.8 }, ours: c.ours, other: c.other}
			line := strings.ReplaceAll(f.String(), "\t", "|")
			for _, part := range c.want {
				if !strings.Contains(line, part) {
					t.Errorf("%q is not in %s", part, line)
				}
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   float64
	}{
		"of none": {nil, 0},
		"of one":  {[]float64{7}, 7},
		"of odd":  {[]float64{9, 1, 3}, 3},
		"of even": {[]float64{4, 1, 2, 3}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}
