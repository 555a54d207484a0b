package spec

import (
	"fmt"
	"testing"
)

func TestUnitRows(t *testing.T) {
	u := &Units{Ranges: []string{"A1-A40", "B01-B02", "VIP", "7"}}
	if got := fmt.Sprint(u.Rows()); got != "[40 2 1 1]" {
		t.Errorf("rows of %s units", got)
	}
	for _, u := range []*Units{nil, {FromFile: true, File: "seats.csv"}} {
		if got := u.Rows(); got != nil {
			t.Errorf("%+v has rows of %v units", u, got)
		}
	}
}
