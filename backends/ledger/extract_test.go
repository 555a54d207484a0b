package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestExtract looks for claims of dealsWorld in all ways.
func TestExtract(t *testing.T) {
	w := historiesWorld(t)
	first := w.shards[1].Claim(0)
	resold := w.shards[1].Claim(5)
	for name, c := range map[string]struct {
		filter ClaimFilter
		want   string // indexes of claims of shard 1
	}{
		"all":               {ClaimFilter{}, "0 1 2 3 4 5 6 7 8 9"},
		"held":              {ClaimFilter{State: "held"}, "1 7 8 9"},
		"sold":              {ClaimFilter{State: "sold"}, "0 5"},
		"expired":           {ClaimFilter{State: "expired"}, "3"},
		"cancelled":         {ClaimFilter{State: "cancelled"}, "2"},
		"refunded":          {ClaimFilter{State: "refunded"}, "4 6"},
		"owed back":         {ClaimFilter{State: "refund_due"}, "0 3"},
		"by user":           {ClaimFilter{User: first.User}, "0"},
		"by user and state": {ClaimFilter{User: first.User, State: "refund_due"}, "0"},
		"of another state":  {ClaimFilter{User: first.User, State: "held"}, ""},
		"nobody":            {ClaimFilter{User: "nobody"}, ""},
		"by unit":           {ClaimFilter{Unit: resold.Units[0]}, "4 5"}, // 4 was refunded, and had it before
		"no such unit":      {ClaimFilter{Unit: 4711}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var to bytes.Buffer
			if err := Extract(t.Context(), w.logs, "test", testUID, w.shards, nil, c.filter, &to); err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(strings.Lines(to.String()))
			var header ExtractHeader
			if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Filter != c.filter || header.Claims != len(lines)-1 || header.Format != 1 || header.Kind != "extract" {
				t.Errorf("header %s (%v)", lines[0], err)
			}
			var want []string
			for _, i := range strings.Fields(c.want) {
				want = append(want, string(exportLine(exportClaim("test", 1, w.shards[1].Claim(int(i[0]-'0')), nil))))
			}
			if !slices.Equal(lines[1:], want) {
				t.Errorf("found\n%s, want\n%s", lines[1:], want)
			}
		})
	}
	if err := Extract(t.Context(), w.logs, "test", "fedcba9876543210", w.shards, nil, ClaimFilter{}, new(bytes.Buffer)); !errors.Is(err, ErrGone) {
		t.Errorf("of another run: %v", err)
	}
}

// An extract is never taken for an export, not even one of all claims.
func TestExtractIsNoExport(t *testing.T) {
	w := historiesWorld(t)
	var to bytes.Buffer
	if err := Extract(t.Context(), w.logs, "test", testUID, w.shards, nil, ClaimFilter{}, &to); err != nil {
		t.Fatal(err)
	}
	if err := CheckExport(t.Context(), w.logs, bytes.NewReader(to.Bytes()), "test", w.sale, w.shards, nil); err == nil {
		t.Error("an extract passes for an export")
	}
	var header ExportHeader
	if err := json.Unmarshal([]byte(strings.SplitN(to.String(), "\n", 2)[0]), &header); err != nil || header.Kind == KindExport || header.Sale != "" || header.UID != "" {
		t.Errorf("read as an export's, the header of an extract is %+v, %v", header, err)
	}
}
