package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/planner"
	"salectl/spec"
	"salectl/units"
)

func drawKeyOf(t testing.TB, letter string) *units.Key {
	t.Helper()
	key, err := units.NewDrawKey([]byte(strings.Repeat(letter, units.MinSecret)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// aDraw is a sale that is drawn an hour after the epoch.
func aDraw(stock int64, beacon *spec.Beacon) spec.Sale {
	return with(tickets(stock), func(s *spec.Sale) {
		s.PerUserLimit, s.ClosesAt = 1, epoch.Add(time.Hour)
		s.Queue = &spec.Queue{Order: spec.OrderDraw, Depth: spec.DefaultDepth}
		s.Draw = &spec.Draw{KeyEnv: "DRAW_KEY", Substitutes: stock / 2, Beacon: beacon}
	})
}

var aBeacon = &spec.Beacon{Name: "drand", Round: "7", Fallback: spec.FallbackNone}

// newDraw returns a world with a draw that has entries on all shards and has closed.
func newDraw(t testing.TB, beacon *spec.Beacon) *world {
	t.Helper()
	w := newWorld(t)
	w.drawKey = drawKeyOf(t, "k")
	w.mustApply(aDraw(10, beacon))
	for shard := range w.actual().Sale.Shards() {
		o := w.owner(shard)
		for i, entered := 0, 0; entered < 6+shard; i++ {
			user := fmt.Sprint("entrant-", i)
			if spec.HomeShard(user, o.sale.Shards()) != shard {
				continue
			}
			entered++
			if err := o.append(func(d *ledger.Draft) {
				if v := d.Claim(user, "key", 1); v.Kind != ledger.Granted {
					t.Fatalf("decision %d", v.Kind)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.pass(time.Hour)
	return w
}

func (w *world) mustReveal(beacon []byte) *planner.Plan {
	w.Helper()
	plan, err := planner.MakeReveal(w.actual(), beacon, false)
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

// wantDrawn checks that what is published is what commitment and entries imply, and returns
// the ranks.
func (w *world) wantDrawn(beacon []byte) []ledger.Rank {
	w.Helper()
	sale := w.actual().Sale
	if !sale.Ranked() || !bytes.Equal(sale.Drawn().GetBeacon(), beacon) {
		w.Fatalf("the draw is not complete: %v", sale.Drawn())
	}
	var to bytes.Buffer
	shards, err := ledger.LoadShards(context.Background(), w.store.Handle(nil), sale)
	if err == nil {
		err = export.Sale{Name: "tickets", Log: sale, Shards: shards, Logs: w.store.Handle(nil)}.Write(context.Background(), &to)
	}
	if err != nil {
		w.Fatal(err)
	}
	r, err := draw.Verify(&to, draw.Options{})
	if err != nil || !r.OK || !r.Revealed || r.Entries != 21 || len(sale.Ranks()) != 15 {
		w.Fatalf("%d ranks: %v, %+v", len(sale.Ranks()), err, r)
	}
	return sale.Ranks()
}

func TestReveal(t *testing.T) {
	w := newDraw(t, aBeacon)
	if d := w.actual().Sale.Draw(); len(d.GetCommitment()) != 32 || d.GetKey() != w.drawKey.ID() || len(d.GetSealed()) < draw.SecretLen {
		t.Fatalf("what is committed to is %v", d)
	}
	if err := w.run(w.mustReveal([]byte{1, 2})); err != nil {
		t.Fatal(err)
	}
	w.wantDrawn([]byte{1, 2})
	if again := w.mustReveal(nil); !again.Empty() {
		t.Errorf("then there still is to do: %+v", again.Actions)
	}
	if a := w.audit(); !a.OK || a.Draw == nil || a.Draw.Waiting != 10 {
		t.Errorf("audit: %+v", a)
	}
	sealed := w.actual().Sale.Draw().GetSealed()
	if link := w.actual().Sale.Drawn().GetLink(); bytes.Contains(sealed, link) {
		t.Error("the secret is not encrypted")
	}
}

// A reveal that is killed at any call, and run again, comes to one result: what is in the
// logs by then counts. So do the calls of the first that come late.
func TestRevealKilledAtEveryCall(t *testing.T) {
	for _, how := range []fate{served, dropped, delayed} {
		t.Run(how.String(), func(t *testing.T) {
			var want []ledger.Rank
			for kill := 1; ; kill++ {
				w := newDraw(t, aBeacon)
				killed := w.runKilled(w.mustReveal([]byte{1, 2}), kill, how)
				if kill%2 == 0 {
					w.land()
				}
				if again := w.mustReveal([]byte{1, 2}); !again.Empty() {
					if err := w.run(again); err != nil {
						t.Fatalf("after a kill at call %d: %v", kill, err)
					}
				}
				w.land()
				ranks := w.wantDrawn([]byte{1, 2})
				if want == nil {
					want = ranks
				}
				if fmt.Sprint(ranks) != fmt.Sprint(want) {
					t.Fatalf("after a kill at call %d the ranks are\n%v, not\n%v", kill, ranks, want)
				}
				if !killed {
					return
				}
			}
		})
	}
}

// Two reveal at once, with steps in any order, and owners close their shards meanwhile. The
// first value of the beacon that comes into the log counts.
func TestTwoReveal(t *testing.T) {
	for seed := range uint64(60) {
		choose := seeded(seed)
		w := newDraw(t, aBeacon)
		a, b := w.begin(w.mustReveal([]byte{1})), w.begin(w.mustReveal([]byte{2}))
		for !a.done || !b.done {
			if p := []*process{a, b}[choose(2)]; !p.done {
				p.step(choose)
			}
			if choose(10) == 0 {
				o := w.appender(choose(w.actual().Sale.Shards()))
				if o.state.MayCloseEntries(w.now.Wall.UnixMicro()) {
					_ = o.append(func(d *ledger.Draft) { d.Entries() }) // or another was faster
				}
			}
		}
		if a.err != nil || b.err != nil {
			t.Fatalf("seed %d: %v, %v", seed, a.err, b.err)
		}
		value := w.actual().Sale.Drawn().GetBeacon()
		w.wantDrawn(value)
		for i, p := range []*process{a, b} {
			if warned := len(p.x.result.Warnings) > 0; warned == bytes.Equal(value, []byte{byte(i + 1)}) {
				t.Errorf("seed %d: it was revealed by %x, and the one with %d is warned: %q", seed, value, i+1, p.x.result.Warnings)
			}
		}
	}
}

// The entries can be published before anything is revealed.
func TestCloseDraw(t *testing.T) {
	w := newDraw(t, aBeacon)
	plan, err := planner.MakeCloseDraw(w.actual())
	if err == nil {
		err = w.run(plan)
	}
	if sale := w.actual().Sale; err != nil || sale.EntriesClosed() == nil || sale.Drawn() != nil {
		t.Fatalf("%v: entries %v, revealed %v", err, sale.EntriesClosed(), sale.Drawn())
	}
	if plan, err := planner.MakeCloseDraw(w.actual()); err != nil || !plan.Empty() {
		t.Errorf("once more it is %+v, %v", plan, err)
	}
	if err := w.run(w.mustReveal([]byte{1})); err != nil {
		t.Fatal(err)
	}
	w.wantDrawn([]byte{1})
}

// A reveal of a run that is destroyed meanwhile is stale, at whichever step.
func TestRevealOfWhatIsDestroyed(t *testing.T) {
	for steps := 0; ; steps++ {
		w := newDraw(t, nil)
		p := w.begin(w.mustReveal(nil))
		for range steps {
			if !p.done {
				p.step(inOrder)
			}
		}
		ended := p.done
		w.mustDestroy()
		for !p.done {
			p.step(inOrder)
		}
		if ended && p.err != nil || !ended && !errors.Is(p.err, planner.ErrStale) {
			t.Fatalf("after %d steps: %v", steps, p.err)
		}
		if ended {
			return
		}
	}
}

func TestRevealRefused(t *testing.T) {
	fallback := *aBeacon
	fallback.Fallback = spec.FallbackSecret
	for name, test := range map[string]struct {
		world    func(*testing.T) *world
		beacon   []byte
		fallback bool
		want     string // "": it is planned
	}{
		"too soon": {func(t *testing.T) *world {
			w := newWorld(t)
			w.drawKey = drawKeyOf(t, "k")
			w.mustApply(aDraw(10, nil))
			return w
		}, nil, false, "takes entries until 2026-11-11T13:00:00Z"},
		"no draw": {func(t *testing.T) *world { w := newWorld(t); w.mustApply(tickets(10)); return w }, nil, false, "is no draw"},
		"no sale": {func(t *testing.T) *world { return newWorld(t) }, nil, false, "does not exist"},
		"closed by hand": {func(t *testing.T) *world {
			w := newWorld(t)
			w.drawKey = drawKeyOf(t, "k")
			w.mustApply(aDraw(10, nil))
			w.mustPhase(pb.Phase_CLOSED)
			return w
		}, nil, false, ""},
		"no value":                 {func(t *testing.T) *world { return newDraw(t, aBeacon) }, nil, false, "whose value was not given"},
		"no value, and a fallback": {func(t *testing.T) *world { return newDraw(t, &fallback) }, nil, true, ""},
		"no value, and nobody says that there is none": {func(t *testing.T) *world { return newDraw(t, &fallback) }, nil, false, "whose value was not given"},
		"no fallback":             {func(t *testing.T) *world { return newDraw(t, aBeacon) }, nil, true, "declares no fallback"},
		"a fallback of no beacon": {func(t *testing.T) *world { return newDraw(t, nil) }, nil, true, "declares no beacon"},
		"a stock that is not lowered everywhere": {func(t *testing.T) *world {
			w := newWorld(t)
			w.drawKey = drawKeyOf(t, "k")
			w.mustApply(aDraw(10, nil))
			lower := aDraw(10, nil)
			lower.Stock = 9
			plan, err := planner.Make(lower, w.actual())
			if err != nil {
				t.Fatal(err)
			}
			for p := w.begin(plan); w.actual().Sale.Generation() < 2; {
				p.step(inOrder)
			}
			w.pass(time.Hour)
			return w
		}, nil, false, "has not reached every shard yet"},
		"a value of no beacon": {func(t *testing.T) *world { return newDraw(t, nil) }, []byte{1}, false, "declares no beacon"},
		"another value": {func(t *testing.T) *world {
			w := newDraw(t, aBeacon)
			if err := w.run(w.mustReveal([]byte{1})); err != nil {
				t.Fatal(err)
			}
			return w
		}, []byte{2}, false, "revealed already, with the beacon's value 01"},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.world(t)
			plan, err := planner.MakeReveal(w.actual(), test.beacon, test.fallback)
			var no *planner.Refusal
			if test.want != "" {
				if !errors.As(err, &no) || !strings.Contains(no.Reason, test.want) {
					t.Fatalf("got %v, want %s", err, test.want)
				}
				return
			}
			if err == nil {
				err = w.run(plan)
			}
			if err != nil || !w.actual().Sale.Ranked() {
				t.Error(err)
			}
		})
	}
	w := newDraw(t, nil)
	w.drawKey = drawKeyOf(t, "x")
	if err := w.run(w.mustReveal(nil)); err == nil || !strings.Contains(err.Error(), "another key was given") {
		t.Errorf("with another key: %v", err)
	}
	if w.actual().Sale.Drawn() != nil || w.actual().Sale.EntriesClosed() != nil {
		t.Error("with another key something was published")
	}
	w = newWorld(t)
	if err := w.run(w.mustPlan(aDraw(10, nil))); err == nil || !strings.Contains(err.Error(), "provide the key") {
		t.Errorf("apply without a key: %v", err)
	}
	if w.actual().Sale.UID() != "" {
		t.Error("apply without a key has begun the sale")
	}
}

// What cannot change of a draw that is live.
func TestADrawStaysAsItIs(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*spec.Sale)
		closed bool
		want   string // "": it may
	}{
		"no draw any more":  {func(s *spec.Sale) { s.Draw, s.Queue = nil, nil }, false, "it cannot become a draw, or cease to be one"},
		"other substitutes": {func(s *spec.Sale) { s.Draw.Substitutes++ }, false, "cannot change from 5 to 6"},
		"another round": {func(s *spec.Sale) {
			s.Draw.Beacon = &spec.Beacon{Name: "drand", Round: "8", Fallback: spec.FallbackNone}
		}, false, "the beacon of its draw cannot change"},
		"no beacon":               {func(s *spec.Sale) { s.Draw.Beacon = nil }, false, "the beacon of its draw cannot change"},
		"another key":             {func(s *spec.Sale) { s.Draw.KeyEnv = "OTHER" }, false, ""},
		"an earlier end":          {func(s *spec.Sale) { s.ClosesAt = s.ClosesAt.Add(-time.Minute) }, false, ""},
		"a later end":             {func(s *spec.Sale) { s.ClosesAt = s.ClosesAt.Add(time.Hour) }, false, "closesAt cannot become later"},
		"a later end, too late":   {func(s *spec.Sale) { s.ClosesAt = s.ClosesAt.Add(time.Hour) }, true, "its closesAt cannot change"},
		"a lower stock":           {func(s *spec.Sale) { s.Stock = 9 }, false, ""},
		"a lower stock, too late": {func(s *spec.Sale) { s.Stock = 9 }, true, "the stock cannot be lowered by 1"},
		"a higher stock":          {func(s *spec.Sale) { s.Stock = 11 }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.drawKey = drawKeyOf(t, "k")
			w.mustApply(aDraw(10, aBeacon))
			if test.closed {
				w.pass(time.Hour)
			}
			next := aDraw(10, aBeacon)
			test.change(&next)
			_, err := planner.Make(next, w.actual())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The plan to close a draw for good warns of entries that get no unit, and so does the plan to destroy
// it, which also warns of the proof. Once all units are awarded, only the proof is lost.
func TestEndOfDrawWarns(t *testing.T) {
	const notDone, proof = "the draw is not done", "the draw is revealed"
	w := newDraw(t, nil)
	warns := func(state string, destroy bool, want ...string) {
		t.Helper()
		plan, err := planner.MakePhase(w.actual(), pb.Phase_CLOSED)
		if destroy {
			plan, err = planner.MakeDestroy(w.actual())
		}
		if err != nil || len(plan.Warnings) != len(want) {
			t.Fatalf("%s: destroy %t: %v, warnings %q, want %q", state, destroy, err, plan.Warnings, want)
		}
		for i, text := range want {
			if !strings.HasPrefix(plan.Warnings[i], text) {
				t.Errorf("%s: destroy %t: warning %q, want %q", state, destroy, plan.Warnings[i], text)
			}
		}
	}
	warns("with entries", false, notDone)
	warns("with entries", true, notDone)
	if err := w.run(w.mustReveal(nil)); err != nil {
		t.Fatal(err)
	}
	warns("revealed", false, notDone)
	warns("revealed", true, notDone, proof)
	ranks := w.actual().Sale.Ranks()
	for shard := range w.actual().Sale.Shards() {
		o := w.owner(shard)
		if err := o.append(func(d *ledger.Draft) {
			for _, rank := range ranks {
				if c, ok := o.state.ClaimAt(rank.Slot, rank.Index); ok && rank.Shard == shard {
					d.Award(c)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := w.actual().Totals(); left.Available > 0 {
		t.Fatalf("%d units are not awarded", left.Available)
	}
	warns("awarded", false)
	warns("awarded", true, proof)
	w.mustPhase(pb.Phase_CLOSED)
	warns("closed", true, proof)
	w.seal()
	warns("sealed", true)
}

// What is refunded once a sale is closed for good goes to nobody, and its export shows no
// winner who was skipped.
func TestDrawThatEnded(t *testing.T) {
	w := newWorld(t)
	w.drawKey = drawKeyOf(t, "k")
	s := aDraw(2, nil)
	s.LockCount = 1
	w.mustApply(s)
	o := w.owner(0)
	appended := func(do func(d *ledger.Draft)) {
		t.Helper()
		if err := o.append(do); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		appended(func(d *ledger.Draft) { d.Claim(fmt.Sprint("user-", i), "key", 1) })
	}
	w.pass(time.Hour)
	if err := w.run(w.mustReveal(nil)); err != nil {
		t.Fatal(err)
	}
	o.catchUp()
	claim := func(rank int) ledger.Claim {
		at := w.actual().Sale.Ranks()[rank-1]
		c, _ := o.state.ClaimAt(at.Slot, at.Index)
		return c
	}
	appended(func(d *ledger.Draft) { d.Award(claim(1)); d.Award(claim(2)) })
	w.mustPhase(pb.Phase_CLOSED)
	o.catchUp()
	appended(func(d *ledger.Draft) { d.Refund(claim(1), "ada", "", false) })
	w.mustDestroy()
	export, err := os.ReadFile(filepath.Join(w.folder, "export.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := draw.Verify(bytes.NewReader(export), draw.Options{})
	if err != nil || !r.OK || r.Entries != 4 || r.Awarded != 2 || r.Lapsed != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}
