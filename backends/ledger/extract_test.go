package ledger_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
)

// TestExtract searches claims of HistoriesWorld in all ways.
func TestExtract(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	first := w.Shards[1].Claim(0)
	resold := w.Shards[1].Claim(5)
	for name, c := range map[string]struct {
		filter export.Filter
		want   string // indexes of claims of shard 1
	}{
		"all":               {export.Filter{}, "0 1 2 3 4 5 6 7 8 9"},
		"held":              {export.Filter{State: "held"}, "1 7 8 9"},
		"sold":              {export.Filter{State: "sold"}, "0 5"},
		"expired":           {export.Filter{State: "expired"}, "3"},
		"cancelled":         {export.Filter{State: "cancelled"}, "2"},
		"refunded":          {export.Filter{State: "refunded"}, "4 6"},
		"owed back":         {export.Filter{State: "refund_due"}, "0 3 4"},
		"paid back":         {export.Filter{State: "returned"}, "6"},
		"by user":           {export.Filter{User: first.User}, "0"},
		"by user and state": {export.Filter{User: first.User, State: "refund_due"}, "0"},
		"of another state":  {export.Filter{User: first.User, State: "held"}, ""},
		"nobody":            {export.Filter{User: "nobody"}, ""},
		"by unit":           {export.Filter{Unit: resold.Units[0]}, "4 5"}, // 4 was refunded, and had it before
		"no such unit":      {export.Filter{Unit: 4711}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var to bytes.Buffer
			if err := exportOf(w).WriteExtract(t.Context(), c.filter, &to); err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(strings.Lines(to.String()))
			var header export.ExtractHeader
			if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Filter != c.filter || header.Claims != len(lines)-1 || header.Format != 1 || header.Kind != "extract" {
				t.Errorf("header %s (%v)", lines[0], err)
			}
			all := claimLines(t, w)
			var want []string
			for _, i := range strings.Fields(c.want) {
				want = append(want, string(lineOf(all[w.Shards[0].Claims()+int(i[0]-'0')])))
			}
			if !slices.Equal(lines[1:], want) {
				t.Errorf("found\n%s, want\n%s", lines[1:], want)
			}
		})
	}
}

// An extract is never taken for an export, not even one of all claims.
func TestExtractIsNoExport(t *testing.T) {
	w := ledger.HistoriesWorld(t)
	var to bytes.Buffer
	if err := exportOf(w).WriteExtract(t.Context(), export.Filter{}, &to); err != nil {
		t.Fatal(err)
	}
	if err := exportOf(w).Check(t.Context(), bytes.NewReader(to.Bytes())); err == nil {
		t.Error("an extract passes for an export")
	}
	var header export.Header
	if err := json.Unmarshal([]byte(strings.SplitN(to.String(), "\n", 2)[0]), &header); err != nil || header.Kind == export.Kind || header.Sale != "" || header.UID != "" {
		t.Errorf("read as an export's, the header of an extract is %+v, %v", header, err)
	}
}
