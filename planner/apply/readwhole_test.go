package apply

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/memory"
	"salectl/draw"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// TestReadWhole reads on what was read while a sale changed, and tells of shards of which not all is
// there that there must be.
func TestReadWhole(t *testing.T) {
	lose := func(w *world) {
		if err := w.store.Handle(nil).Delete(t.Context(), spec.ShardLog(w.actual().Sale.UID(), 1, 3), 100); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(w *world) { w.mustApply(tickets(10)) }
	amid := func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 2) }
	erase := func(w *world) {
		runDestroyUntil(w, w.planDestroy(), func(*process) bool {
			is := w.actual()
			return is.Sale.Sealed() != nil && !slices.ContainsFunc(is.Shards, func(s planner.ShardActual) bool { return s.Head != nil })
		})
	}
	for name, test := range map[string]struct {
		before, since func(*world)
		generation    uint64
		want          error
		says          string
	}{
		"nothing since":    {begin, nil, 1, nil, ""},
		"an apply since":   {begin, func(w *world) { w.mustApply(tickets(20)) }, 2, nil, ""},
		"amid the first":   {amid, nil, 0, nil, ""},
		"the first, since": {amid, begin, 1, nil, ""},
		"a log is lost":    {func(w *world) { begin(w); lose(w) }, nil, 0, ledger.ErrCorrupt, "shard/1 of a live sale has no log ("},
		"amid the seals": {func(w *world) {
			begin(w)
			runDestroyUntil(w, w.planDestroy(), func(p *process) bool {
				return slices.ContainsFunc(p.x.states(), func(s *ledger.State) bool { return s != nil && s.Sealed() })
			})
		}, nil, 0, planner.ErrRefused, "is not sealed, and shard "},
		"sealed since":                 {begin, (*world).seal, 0, ledger.ErrGone, "sale tickets is being deleted"},
		"deleted":                      {func(w *world) { begin(w); w.seal(); lose(w) }, nil, 0, ledger.ErrGone, "sale tickets is being deleted"},
		"deleted, never applied":       {func(w *world) { amid(w); erase(w) }, nil, 0, ledger.ErrGone, "sale tickets is being deleted"},
		"deleted since, never applied": {amid, erase, 0, ledger.ErrGone, "sale tickets is being deleted"},
		"sealed, and not deleted":      {func(w *world) { begin(w); w.seal() }, nil, 2, nil, ""},
		"another by now":               {begin, func(w *world) { w.mustDestroy(); s := tickets(10); s.Run = 2; w.mustApply(s) }, 0, ledger.ErrGone, "sale tickets is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				test.before(w)
				logs, sale := w.store.Handle(nil), w.actual().Sale
				shards, err := ledger.LoadShards(t.Context(), logs, sale)
				if err != nil {
					t.Fatal(err)
				}
				if test.since != nil {
					test.since(w)
				}
				err = current.ReadWhole(t.Context(), logs, "tickets", sale, shards)
				if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v, want %v that says %s", err, test.want, test.says)
				}
				for _, s := range shards {
					if err == nil && s.Generation < test.generation {
						t.Errorf("a shard was read to generation %d, want %d", s.Generation, test.generation)
					}
				}
			})
		})
	}
}

// TestReadWholeOfALaggingLog reads shards with a generation, or with units awarded by ranks, that the
// first reads of the sale's own log, or all of them, do not show.
func TestReadWholeOfALaggingLog(t *testing.T) {
	grown := func(t *testing.T) (*world, *ledger.Sale) {
		w := newWorld(t)
		w.mustApply(tickets(10))
		sale := w.actual().Sale
		w.mustApply(tickets(20))
		return w, sale
	}
	awarded := func(t *testing.T) (*world, *ledger.Sale) {
		w := newDraw(t, nil)
		sale := w.actual().Sale
		w.awardFirst()
		return w, sale
	}
	for name, test := range map[string]struct {
		begin func(*testing.T) (*world, *ledger.Sale)
		back  int
		reads int // of the sale's own log that lag
		want  error
	}{
		"once":                       {grown, 2, 1, nil},
		"all the time":               {grown, 2, ledger.MissingTries, planner.ErrRefused},
		"once, of ranks":             {awarded, 1, 1, nil},
		"all the time, of ranks":     {awarded, 1, ledger.MissingTries, planner.ErrRefused},
		"all the time, of no reveal": {awarded, 2, ledger.MissingTries, planner.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, sale := test.begin(t)
				lags, whole := test.reads, w.actual().Sale
				logs := w.store.Handle(memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
					if c.Log != spec.SaleLog("tickets") || lags == 0 {
						return memory.Fault{}
					}
					lags--
					return past(test.back)
				}))
				shards, err := ledger.LoadShards(t.Context(), logs, sale)
				if err != nil {
					t.Fatal(err)
				}
				if err := current.ReadWhole(t.Context(), logs, "tickets", sale, shards); !errors.Is(err, test.want) || lags > 0 {
					t.Errorf("%v, and %d reads were to lag; want %v", err, lags, test.want)
				}
				if test.want == nil && sale.Next() != whole.Next() {
					t.Errorf("%d slots of the sale's log were read, want %d", sale.Next(), whole.Next())
				}
			})
		})
	}
}

// awardFirst reveals a draw, awards the first rank a unit, and returns the shard of its entry.
func (w *world) awardFirst() int {
	w.Helper()
	if err := w.run(w.mustReveal(nil)); err != nil {
		w.Fatal(err)
	}
	first := w.actual().Sale.Ranks()[0]
	o := w.owner(first.Shard)
	if err := o.append(func(d *ledger.Draft) {
		if c, _ := o.state.ClaimAt(first.Slot, first.Index); d.Award(c).Kind != ledger.SettleDone {
			w.Fatal("nothing was awarded")
		}
	}); err != nil {
		w.Fatal(err)
	}
	return first.Shard
}

// TestReadWholeOfADraw exports a draw of which one shard was read after an award, and the others
// before the close of entries: an export has their entries too, without which it would have a unit
// of a draw that is not revealed.
func TestReadWholeOfADraw(t *testing.T) {
	for name, want := range map[string]error{"once": nil, "all the time": planner.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newDraw(t, nil)
				logs, sale := w.store.Handle(nil), w.actual().Sale
				shards, err := ledger.LoadShards(t.Context(), logs, sale)
				if err != nil {
					t.Fatal(err)
				}
				at := shards[w.awardFirst()]
				if _, err := ledger.Load(t.Context(), logs, at.Log(), at); err != nil {
					t.Fatal(err)
				}
				lagging := w.store.Handle(memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
					if want == nil || c.Log == at.Log() || c.Log == sale.Log() {
						return memory.Fault{}
					}
					return past(1)
				}))
				if err := current.ReadWhole(t.Context(), lagging, "tickets", sale, shards); !errors.Is(err, want) {
					t.Fatalf("%v, want %v", err, want)
				}
				if want != nil {
					return
				}
				var to bytes.Buffer
				if err := (export.Sale{Name: "tickets", Log: sale, Shards: shards, Logs: logs}).Write(t.Context(), &to); err != nil {
					t.Fatal(err)
				}
				if r, err := draw.Verify(&to, draw.Options{}); err != nil || !r.OK || r.Awarded != 1 {
					t.Errorf("%v, %+v", err, r)
				}
			})
		})
	}
}
