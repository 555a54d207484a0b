package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/spec"
)

// check saves a plan, reads it and checks it.
func (w *world) check(p *planner.Plan, desired spec.Sale) (*planner.Plan, error) {
	w.Helper()
	encoded, err := p.Encode()
	if err != nil {
		w.Fatal(err)
	}
	if p, err = decodeOne(encoded); err != nil {
		return nil, err
	}
	actual := w.actual()
	return p.Check(desired, actual, func() (*planner.Plan, error) {
		if p.Kind == planner.KindDestroy {
			return planner.MakeDestroy(actual)
		}
		return planner.Make(desired, actual)
	})
}

// mustCheck is check of a plan that has to pass.
func (w *world) mustCheck(p *planner.Plan, desired spec.Sale) *planner.Plan {
	w.Helper()
	checked, err := w.check(p, desired)
	if err != nil {
		w.Fatal(err)
	}
	return checked
}

// forgeries calls each with every value that differs from a JSON value in one place: a
// number is another, a text, an element or a member is another, missing or there twice.
func forgeries(value any, each func(where string, forged any)) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			with := func(where string, forged any) {
				other := maps.Clone(v)
				other[key] = forged
				each("."+key+where, other)
			}
			forgeries(v[key], with)
			without := maps.Clone(v)
			delete(without, key)
			each("."+key+" left out", without)
		}
	case []any:
		for i := range v {
			forgeries(v[i], func(where string, forged any) {
				other := slices.Clone(v)
				other[i] = forged
				each(fmt.Sprintf("[%d]%s", i, where), other)
			})
			each(fmt.Sprintf("[%d] left out", i), slices.Delete(slices.Clone(v), i, i+1))
			each(fmt.Sprintf("[%d] twice", i), slices.Insert(slices.Clone(v), i, v[i]))
			each(fmt.Sprintf("[%d] and [0] exchanged", i), exchanged(v, i))
		}
		each(" emptied", []any{})
	case string:
		others := []string{"", "x", v + "x", "AAAA", "3"}
		for _, words := range [][]string{
			{"apply", "destroy", "phase", "reveal"}, {"OPEN", "PAUSED", "CLOSED"}, {"refuse", "resell"},
			{"", ledger.PhaseOpen, ledger.PhasePaused, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed},
		} {
			if slices.Contains(words, v) {
				others = append(others, words...)
			}
		}
		for _, other := range others {
			if other != v {
				each(fmt.Sprintf(" = %q", other), other)
			}
		}
		if len(v) > 0 {
			each(" with another first byte", string(v[0]^1)+v[1:])
		}
	case float64:
		for _, other := range []float64{0, v + 1, v - 1, 1000} {
			each(fmt.Sprintf(" = %v", other), other)
		}
	case bool:
		each(" negated", !v)
	case nil:
		for _, other := range []any{map[string]any{}, []any{}, true, 1.0, "x"} {
			each(fmt.Sprintf(" = %v", other), other)
		}
	}
}

func exchanged(v []any, i int) []any {
	other := slices.Clone(v)
	other[0], other[i] = other[i], other[0]
	return other
}

// forgedPlans calls each with every plan that differs from p in one place of its JSON, of what it
// appends, or of the declaration in that, and that has the digest which its file needs.
func forgedPlans(t *testing.T, p *planner.Plan, each func(where string, forged *planner.Plan)) {
	t.Helper()
	whole := func(where string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		forged := new(planner.Plan)
		if json.Unmarshal(text, forged) != nil {
			return // of another type: no such file can be read
		}
		if forged.Digest, err = planDigest(forged); err != nil {
			t.Fatal(err)
		}
		each(where, forged)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[planner.Plan]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && fields[name] == nil {
			fields[name] = nil
		}
	}
	forgeries(fields, whole)
	planned, err := p.Intent()
	if err != nil || planned == nil {
		return
	}
	appends := func(where string, forged *pb.Planned) {
		payload, err := proto.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		other := maps.Clone(fields)
		other["payload"] = payload
		whole(where, other)
	}
	if text, err = (protojson.MarshalOptions{EmitUnpopulated: true}).Marshal(planned); err != nil {
		t.Fatal(err)
	}
	var payload map[string]any
	if err := json.Unmarshal(text, &payload); err != nil {
		t.Fatal(err)
	}
	forgeries(payload, func(where string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		forged := new(pb.Planned)
		if protojson.Unmarshal(text, forged) == nil {
			appends(".payload"+where, forged)
		}
	})
	var declaration map[string]any
	if err := json.Unmarshal(planned.GetSpec(), &declaration); err != nil {
		t.Fatal(err)
	}
	forgeries(declaration, func(where string, value any) {
		forged := proto.CloneOf(planned)
		if forged.Spec, err = json.Marshal(value); err != nil {
			t.Fatal(err)
		}
		appends(".payload.spec"+where, forged)
	})
}

// Whatever of a saved plan is forged, it is refused, or what is carried out is what the plan that
// was made would do.
func TestForgedPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("it alters each value of many plans")
	}
	rich := with(tickets(10), func(s *spec.Sale) {
		s.OpensAt, s.ClosesAt, s.Payment, s.PerUserLimit = epoch.Add(-time.Hour), epoch.Add(time.Hour), paid(), 2
	})
	for name, test := range map[string]struct {
		before  func(*world)
		desired spec.Sale
		destroy bool
	}{
		"create":           {func(*world) {}, rich, false},
		"create run 2":     {func(w *world) { w.mustApply(rich); w.mustDestroy() }, run(rich, 2), false},
		"more units":       {func(w *world) { w.mustApply(rich) }, with(rich, func(s *spec.Sale) { s.Stock = 13 }), false},
		"fewer units":      {func(w *world) { w.mustApply(rich) }, with(rich, func(s *spec.Sale) { s.Stock = 7 }), false},
		"nothing":          {func(w *world) { w.mustApply(rich) }, rich, false},
		"complete":         {func(w *world) { w.runUntil(w.mustPlan(rich), 1) }, rich, false},
		"destroy":          {func(w *world) { w.mustApply(rich) }, rich, true},
		"destroy a closed": {func(w *world) { w.mustApply(rich); w.mustPhase(pb.Phase_CLOSED) }, rich, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.before(w)
			plan := w.planDestroy
			if !test.destroy {
				plan = func() *planner.Plan { return w.mustPlan(test.desired) }
			}
			p := plan()
			bare := func(p *planner.Plan) string {
				copied := *p
				copied.Digest = [32]byte{} // by which the sale's log names it, and which decides nothing
				text, err := copied.Encode()
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			if checked := w.mustCheck(p, test.desired); checked.Digest != p.Digest || bare(checked) != bare(p) {
				t.Fatalf("the plan is not carried out as it was made: %s\nbut\n%s", bare(p), bare(checked))
			}
			refused, same := 0, 0
			forgedPlans(t, p, func(where string, forged *planner.Plan) {
				switch checked, err := w.check(forged, test.desired); {
				case err == nil && p.Generation == 1 && strings.HasPrefix(where, ".payload.") && bare(forged) != bare(p):
					t.Errorf("%s is not refused", where)
				case err == nil && (checked.Empty() || bare(checked) == bare(p)):
					same++
				case err == nil:
					t.Errorf("%s: what is carried out differs: %s", where, bare(checked))
				case errors.Is(err, planner.ErrStale), errors.Is(err, planner.ErrBadPlan), errors.Is(err, planner.ErrRefused):
					refused++
				default:
					t.Errorf("%s: error %v", where, err)
				}
			})
			t.Logf("%d forgeries refused, %d without effect", refused, same)
			if refused < 30 {
				t.Errorf("only %d forgeries were refused", refused)
			}
		})
	}
}

// A refusal names what differs.
func TestForgedPlanIsNamed(t *testing.T) {
	w := newWorld(t)
	desired := tickets(10)
	for name, test := range map[string]struct {
		forge func(*planner.Plan, *pb.Planned)
		want  string
	}{
		"the same units twice": {
			func(_ *planner.Plan, p *pb.Planned) { p.Shards[1].Add = p.Shards[0].Add },
			"shards[1] is add:{first:5 count:3} and not add:{first:1 count:4}",
		},
		"a limit":   {func(_ *planner.Plan, p *pb.Planned) { p.Settings.PerUserLimit = 9 }, "settings.perUserLimit is 2 and not 9"},
		"a uid":     {func(_ *planner.Plan, p *pb.Planned) { p.Uid = workUID }, " and not " + workUID},
		"next unit": {func(_ *planner.Plan, p *pb.Planned) { p.NextUnit = 1 }, "nextUnit is 11 and not 1"},
		"a phase":   {func(_ *planner.Plan, p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED }, "settings.phase is OPEN and not CLOSED"},
		"a beacon":  {func(p *planner.Plan, _ *pb.Planned) { p.Beacon = []byte{7} }, "beacon is none and not 07"},
		"a kind":    {func(p *planner.Plan, _ *pb.Planned) { p.Kind = planner.KindReveal }, "of kind reveal, and only plans to apply and to destroy are saved"},
		"a stock": {
			func(_ *planner.Plan, p *pb.Planned) { p.Spec = specOf(t, tickets(11)) },
			"the sale has another declaration in its file than in the plan, stock; make a new plan",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := w.mustPlan(desired)
			planned, err := plan.Intent()
			if err != nil {
				t.Fatal(err)
			}
			test.forge(plan, planned)
			seal(t, plan, planned)
			_, err = w.check(plan, desired)
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "  ", " "), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

// What the ledger protects is not ended by a plan that was saved before.
func TestSavedPlanOfAProtectedSale(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	end := w.planDestroy()
	protect := with(tickets(10), func(s *spec.Sale) { s.Protect = true })
	w.mustApply(protect)
	made := w.actual()
	forged := planOf(t, planner.KindDestroy, made, next(made.Sale, pb.Phase_CLOSED))
	if _, err := w.check(forged, protect); !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), "is protected: it is not destroyed") {
		t.Errorf("a forged destroy: %v", err)
	}
	if _, err := w.check(end, protect); !errors.Is(err, planner.ErrStale) {
		t.Errorf("a destroy from before: %v", err)
	}
}

// Claims and transfers between plan and apply decide which shards give units back, and make no
// plan stale as long as the number of units is the same.
func TestSavedPlanBesideClaims(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(12))
	fewer := w.mustPlan(tickets(9))
	w.owner(0).claim(4)
	p := w.mustCheck(fewer, tickets(9))
	if want := "~sale/tickets stock 12>9; ~shard/1 limit 4>3; ~shard/2 limit 4>2"; brief(p) != want {
		t.Errorf("the plan is %s, want %s", brief(p), want)
	}
	for range 2 { // of the second time nothing is left to do
		if err := w.run(p); err != nil {
			t.Fatal(err)
		}
		w.wantStock(9)
		p = w.mustCheck(fewer, tickets(9))
	}
	if !p.Empty() {
		t.Errorf("once it is applied it still plans %s", brief(p))
	}
}

// A plan that was read is carried out by nobody who has not checked it.
func TestUncheckedPlan(t *testing.T) {
	w := newWorld(t)
	text, err := w.mustPlan(tickets(10)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodeOne(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), w.config(), p); !errors.Is(err, planner.ErrBadPlan) {
		t.Errorf("error %v", err)
	}
}

// No nonce gives two runs the same uid, and each run has its own.
func TestRunUID(t *testing.T) {
	w := newWorld(t)
	uids := make(map[string]bool)
	for _, change := range []func(*planner.Actual, *spec.Sale){
		func(*planner.Actual, *spec.Sale) {},
		func(a *planner.Actual, _ *spec.Sale) { a.Nonce += "x" },
		func(a *planner.Actual, _ *spec.Sale) { a.Name += "x" },
		func(_ *planner.Actual, s *spec.Sale) { s.Stock++ },
	} {
		actual, s := w.actual(), tickets(10)
		actual.Nonce = "nonce"
		change(actual, &s)
		p, err := planner.Make(s, actual)
		if err != nil {
			t.Fatal(err)
		}
		uids[p.UID] = true
	}
	w.mustApply(tickets(10))
	w.mustDestroy()
	actual := w.actual()
	actual.Nonce = "nonce"
	p, err := planner.Make(run(tickets(10), 2), actual)
	if err != nil {
		t.Fatal(err)
	}
	if uids[p.UID] = true; len(uids) != 5 {
		t.Errorf("the uids are %v", uids)
	}
}
