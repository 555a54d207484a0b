package executor

import (
	"fmt"
	"testing"

	"salectl/api"
)

// An owner of an older version returns all claims of a user, whatever the page.
func TestPageOfAnOlderOwner(t *testing.T) {
	var all []Claim
	for slot := range uint64(250) {
		all = append(all, Claim{ID: ClaimID{Shard: 3, Slot: slot + 1}})
	}
	for _, c := range []struct {
		page api.Page
		want string
	}{
		{api.Page{}, "3-151-0 to 3-250-0, next 3-151-0"},
		{api.Page{Limit: 7}, "3-244-0 to 3-250-0, next 3-244-0"},
		{api.Page{Limit: 1000}, "3-1-0 to 3-250-0, next "},
		{api.Page{Before: "3-151-0"}, "3-51-0 to 3-150-0, next 3-51-0"},
		{api.Page{Before: "3-8-0", Limit: 7}, "3-1-0 to 3-7-0, next "},
	} {
		a := Answer{Claims: all}
		fit(&a, c.page)
		if got := fmt.Sprintf("%s to %s, next %s", a.Claims[0].ID, a.Claims[len(a.Claims)-1].ID, a.Next); got != c.want {
			t.Errorf("%+v: %s, want %s", c.page, got, c.want)
		}
	}
}
