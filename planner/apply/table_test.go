package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// fakeTable is a table as a server would keep it.
type fakeTable struct {
	exists  bool
	check   error // what CheckTable says of a table that exists
	created int

	checks, creates func() error // that calls fail with, nil for none
}

// tabled are logs in a table.
type tabled struct {
	ledger.Logs
	table *fakeTable
}

var _ ledger.Table = tabled{}

func (l tabled) Table() string { return "sales" }

func (l tabled) CheckTable(context.Context) error {
	if l.table.checks != nil {
		if err := l.table.checks(); err != nil {
			return err
		}
	}
	if !l.table.exists && l.table.check == nil {
		return ledger.ErrNoTable
	}
	return l.table.check
}

func (l tabled) CreateTable(context.Context) error {
	if l.table.creates != nil {
		if err := l.table.creates(); err != nil {
			return err
		}
	}
	if !l.table.exists {
		l.table.created++
	}
	l.table.exists = true
	return nil
}

func (l tabled) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if !l.table.exists {
		return fmt.Errorf("log %s: %w", log, ledger.ErrNoTable)
	}
	return l.Logs.Append(ctx, log, slot, prev, head, entry)
}

var (
	errManyVersions = &ledger.UnfitError{Faults: "family s keeps 3 versions", Remedy: "Drop it, or name another table"}
	errMasterAway   = errors.New("the master does not answer")
)

func TestTable(t *testing.T) {
	for name, test := range map[string]struct {
		before   func(*world) // what the plan sees
		between  func(*fakeTable)
		plan     string // how it begins
		planErr  error
		apply    error
		created  int
		warnings int
	}{
		"missing":           {before: func(*world) {}, plan: "+table/sales; +sale/tickets", created: 1},
		"there":             {before: func(w *world) { w.table.exists = true }, plan: "+sale/tickets"},
		"made meanwhile":    {before: func(*world) {}, between: func(f *fakeTable) { f.exists = true }, plan: "+table/sales"},
		"unfit":             {before: func(w *world) { w.table.exists, w.table.check = true, errManyVersions }, planErr: planner.ErrRefused},
		"away":              {before: func(w *world) { w.table.check = errMasterAway }, planErr: planner.ErrStore},
		"made unfit":        {before: func(*world) {}, between: func(f *fakeTable) { f.exists, f.check = true, errManyVersions }, plan: "+table/sales", apply: planner.ErrRefused},
		"away at the apply": {before: func(*world) {}, between: func(f *fakeTable) { f.check = errMasterAway }, plan: "+table/sales", apply: planner.ErrStore},
		"dropped":           {before: func(w *world) { w.table.exists = true }, between: func(f *fakeTable) { f.exists = false }, plan: "+sale", apply: planner.ErrStale},
		"live, away":        {before: func(w *world) { w.mustApply(tickets(9)); w.table.check = errMasterAway }, plan: "~sale", created: 1, warnings: 1},
		"live, unfit":       {before: func(w *world) { w.mustApply(tickets(9)); w.table.check = errManyVersions }, planErr: planner.ErrRefused},
		"of an older sale":  {before: func(w *world) { w.mustApply(tickets(9)) }, plan: "~sale", created: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.table = &fakeTable{}
			test.before(w)
			plan, err := planner.Make(tickets(10), w.actual())
			if !errors.Is(err, test.planErr) {
				t.Fatalf("planning: %v, want %v", err, test.planErr)
			}
			if err != nil {
				return
			}
			if !strings.HasPrefix(brief(plan), test.plan) || len(plan.Warnings) != test.warnings {
				t.Errorf("the plan is %s, warnings %q", brief(plan), plan.Warnings)
			}
			if test.between != nil {
				test.between(w.table)
			}
			next := w.actual().Sale.Next()
			if err := w.run(plan); !errors.Is(err, test.apply) {
				t.Fatalf("apply: %v, want %v", err, test.apply)
			}
			if grown := w.actual().Sale.Next() > next; grown != (test.apply == nil) {
				t.Errorf("the sale's log grew: %t", grown)
			}
			if w.table.created != test.created {
				t.Errorf("%d tables were made, want %d", w.table.created, test.created)
			}
		})
	}
}

// The driver's words are the refusal's, parted for the view.
func TestUnfitTableSaysWhatToDo(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{exists: true, check: errManyVersions}
	_, err := planner.Make(tickets(10), w.actual())
	var refusal *planner.Refusal
	if !errors.As(err, &refusal) || refusal.Remedy != "Drop it, or name another table" ||
		!strings.HasSuffix(refusal.Reason, "family s keeps 3 versions") {
		t.Errorf("%#v", refusal)
	}
	w.faults = func(c memory.Call) memory.Fault { return memory.Fault{Kind: memory.ErrorBefore} }
	if _, err := current.Read(t.Context(), w.running().Backends, "tickets"); !errors.As(err, &refusal) {
		t.Errorf("where nothing can be read either: %v", err)
	}
}

// What is wrong with a sale's log is no fault of its table, nor of the store.
func TestReadingADamagedSale(t *testing.T) {
	for name, table := range map[string]*fakeTable{"no table": nil, "a table that is fit": {exists: true}} {
		w := newWorld(t)
		w.table = table
		noise := []byte("noise")
		if err := w.store.Handle(nil).Append(t.Context(), spec.SaleLog("tickets"), 0, nil, noise, noise); err != nil {
			t.Fatal(err)
		}
		if _, err := current.Read(t.Context(), w.running().Backends, "tickets"); !errors.Is(err, ledger.ErrCorrupt) || errors.Is(err, planner.ErrStore) || errors.Is(err, planner.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A table that others made meanwhile is told as such.
func TestTableProgress(t *testing.T) {
	for name, test := range map[string]struct {
		made bool
		note string
	}{"made by us": {false, ""}, "by others": {true, "it was there already"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.table = &fakeTable{}
			p := w.begin(w.mustPlan(tickets(10)))
			w.table.exists = test.made
			for !p.done {
				p.step(inOrder)
			}
			if p.err != nil || p.log[0].Address != "table/sales" || p.log[0].Note != test.note {
				t.Errorf("%v, progress: %+v", p.err, p.log)
			}
		})
	}
}

// A table that cannot be checked or made is tried again after pauses that grow, as
// long as patience lastsinstead of.
func TestPatienceWithATable(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		fails         func(*fakeTable, func() error)
		times         int
		want          []time.Duration
		err           error
		says          string
		partly, makes bool
	}{
		"never checked":     {func(f *fakeTable, e func() error) { f.checks = e }, 100, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms}, planner.ErrStore, "tried for 60ms: table sales: the master", false, false},
		"checked in time":   {func(f *fakeTable, e func() error) { f.checks = e }, 3, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms, 140 * ms}, nil, "", false, true}, // and once it is made
		"never created":     {func(f *fakeTable, e func() error) { f.creates = e }, 100, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms}, planner.ErrStore, "tried for 60ms: table sales: the master", true, false},
		"made in time":      {func(f *fakeTable, e func() error) { f.creates = e }, 1, []time.Duration{0, 20 * ms}, nil, "", false, true},
		"made, reply lost":  {func(f *fakeTable, e func() error) { f.creates = func() error { f.exists = true; return e() } }, 1, []time.Duration{0}, nil, "", false, true},
		"made, and lagging": {func(f *fakeTable, e func() error) { f.creates = func() error { f.checks = lags(); e(); return nil } }, 1, []time.Duration{0}, nil, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.table = &fakeTable{}
			plan := w.mustPlan(tickets(10))
			var asked []time.Duration
			test.fails(w.table, func() error {
				if asked = append(asked, w.now.Mono); len(asked) <= test.times {
					return errMasterAway
				}
				return nil
			})
			err := w.runWith(plan, 60*ms)
			if !errors.Is(err, test.err) || errors.Is(err, planner.ErrPartly) != test.partly || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("apply: %v, want %v", err, test.err)
			}
			if !slices.Equal(asked, test.want) {
				t.Errorf("asked after %v, want %v", asked, test.want)
			}
			if w.table.exists != test.makes {
				t.Errorf("the table is there: %v", w.table.exists)
			}
		})
	}
}

// lags says once that there is no table.
func lags() func() error {
	said := false
	return func() error {
		if said {
			return nil
		}
		said = true
		return ledger.ErrNoTable
	}
}

// A table that was made is a change, also where nothing else was done.
func TestTableThatIsMadeIsAChange(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	w.faults = memory.On(memory.OpRead, always(memory.ErrorBefore))
	plan, err := planner.Make(tickets(10), &planner.Actual{Name: "tickets", Sale: ledger.NewSale(spec.SaleLog("tickets")), Nonce: workUID,
		Table: &planner.TableActual{Name: "sales", Err: ledger.ErrNoTable}, Nodes: w.actual().Nodes})
	if err != nil {
		t.Fatal(err)
	}
	p := w.begin(plan)
	for !p.done {
		p.step(inOrder)
	}
	if !errors.Is(p.err, planner.ErrStore) || !errors.Is(p.err, planner.ErrPartly) || !p.x.core.Changed {
		t.Errorf("apply: %v, changed %v", p.err, p.x.core.Changed)
	}
}

// No table is looked at for what makes none.
func TestPhaseBesideAnUnfitTable(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	w.mustApply(tickets(10))
	w.table.check = errManyVersions
	w.mustPhase(pb.Phase_PAUSED)
}

// The table outlives its sales, and destroy says so.
func TestDestroyKeepsTheTable(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	w.mustApply(tickets(10))
	w.table.check = errMasterAway // nobody asks
	plan := w.planDestroy()
	last := plan.Actions[len(plan.Actions)-1]
	if last.Address != "sale/tickets" || !strings.Contains(last.Reason, "the table sales") {
		t.Errorf("%+v", last)
	}
	w.mustDestroy()
	if !w.table.exists {
		t.Error("the table is gone")
	}
	w.table.check = nil
	w.mustApply(run(tickets(10), 2))
	if head, _, err := w.store.Handle(nil).Read(t.Context(), spec.SaleLog("tickets"), 0, 1); head == nil || err != nil {
		t.Errorf("the sale's log: %s, %v", head, err)
	}
}

// Who makes no table does not wait for its servers, and knows its name all the same.
func TestReadSaleDoesNotAskForTheTable(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	w.mustApply(tickets(10))
	asked := 0
	w.table.checks = func() error { asked++; return errMasterAway }
	a, err := current.ReadSale(t.Context(), w.running().Backends, "tickets")
	if err != nil || asked > 0 || a.Table == nil || a.Table.Name != "sales" || a.Table.Err != nil {
		t.Errorf("asked %d times: %+v, %v", asked, a.Table, err)
	}
	w.faults = memory.On(memory.OpRead, always(memory.ErrorBefore))
	if a, err := current.ReadSale(t.Context(), w.running().Backends, "tickets"); a != nil || !errors.Is(err, planner.ErrStore) {
		t.Errorf("what cannot be read is %+v, %v", a, err)
	}
}

// Whoever changes a sale that is there goes on where its table cannot be checked, and says so.
func TestTableThatCannotBeChecked(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	w.mustApply(tickets(10))
	plan := w.mustPlan(tickets(20))
	w.table.checks = func() error { return errMasterAway }
	p := w.begin(plan)
	if err := p.finish(); err != nil || len(p.x.result.Warnings) != 1 || !strings.HasPrefix(p.x.result.Warnings[0], "table sales could not be checked: ") {
		t.Errorf("%v, warnings %q", err, p.x.result.Warnings)
	}
}
