package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
)

// The audit adds the commits up by other means than the reducer does, and compares. No
// ledger makes the two differ unless one of them is wrong, so here the reducer is made
// to be: each of its sums in turn.
func TestAuditComparesWithTheFold(t *testing.T) {
	for name, wrong := range map[string]func(*ledger.Totals){
		"nothing":   nil,
		"sold":      func(s *ledger.Totals) { s.Sold++ },
		"held":      func(s *ledger.Totals) { s.Held++ },
		"available": func(s *ledger.Totals) { s.Available++ },
		"in flight": func(s *ledger.Totals) { s.InFlight++ },
		"limit":     func(s *ledger.Totals) { s.Limit++ },
	} {
		w := ledger.BusyWorld(t)
		r, err := audit.Run(t.Context(), w.Logs, "test", func(log string) audit.Reducer {
			if log != w.Shards[1].Log() {
				return ledger.NewState(log)
			}
			return miscount{ledger.NewState(log), wrong, nil}
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(r.Problems, func(p string) bool {
			return strings.HasPrefix(p, "shard 1 folds to sold, held, available, in flight, limit [")
		})
		if named != (name != "nothing") || len(r.Problems) > 2 {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}
