package hbase

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tsuna/gohbase/hrpc"

	"salectl/internal/wait"
	"salectl/rules"
	"salectl/spec"
)

func mustOpenHistory(t testing.TB) *History {
	t.Helper()
	mustOpen(t) // makes the table
	h, err := OpenHistory(spec.Rows{Zookeeper: []string{mustStandalone(t).Zookeeper()}, Table: "sales", Family: family})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// What is kept is found again, once however often it was kept.
func TestHistory(t *testing.T) {
	h := mustOpenHistory(t)
	prefix := newPrefix()
	at := time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)
	var buyers []rules.Buyer
	for i := range 300 { // more than a call has
		buyers = append(buyers, rules.Buyer{User: fmt.Sprintf("%s%03d", prefix, i), Units: int64(i + 1), At: at})
	}
	ctx := within(t, wait.Limit)
	for range 2 {
		if err := h.Remember(ctx, "drop-1", "0011", buyers); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Remember(ctx, "drop-2", "0022", buyers[7:8]); err != nil {
		t.Fatal(err)
	}
	got, err := h.History(ctx, []string{buyers[7].User, prefix + "nobody", buyers[299].User})
	if err != nil {
		t.Fatal(err)
	}
	first := rules.Purchase{Sale: "drop-1", Run: "0011", Units: 8, At: at}
	if !slices.Equal(got[0], []rules.Purchase{first, {Sale: "drop-2", Run: "0022", Units: 8, At: at}}) || len(got[1]) != 0 || len(got[2]) != 1 || got[2][0].Units != 300 {
		t.Errorf("found %v", got)
	}
}

// Whether a table keeps what users bought is known before there is something to keep.
func TestHistoryWithoutBuyers(t *testing.T) {
	h := mustOpenHistory(t)
	ctx := within(t, wait.Limit)
	if err := h.Remember(ctx, "drop-1", "0011", nil); err != nil {
		t.Error(err)
	}
	none := &History{h.logs, "none"}
	if err := none.Remember(ctx, "drop-1", "0011", nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("without the family: %v", err)
	}
}

func TestHistoryThatIsNone(t *testing.T) {
	h := mustOpenHistory(t)
	row := newPrefix() + "odd"
	ctx := within(t, wait.Limit)
	for cell, why := range map[string]string{
		"twice": "invalid character",
		"null":  "it lacks a sale, units or a time", // which would be no purchase
		`{"sale":"drop-1","units":-1,"at":"2026-11-21T12:00:00Z"}`: "it lacks a sale, units or a time",
	} {
		put, err := hrpc.NewPut(t.Context(), h.logs.regions.table, []byte(row), map[string]map[string][]byte{family: {"0011": []byte(cell)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.logs.once(ctx, wholeDelete{put}); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("the row %q, column %s:0011: %s", row, family, why)
		if _, err := h.History(ctx, []string{row}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", cell, err, want)
		}
	}
	if _, err := OpenHistory(spec.Rows{Zookeeper: []string{"127.0.0.1:1"}, Family: family}); err == nil {
		t.Error("a history without a table")
	}
}
