package hbase

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tsuna/gohbase/pb"

	"salectl/internal/wait"
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

// A server stops a scan that has read its limit of bytes without a row, as in a long log. The list goes
// on from there.
func TestListOverLargeRows(t *testing.T) {
	logs := mustOpen(t, table(unused("listed")))
	if err := createTable(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	want := []string{"30/large", "31/behind"}
	fill(t, logs, want[0], 60, 200_000)
	fill(t, logs, want[1], 1, 10)
	disableTable(t, logs) // which moves all to files
	begun := new(pb.EnableTableResponse)
	mustCallMaster(t, logs, "EnableTable", &pb.EnableTableRequest{TableName: tableName(logs.table)}, begun)
	mustFinish(t, logs, begun.GetProcId())
	if got, err := logs.List(within(t, wait.Limit), "3"); err != nil || !slices.Equal(got, want) {
		t.Errorf("listed is %q, %v; want %q", got, err, want)
	}
}
