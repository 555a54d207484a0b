package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
		if _, err := Load(t.Context(), w.logs, sale.Log(), sale); err != nil {
			t.Fatal(err)
		}
		r, shards, err := readRecount(t.Context(), w.logs, sale, 0)
		if err != nil {
			t.Fatal(err)
		}
		wrong(&shards[1].Totals)
		r.compare(r.books[1])
		named := slices.ContainsFunc(r.Problems, func(p string) bool {
			return strings.HasPrefix(p, "shard 1 folds to sold, held, available, in flight, limit [")
		})
		if named != (name != "nothing") || len(r.Problems) > 1 {
			t.Errorf("%s: %q", name, r.Problems)
		}
	}
}

// readRecount reads the books of a sale.
func readRecount(ctx context.Context, logs Logs, sale *Sale, applied uint64) (*Recount, []*State, error) {
	r, shards := NewRecount("test", sale.UID(), sale.Shards(), NewState)
	return r, shards, readBooks(ctx, logs, r.books, applied, sale.Sealed())
}

// A log that is damaged behind what was read first is in the audit too, and is no
// failure to read.
func TestAuditReadsOnIntoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a slot that does not fit is waited for
		w := busyWorld(t)
		b := newBook(w.shards[1].Log(), 1, worldShards, NewState(w.shards[1].Log()))
		if err := b.read(t.Context(), w.logs); err != nil || b.damage != nil {
			t.Fatal(err, b.damage)
		}
		w.sell(1, 1)
		l := w.logs.logs[b.Log()]
		l.entries[len(l.entries)-1] = []byte("noise")
		err := b.readOn(t.Context(), w.logs, func() bool { return false })
		if err != nil || !errors.Is(b.damage, ErrCorrupt) {
			t.Errorf("%v, the damage is %v", err, b.damage)
		}
		w.logs.before = func() { t.Error("a log that is damaged is read again") }
		if err := b.readOn(t.Context(), w.logs, func() bool { return false }); err != nil {
			t.Error(err)
		}
	})
}
