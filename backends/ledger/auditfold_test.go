package ledger

import (
	"slices"
	"strings"
	"testing"

	"salectl/spec"
)

// The audit adds the commits up by other means than the reducer does, and compares. No
// ledger makes the two differ unless one of them is wrong, so here the reducer is made
// to be: each of its sums in turn.
func TestAuditComparesWithTheFold(t *testing.T) {
	for name, wrong := range map[string]func(*Totals){
		"nothing":   func(*Totals) {},
		"sold":      func(s *Totals) { s.Sold++ },
		"held":      func(s *Totals) { s.Held++ },
		"available": func(s *Totals) { s.Available++ },
		"in flight": func(s *Totals) { s.InFlight++ },
		"limit":     func(s *Totals) { s.Limit++ },
	} {
		w := busyWorld(t)
		sale := NewSale(spec.SaleLog("test"))
		if _, err := Load(t.Context(), w.logs, sale.log, sale); err != nil {
			t.Fatal(err)
		}
		books, err := readBooks(t.Context(), w.logs, sale)
		if err != nil {
			t.Fatal(err)
		}
		wrong(&books[1].state.Totals)
		a := &Audit{Shards: len(books)}
		a.compare(sale, books[1], sale.Applied())
		named := slices.ContainsFunc(a.Problems, func(p string) bool {
			return strings.HasPrefix(p, "shard 1 folds to sold, held, available, in flight, limit [")
		})
		if named != (name != "nothing") || len(a.Problems) > 1 {
			t.Errorf("%s: %q", name, a.Problems)
		}
	}
}
