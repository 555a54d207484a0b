package hbase

import (
	"strings"
	"testing"

	"github.com/tsuna/gohbase/region"
)

// between makes a place from "start-stop".
func between(span string) *place {
	start, stop, _ := strings.Cut(span, "-")
	return &place{region.NewInfo(1, nil, []byte("sales"), []byte(span), []byte(start), []byte(stop)), "rs:1"}
}

func TestPlacesByRow(t *testing.T) {
	for name, test := range map[string]struct {
		keep []string          // in this order
		want map[string]string // by row
	}{
		"nothing":        {nil, map[string]string{"a": ""}},
		"one for all":    {[]string{"-"}, map[string]string{"": "-", "a": "-", "zz": "-"}},
		"by its bounds":  {[]string{"20-30"}, map[string]string{"1f": "", "20": "20-30", "2f/x": "20-30", "30": "", "": ""}},
		"several":        {[]string{"f0-", "10-20", "-10", "40-50"}, map[string]string{"": "-10", "0f": "-10", "10": "10-20", "30": "", "sale/x": "f0-", "50": ""}},
		"after a split":  {[]string{"-", "-80", "80-"}, map[string]string{"10": "-80", "80": "80-", "f": "80-"}},
		"half a split":   {[]string{"-80", "80-", "80-c0"}, map[string]string{"10": "-80", "90": "80-c0", "d0": ""}},
		"after a merge":  {[]string{"-40", "40-80", "80-", "-80"}, map[string]string{"10": "-80", "50": "-80", "90": "80-"}},
		"the same again": {[]string{"10-20", "10-20"}, map[string]string{"15": "10-20", "05": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(regions)
			for _, span := range test.keep {
				r.cache(between(span))
			}
			for row, want := range test.want {
				got := ""
				if p := r.cached([]byte(row)); p != nil {
					got = string(p.Name())
				}
				if got != want {
					t.Errorf("row %q is in %q, want %q", row, got, want)
				}
			}
		})
	}
}

// A place is forgotten by who found it wrong, not by who is late to do so.
func TestForgetting(t *testing.T) {
	r := new(regions)
	old, fresh := between("10-20"), between("10-20")
	r.cache(old)
	r.cache(fresh)
	r.uncache(old)
	if r.cached([]byte("15")) != fresh {
		t.Error("the place that was found since was forgotten")
	}
	r.uncache(fresh)
	if r.cached([]byte("15")) != nil {
		t.Error("the place was not forgotten")
	}
}
