package hbase

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A list goes from region to region: what begins with 3 begins in the one that ends with 30.
func TestListOverRegions(t *testing.T) {
	logs := mustOpen(t)
	mark := strings.ReplaceAll(newPrefix(), "/", "-")
	var want []string
	for i := range 25 {
		name := fmt.Sprintf("3%x/%s%02d", i%16, mark, i)
		if err := logs.Append(t.Context(), name, 0, nil, head(0), []byte("entry")); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	slices.Sort(want)
	got, err := logs.List(t.Context(), "3")
	got = slices.DeleteFunc(got, func(name string) bool { return !strings.Contains(name, mark) })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("listed is %q, %v; want %q", got, err, want)
	}
}
