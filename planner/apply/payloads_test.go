package apply

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
	"salectl/units"
)

// payloadSale is a sale whose units stand in a file.
type payloadSale struct {
	*world
	path   string
	secret bool
	slots  int // units in each slot of their log; 0: the usual
}

func newPayloadSale(t *testing.T, secret bool) *payloadSale {
	return &payloadSale{world: newWorld(t), path: filepath.Join(t.TempDir(), "codes.csv"), secret: secret}
}

// declare writes the file, and returns the sale.
func (g *payloadSale) declare(codes ...string) spec.Sale {
	g.Helper()
	text := "code,worth\n"
	for _, code := range codes {
		text += fmt.Sprintf("%s,%s EUR\n", code, code[len(code)-1:])
	}
	if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
	return with(tickets(int64(len(codes))), func(s *spec.Sale) {
		s.Units = &spec.Units{File: g.path, FromFile: true, Column: "code", Secret: g.secret}
		if g.secret {
			s.Units.KeyEnv = "KEY"
		}
	})
}

func (g *payloadSale) source(s spec.Sale) *units.Source {
	g.Helper()
	source, err := units.ForSale(s, func(string) (string, bool) {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))), true
	})
	if err != nil {
		g.Fatal(err)
	}
	return source
}

// read is the sale as it is, with what its units are to be.
func (g *payloadSale) read(s spec.Sale) *planner.Actual {
	g.Helper()
	actual := g.actual()
	actual.Units = current.ReadUnits(context.Background(), g.logs(nil), s.Units, g.source(s), actual)
	return actual
}

// plan plans a sale, for one execution.
func (g *payloadSale) plan(s spec.Sale) (*planner.Plan, *Payloads) {
	g.Helper()
	actual := g.read(s)
	p, err := planner.Make(s, actual)
	if err != nil {
		g.Fatal(err)
	}
	return p, g.payloads(actual)
}

// payloads returns the payloads of a sale, in slots of few units.
func (g *payloadSale) payloads(actual *planner.Actual) *Payloads {
	g.Helper()
	is, err := PayloadsOf(actual)
	if err != nil {
		g.Fatal(err)
	}
	if is != nil && g.slots > 0 {
		is.slotUnits = g.slots
	}
	return is
}

// begin starts a process that carries out a plan.
func (g *payloadSale) begin(p *planner.Plan, s spec.Sale, is *Payloads) *process {
	g.Helper()
	g.world.units, g.world.key = is, g.source(s).Key()
	defer func() { g.world.units, g.world.key = nil, nil }()
	return g.world.begin(p)
}

// mustCarryOut carries out a plan to its end.
func (g *payloadSale) mustCarryOut(p *planner.Plan, s spec.Sale, is *Payloads) {
	g.Helper()
	if err := g.end(g.begin(p, s, is)); err != nil {
		g.Fatal(err)
	}
}

func (g *payloadSale) end(p *process) error {
	g.Helper()
	for !p.done {
		p.step(inOrder)
	}
	return p.err
}

// wantUnits compares what the units are that somebody could buy.
func (g *payloadSale) wantUnits(s spec.Sale, want ...string) {
	g.Helper()
	g.audit()
	sale := g.actual().Sale
	shards, err := ledger.LoadShards(context.Background(), g.logs(nil), sale)
	if err != nil {
		g.Fatal(err)
	}
	r := payload.NewReader(g.logs(nil), sale.UID(), g.source(s).Key())
	r.Follow(sale.Added())
	var got []string
	for _, shard := range shards {
		for _, run := range shard.AvailableUnits() {
			for unit := run.First; unit < run.First+run.Count; unit++ {
				p, err := r.Read(context.Background(), []int64{unit})
				if err != nil {
					g.Fatal(err)
				}
				got = append(got, p[0].Values[0])
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		g.Errorf("for sale are %v, not %v", got, want)
	}
}

// codes names units A01, A02, ...
func codes(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("A%02d", i+1))
	}
	return all
}

// killed carries out a plan up to its kill-th call; false if it succeeded before.
func (g *payloadSale) killed(p *process, kill int, how fate) bool {
	g.Helper()
	stopped := g.stopped(p, kill, how)
	if p.err != nil {
		g.Fatalf("before call %d: %v", kill, p.err)
	}
	return stopped
}

// stopped is killed for a plan that may fail; false if it ended before.
func (g *payloadSale) stopped(p *process, kill int, how fate) bool {
	for calls := 1; !p.done; p.step(inOrder) {
		if len(p.queue) == 0 {
			continue
		}
		if calls == kill {
			switch k := p.next(0); how {
			case served:
				p.perform(k)
			case delayed:
				g.late = append(g.late, func() { p.perform(k) })
			}
			return true
		}
		calls++
	}
	return false
}

// An apply that is killed anywhere is completed by the same plan, and each unit has the
// payload of its line: of a new sale, and of one whose lines go and come.
func TestKilledWhileUnitsAreStored(t *testing.T) {
	for _, how := range []fate{served, dropped, delayed} {
		t.Run(how.String(), func(t *testing.T) {
			for kill, more := 1, true; more; kill++ {
				g := newPayloadSale(t, true)
				g.slots = 4 // units in each
				more = false
				for _, want := range [][]string{codes(10), append(codes(12)[3:7], codes(15)[9:]...)} {
					s := g.declare(want...)
					p, is := g.plan(s)
					more = g.killed(g.begin(p, s, is), kill, how) || more
					g.mustCarryOut(p, s, g.payloads(g.read(s)))
					g.land()
					g.wantUnits(s, want...)
					if p, _ := g.plan(s); !p.Empty() {
						t.Fatalf("killed at call %d: there still is to do: %+v", kill, p.Actions)
					}
				}
			}
		})
	}
}

// What a file says when its units are stored is what it said when the plan was made, or
// nothing is stored: neither is the plan carried out, nor does the same plan, carried out when
// the file is as it was again, sell what it said in between.
func TestUnitsChangedWhileTheyAreStored(t *testing.T) {
	for _, how := range []fate{served, dropped, delayed} {
		t.Run(how.String(), func(t *testing.T) {
			for kill, more := 1, true; more; kill++ {
				g := newPayloadSale(t, true)
				g.slots = 4
				was := codes(12) // the last slot is full
				s := g.declare(was...)
				p, is := g.plan(s)
				altered := codes(12)
				altered[11] = "B12"
				g.declare(altered...)
				proc := g.begin(p, s, is)
				more = g.stopped(proc, kill, how)
				if !more && (proc.err == nil || !strings.Contains(proc.err.Error(), "the file changed")) {
					t.Fatalf("the file has changed since the plan was made, and the plan is carried out: %v", proc.err)
				}
				g.declare(was...)
				g.mustCarryOut(p, s, g.payloads(g.read(s)))
				g.land()
				g.wantUnits(s, was...)
			}
		})
	}
}

// Two carry out the same plan at once, a third another one that they overtake: what that has
// stored is nobody's.
func TestUnitsStoredBySeveral(t *testing.T) {
	for seed := range uint64(40) {
		g := newPayloadSale(t, true)
		g.slots = 3
		mine, other := codes(10), []string{"B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8"}
		s := g.declare(mine...)
		p, first := g.plan(s)
		_, second := g.plan(s)
		processes := []*process{g.begin(p, s, first), g.begin(p, s, second)}
		g.path += ".other"
		overtaken := g.declare(other...)
		o, third := g.plan(overtaken)
		processes = append(processes, g.begin(o, overtaken, third))
		choose := rand.New(rand.NewPCG(seed, 0))
		for {
			alive := slices.DeleteFunc(slices.Clone(processes), func(p *process) bool { return p.done })
			if len(alive) == 0 {
				break
			}
			alive[choose.IntN(len(alive))].step(choose.IntN)
		}
		won := 0
		for _, p := range processes {
			switch {
			case p.err == nil:
				won++
			case !errors.Is(p.err, planner.ErrStale):
				t.Fatalf("seed %d: %v", seed, p.err)
			}
		}
		if processes[2].err == nil {
			s, mine = overtaken, other
		}
		if won == 0 {
			t.Fatalf("seed %d: no plan was carried out", seed)
		}
		g.wantUnits(s, mine...)
	}
}

// What a file says now is held against what the plan was made of.
func TestUnitsChangedSincePlanned(t *testing.T) {
	g := newPayloadSale(t, false)
	s := g.declare("A", "B", "C")
	p, _ := g.plan(s)
	changed := g.declare("A", "B", "D")
	g.world.units = g.payloads(g.read(changed))
	if _, err := newExecution(g.config().terms(), p, nil, false); !errors.Is(err, planner.ErrStale) {
		t.Errorf("a saved plan takes other units: %v", err)
	}
	g.world.units = nil
	if _, err := newExecution(g.config().terms(), p, nil, false); err == nil {
		t.Error("a plan is carried out, and nobody says what its units are")
	}
	if _, err := planner.Make(s, g.actual()); err == nil {
		t.Error("a plan is made, and nobody has read what the units are")
	}
}

// Lines that are gone take their units out of the sale, unless somebody has them.
func TestUnitsOfALiveSale(t *testing.T) {
	g := newPayloadSale(t, true)
	apply := func(codes ...string) {
		t.Helper()
		s := g.declare(codes...)
		p, is := g.plan(s)
		g.mustCarryOut(p, s, is)
	}
	apply(codes(9)...)
	g.owner(0).claim(1) // unit 1, A01
	apply(codes(12)[:8]...)
	s := g.declare(append([]string{"A01"}, codes(12)[4:]...)...)
	p, is := g.plan(s)
	text := ""
	for _, a := range p.Actions {
		text += fmt.Sprintln(a.Address, a.Reason, a.After.Units)
	}
	for _, want := range []string{"shard/0 withdraws 2 units, new units", "shard/1 withdraws 1 unit"} {
		if !strings.Contains(text, want) {
			t.Errorf("the plan says\n%swithout %q", text, want)
		}
	}
	g.mustCarryOut(p, s, is)
	g.wantUnits(s, codes(12)[4:]...)
	s = g.declare(codes(12)[4:]...)
	_, err := planner.Make(s, g.read(s))
	var refused *planner.Refusal
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, ": 1") {
		t.Errorf("a unit that somebody has goes: %v", err)
	}
}

// A unit that falls to a buyer while its line goes stays the buyer's, and apply says so.
func TestUnitSoldWhileItsLineGoes(t *testing.T) {
	g := newPayloadSale(t, true)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	s = g.declare(codes(9)[1:]...)
	p, is = g.plan(s)
	g.owner(0).claim(1)
	proc := g.begin(p, s, is)
	if err := g.end(proc); err != nil || proc.x.result.Shortfall != 1 {
		t.Errorf("%v, short of %d", err, proc.x.result.Shortfall)
	}
	g.wantUnits(s, codes(9)[1:]...)
}

// A refund takes a secret out of the sale, and its line may stay.
func TestPlanAfterARefundedSecret(t *testing.T) {
	g := newPayloadSale(t, true)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	o := g.owner(0)
	o.claim(1)
	if err := o.append(func(d *ledger.Draft) { d.Refund(o.state.Claim(0), "ops", "", false) }); err != nil {
		t.Fatal(err)
	}
	if p, _ := g.plan(s); !p.Empty() {
		t.Errorf("there is to do: %+v", p.Actions)
	}
	g.wantUnits(s, codes(9)[1:]...)
}

// A unit that was to go and was sold goes when its claim is refunded, also where a refund has
// taken another one out of the sale: so many units as are declared need not be those.
func TestUnitGoesAfterItsRefund(t *testing.T) {
	g := newPayloadSale(t, false)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	s = g.declare(codes(9)[1:]...)
	p, is = g.plan(s)
	o := g.owner(0)
	o.claim(1) // unit 1, A01
	g.mustCarryOut(p, s, is)
	o = g.owner(0)
	o.claim(1) // unit 2, A02
	refund := func(claim int, retire bool) {
		t.Helper()
		if err := o.append(func(d *ledger.Draft) { d.Refund(o.state.Claim(claim), "ops", "", retire) }); err != nil {
			t.Fatal(err)
		}
	}
	refund(1, true)
	p, _ = g.plan(s)
	if !p.Empty() || !strings.Contains(fmt.Sprint(p.Warnings), "that are no longer declared are claimed or in transfer: 1]") {
		t.Errorf("with a unit that was to go and is sold there is to do %+v, with the warnings %q", p.Actions, p.Warnings)
	}
	refund(0, false)
	if p, is = g.plan(s); p.Empty() {
		t.Fatal("a unit is for sale that is not declared, and stays")
	}
	g.mustCarryOut(p, s, is)
	g.wantUnits(s, codes(9)[2:]...)
	if p, _ := g.plan(s); !p.Empty() || len(p.Warnings) > 0 {
		t.Errorf("there still is to do: %+v, %q", p.Actions, p.Warnings)
	}
}

// A unit that a refund has taken out of the sale is nobody's, and its line may go.
func TestLineOfARefundedSecretGoes(t *testing.T) {
	g := newPayloadSale(t, true)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	o := g.owner(0)
	o.claim(1)
	if err := o.append(func(d *ledger.Draft) { d.Refund(o.state.Claim(0), "ops", "", false) }); err != nil {
		t.Fatal(err)
	}
	s = g.declare(codes(9)[1:]...)
	p, is = g.plan(s)
	g.mustCarryOut(p, s, is)
	g.wantUnits(s, codes(9)[1:]...)
	if p, _ := g.plan(s); !p.Empty() || len(p.Warnings) > 0 {
		t.Errorf("there still is to do: %+v, %q", p.Actions, p.Warnings)
	}
}

// An audit misses what units are that a plan has added.
func TestAuditOfUnits(t *testing.T) {
	g := newPayloadSale(t, true)
	g.slots = 4
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	g.audit()
	s = g.declare(codes(12)...)
	p, is = g.plan(s)
	g.mustCarryOut(p, s, is)
	g.audit()
	log := spec.UnitsLog(g.actual().Sale.UID())
	if err := g.store.Handle(nil).Delete(t.Context(), log, 99); err != nil {
		t.Fatal(err)
	}
	a, err := audit.Run(t.Context(), g.store.Handle(nil), "tickets", ledger.NewState, nil)
	if err != nil || a.OK || len(a.Problems) != 2 || !strings.Contains(a.Problems[0], "units [1-9] are in the sale, but their payloads are not stored") {
		t.Errorf("the log of units is gone: %+v, %v", a, err)
	}
}

// What units are goes with the sale, also where the destroy is killed at any call.
func TestDestroyUnits(t *testing.T) {
	for kill, more := 1, true; more; kill++ {
		g := newPayloadSale(t, true)
		s := g.declare(codes(9)...)
		p, is := g.plan(s)
		g.mustCarryOut(p, s, is)
		uid := g.actual().Sale.UID()
		more = g.killed(g.begin(g.planDestroy(), s, nil), kill, served)
		if err := g.end(g.begin(g.planDestroy(), s, nil)); err != nil {
			t.Fatalf("killed at call %d: %v", kill, err)
		}
		g.wantNothingLeft(uid)
		head, entries, err := g.store.Handle(nil).Read(context.Background(), spec.UnitsLog(uid), 0, 10)
		if head != nil || len(entries) > 0 || err != nil {
			t.Fatalf("killed at call %d: the units' log is there: %s, %d entries, %v", kill, head, len(entries), err)
		}
	}
}

func TestDestroyWithoutTheKey(t *testing.T) {
	g := newPayloadSale(t, true)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	if _, err := newExecution(g.config().terms(), g.planDestroy(), nil, false); err == nil || !strings.Contains(err.Error(), "provide the key") {
		t.Errorf("a sale is destroyed whose export can tell nothing: %v", err)
	}
}

// The wrong key is heard of before anything of the sale has changed; so is none, of a sale that
// is closed already.
func TestDestroyWithTheWrongKey(t *testing.T) {
	g := newPayloadSale(t, true)
	s := g.declare(codes(9)...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	g.owner(0).claim(1)
	wrong, err := units.ForSale(s, func(string) (string, bool) {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("w", 32))), true
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := g.running()
	refused := func(want string) {
		t.Helper()
		before := g.actual().Sale.Root()
		path := filepath.Join(t.TempDir(), "export.ndjson")
		if _, err := Destroy(t.Context(), cfg, g.planDestroy(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a sale is destroyed whose export can tell nothing: %v", err)
		}
		if g.actual().Sale.Root() != before {
			t.Error("the sale's log has changed")
		}
	}
	cfg.Key = wrong.Key()
	refused("it is encrypted with key")
	closing, err := planner.MakePhase(g.actual(), pb.Phase_CLOSED)
	if err != nil {
		t.Fatal(err)
	}
	g.mustCarryOut(closing, s, nil)
	cfg.Key = nil
	refused("no key is given")
	cfg.Key = g.source(s).Key()
	if _, err := Destroy(t.Context(), cfg, g.planDestroy(), filepath.Join(t.TempDir(), "export.ndjson")); err != nil {
		t.Error(err)
	}
}

func TestUnitsThatStayWhatTheyAre(t *testing.T) {
	for name, change := range map[string]func(*spec.Sale){
		"numbers again":  func(s *spec.Sale) { s.Units = nil },
		"secret":         func(s *spec.Sale) { s.Units.Secret, s.Units.KeyEnv = true, "KEY" },
		"to choose from": func(s *spec.Sale) { s.Units.Choose = true },
	} {
		t.Run(name, func(t *testing.T) {
			g := newPayloadSale(t, false)
			s := g.declare("A", "B", "C")
			p, is := g.plan(s)
			g.mustCarryOut(p, s, is)
			change(&s)
			var refused *planner.Refusal
			if _, err := planner.Make(s, g.read(s)); !errors.As(err, &refused) {
				t.Errorf("it was planned: %v", err)
			}
		})
	}
}

// Units lie side by side that are declared one behind the other, in one range or in one row
// of a file; those that come later lie beside none that was there.
func TestRowsOfUnits(t *testing.T) {
	rows := func(p *planner.Plan) (text string) {
		planned, err := p.Intent()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range planned.GetSettings().GetRows() {
			text += fmt.Sprintf("%d+%d ", r.GetFirst(), r.GetCount())
		}
		return text
	}
	g := newPayloadSale(t, false)
	ranges := func(stock int64, ranges ...string) spec.Sale {
		return with(tickets(stock), func(s *spec.Sale) { s.Units = &spec.Units{Ranges: ranges, Choose: true} })
	}
	for _, step := range []struct {
		sale spec.Sale
		want string
	}{
		{ranges(7, "A1-A4", "VIP", "B1-B2"), "1+4 5+1 6+2 "},
		{ranges(9, "A2-A5", "VIP", "B0-B3"), "1+4 5+1 6+2 8+1 9+1 10+1 "},
		{ranges(12, "A2-A5", "VIP", "B0-B3", "C1-C3"), "1+4 5+1 6+2 8+1 9+1 10+1 11+3 "},
	} {
		p, is := g.plan(step.sale)
		if got := rows(p); got != step.want {
			t.Errorf("the rows are %s, not %s", got, step.want)
		}
		g.mustCarryOut(p, step.sale, is)
		if p, _ := g.plan(step.sale); !p.Empty() {
			t.Errorf("there still is to do: %+v", p.Actions)
		}
	}

	g = newPayloadSale(t, false)
	s := g.declare("A", "B", "C")
	s.Units.Choose = true
	if err := os.WriteFile(g.path, []byte("seat,row\nA,1\nB,1\nC,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Units.Column = "seat"
	if p, _ := g.plan(s); rows(p) != "1+2 3+1 " {
		t.Errorf("the rows of a file are %s", rows(p))
	}
}

// Rows are counted with those that earlier plans have added: no shard takes more of them.
func TestTooManyRows(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores the largest payloads")
	}
	g := newPayloadSale(t, false)
	declare := func(n int) spec.Sale {
		var names, lines []string
		for i := range n {
			names = append(names, fmt.Sprintf("S%05d", i))
			lines = append(lines, fmt.Sprintf("S%05d,%d", i, i%2))
		}
		s := g.declare(names...)
		s.Units.Choose, s.Units.Column = true, "seat"
		if err := os.WriteFile(g.path, []byte("seat,row\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := declare(ledger.MaxRows)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	s = declare(ledger.MaxRows + 1)
	if _, err := planner.Make(s, g.read(s)); !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), "rows") {
		t.Errorf("one row more is planned: %v", err)
	}
}

// killWhenTaken carries a plan out until as many shards have taken its generation.
func (g *payloadSale) killWhenTaken(killed *process, generation uint64, shards int) {
	for have := 0; have < shards || g.actual().Sale.Generation() < generation; killed.step(inOrder) {
		have = 0
		for _, shard := range g.actual().Shards {
			if shard.Head.Generation == generation {
				have++
			}
		}
	}
}

// Units that an apply which was killed takes out of the sale stay if they are declared again,
// by whichever shard has not taken that yet, and no name comes twice.
func TestUnitsThatWereToGoStay(t *testing.T) {
	for shards := range 4 {
		g := newPayloadSale(t, true)
		s := g.declare(codes(9)...)
		p, is := g.plan(s)
		g.mustCarryOut(p, s, is)
		less := g.declare("A02", "A05", "A09")
		p, is = g.plan(less)
		g.killWhenTaken(g.begin(p, less, is), 2, shards)
		if shards == 0 {
			g.owner(0).claim(1) // A01, which was to go
		}
		again := append(codes(9), "B01")
		s = g.declare(again...)
		p, is = g.plan(s)
		if shards == 0 && !strings.Contains(fmt.Sprint(p.Actions), "2 units restored") {
			t.Errorf("the plan does not say that units stay: %+v", p.Actions)
		}
		g.mustCarryOut(p, s, is)
		if shards == 0 {
			again = again[1:]
		}
		g.wantUnits(s, again...)
		if p, _ := g.plan(s); !p.Empty() {
			t.Errorf("there still is to do: %+v", p.Actions)
		}
	}
}

// What a killed apply has planned to bring back is there for the next one, which does not add
// it once more: also where a shard has given it up by now, and has not got it back yet.
func TestUnitsThatAreToComeBack(t *testing.T) {
	g := newPayloadSale(t, true)
	all := codes(9)
	s := g.declare(all...)
	p, is := g.plan(s)
	g.mustCarryOut(p, s, is)
	less := g.declare(all[:3]...)
	p, is = g.plan(less)
	g.killWhenTaken(g.begin(p, less, is), 2, 0)
	s = g.declare(all...)
	p, is = g.plan(s)
	g.killWhenTaken(g.begin(p, s, is), 2, 1)
	if newest := g.actual().Sale.Generation(); newest != 3 {
		t.Fatalf("generation %d is the newest when a shard has taken the second", newest)
	}
	more := append(codes(9), "B01")
	s = g.declare(more...)
	p, is = g.plan(s)
	if g.read(s).Units.Added != 1 {
		t.Errorf("%d units are to be added, want B01 alone", g.read(s).Units.Added)
	}
	g.mustCarryOut(p, s, is)
	g.wantUnits(s, more...)
	if p, _ := g.plan(s); !p.Empty() {
		t.Errorf("there still is to do: %+v", p.Actions)
	}
}
