package apply

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// A seed is drawn for the first generation of a red packet, and for nothing else.
func TestDrawSeed(t *testing.T) {
	red := spec.Sale{
		Name: "x", Run: 1, Stock: 3, LockCount: 1, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL,
		Engine: spec.EngineRedis, Ack: spec.AckLedger, Backlog: 1,
		RedPacket: &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 300, Min: 1, Split: spec.SplitRandom},
	}
	units := red
	units.RedPacket = nil
	for name, test := range map[string]struct {
		sale       spec.Sale
		generation uint64
		from       string
		seed       string
		fails      bool
	}{
		"red packets":        {red, 1, "0123456789abcdef0123456789abcdefmore", "0123456789abcdef0123456789abcdef", false},
		"red packets, later": {red, 2, "0123456789abcdef0123456789abcdef", "", false},
		"units":              {units, 1, "0123456789abcdef0123456789abcdef", "", false},
		"too little chance":  {red, 1, "0123", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pb.Planned{Generation: test.generation, Spec: specOf(t, test.sale)}
			err := drawSeed(p, bytes.NewReader([]byte(test.from)))
			if (err != nil) != test.fails || err == nil && string(p.Seed) != test.seed {
				t.Errorf("seed %q, %v", p.Seed, err)
			}
		})
	}
	if err := drawSeed(&pb.Planned{Generation: 1, Spec: []byte("{")}, bytes.NewReader(nil)); err == nil {
		t.Error("drawn for what cannot be read")
	}
}

// A plan that cannot be read, or for which too little chance is left, is carried out
// in nothing.
func TestPlansThatCannotBegin(t *testing.T) {
	w := newListWorld(t)
	cfg := w.config()
	noise := &planner.Plan{Kind: planner.KindApply, Payload: []byte("noise")}
	if _, err := Run(t.Context(), cfg, noise); !errors.Is(err, planner.ErrBadPlan) {
		t.Errorf("noise: %v", err)
	}
	if _, err := newExecution(cfg.terms(), noise, nil, false); !errors.Is(err, planner.ErrBadPlan) {
		t.Errorf("noise, in a machine: %v", err)
	}
	plan := w.mustPlan(packets(30))
	cfg.Rand = strings.NewReader("few")
	if _, err := Run(t.Context(), cfg, plan); err == nil || !strings.Contains(err.Error(), "drawing the seed of red packets") {
		t.Errorf("without chance: %v", err)
	}
	plan = planOf(t, planner.KindApply, w.actual(), &pb.Planned{Generation: 7, Uid: workUID, Run: 1, Spec: specOf(t, numbers(30)), Shards: []*pb.ShardChange{{}}},
		planner.Action{Address: "sale/tickets", Action: planner.Create})
	if err := w.run(plan); err == nil || !strings.Contains(err.Error(), "a run begins with generation 1") {
		t.Errorf("the seventh generation first: %v", err)
	}
	if next := w.actual().Sale.Next(); next != 0 {
		t.Errorf("%d slots were written", next)
	}
}

// The ttl that is waited for is the longest of what is planned and of the newest
// generations, since an owner may not have read the last of them.
func TestLongestTTL(t *testing.T) {
	document := func(ttl time.Duration) []byte {
		return specOf(t, spec.Sale{Name: "x", Run: 1, Stock: 3, LockCount: 1, PerUserLimit: 1, LockTTL: spec.Duration(ttl)})
	}
	op := func(generation uint64, ttl time.Duration) *pb.Op {
		op := plannedOp(workUID, generation, 1)
		op.GetPlanned().Spec = document(ttl)
		return op
	}
	const s = time.Second
	for name, test := range map[string]struct {
		intent *pb.Planned
		ops    []*pb.Op
		want   time.Duration
	}{
		"nothing":                 {nil, nil, quorum.DefaultTTL},
		"what is planned":         {&pb.Planned{Spec: document(4 * s)}, []*pb.Op{op(1, 2*s)}, 4 * s},
		"the newest":              {nil, []*pb.Op{op(1, 2*s), op(2, 5*s)}, 5 * s},
		"the one before":          {nil, []*pb.Op{op(1, 5*s), op(2, 2*s)}, 5 * s},
		"not the one before that": {&pb.Planned{Spec: document(3 * s)}, []*pb.Op{op(1, 9*s), op(2, 2*s), op(3, 2*s)}, 3 * s},
	} {
		w := &execution{intent: test.intent, sale: said(t, test.ops...)}
		if got := w.ttl(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// What a plan names is told as done once, and not at all where it was found done.
func TestFinished(t *testing.T) {
	begin := func(quiet, changed bool) *execution {
		w := &execution{core: machine.NewCore(time.Second), plan: &planner.Plan{Actions: make([]planner.Action, 2)}, planned: map[bool]planned{true: carriedOut}[quiet],
			actions: map[string]string{"shard/0": planner.Create, "shard/1": planner.Delete}}
		w.core.Changed = changed
		return w
	}
	for name, test := range map[string]struct {
		quiet, changed bool
		told           int
	}{
		"at work": {false, true, 2}, "nothing changed yet": {false, false, 2},
		"found done": {true, false, 0}, "found done in part": {true, true, 2},
	} {
		w := begin(test.quiet, test.changed)
		var told []Progress
		w.Progress = func(p Progress) { told = append(told, p) }
		w.core.Step(clock.Now{}, func() {
			for _, address := range []string{"shard/0", "shard/0", "shard/7", "shard/1"} {
				w.finished(address, "")
			}
		})
		if len(told) != test.told {
			t.Errorf("%s: told %+v", name, told)
		}
		for i, p := range told {
			if p.Done != i+1 || p.Total != 2 || p.Action != []string{planner.Create, planner.Delete}[i] {
				t.Errorf("%s: told %+v", name, p)
			}
		}
		if got := w.result.Summary; got != (planner.Summary{Create: 1, Delete: 1}) || w.done != 2 {
			t.Errorf("%s: %d done, %+v", name, w.done, got)
		}
	}
}

// Rechecks that come while the sale's log is read share the next reading, and a
// run that has ended is stale, or overtaken.
func TestRecheck(t *testing.T) {
	begin := func(t *testing.T) (*execution, *stepped) {
		c := newStepped(t)
		w := &execution{core: c.Core, plan: &planner.Plan{Sale: "x", UID: workUID}}
		w.sale = w.openLog()
		return w, c
	}
	entries := func(t *testing.T, ops ...*pb.Op) ledger.Reply {
		t.Helper()
		sale := ledger.NewSale(spec.SaleLog("x"))
		var r ledger.Reply
		for _, op := range ops {
			e, err := sale.Entry([]byte("planner1"), 1, op)
			if err != nil {
				t.Fatal(err)
			}
			if err := sale.Apply(e.Commit, e.Hash); err != nil {
				t.Fatal(err)
			}
			r.Head, r.Entries = e.Head, append(r.Entries, e.Bytes)
		}
		return r
	}
	recheck := func(w *execution, then ...func()) {
		for _, then := range then {
			w.core.Go(func() { w.recheck(); then() })
		}
	}
	first := plannedOp(workUID, 1, 1)
	t.Run("shared", func(t *testing.T) {
		w, c := begin(t)
		e := c.do(func() { recheck(w, c.say("one")) })
		if len(e.calls) != 1 {
			t.Fatalf("calls %+v", e.calls)
		}
		asked := e.calls[0]
		if e = c.do(func() { recheck(w, c.say("two"), c.say("three")) }); len(e.calls) != 0 {
			t.Fatalf("calls %+v", e.calls)
		}
		live := entries(t, first)
		e = c.answer(asked, live, nil)
		c.heard("one")
		if len(e.calls) != 1 {
			t.Fatalf("calls %+v", e.calls)
		}
		e = c.answer(e.calls[0], ledger.Reply{Head: live.Head}, nil)
		c.heard("two three")
		if len(e.calls) != 0 {
			t.Fatalf("calls %+v", e.calls)
		}
		e = c.do(func() { recheck(w, c.say("four")) })
		c.answer(e.calls[0], ledger.Reply{Head: live.Head}, nil)
		c.heard("four")
	})
	t.Run("the first that ends the machine is the last", func(t *testing.T) {
		w, c := begin(t)
		e := c.do(func() {
			recheck(w, func() {
				c.say("one")()
				recheck(w, func() { c.say("end")(); w.core.Fail(errors.New("end")) }, c.say("behind"))
			})
		})
		live := entries(t, first)
		e = c.answer(e.calls[0], live, nil)
		c.heard("one")
		c.do(func() { recheck(w, c.say("never")) })
		e = c.answer(e.calls[0], ledger.Reply{Head: live.Head}, nil)
		if c.heard("end"); !e.done {
			t.Error("goes on")
		}
	})
	t.Run("another run, of which there is more to read", func(t *testing.T) {
		w, c := begin(t)
		other := plannedOp("another", 1, 1)
		other.GetPlanned().Run = 2
		all := entries(t, first, sealedOp(), &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}}, other, appliedOp(1))
		e := c.do(func() { recheck(w, c.say("goes-on")) })
		e = c.answer(e.calls[0], entries(t, first), nil)
		c.heard("goes-on")
		e = c.do(func() { recheck(w, c.say("goes-on-too")) })
		e = c.answer(e.calls[0], ledger.Reply{Head: all.Head, Entries: all.Entries[1:4]}, nil)
		if c.heard(""); !e.done || !errors.Is(e.err, planner.ErrStale) {
			t.Errorf("while the log of a sale that was begun anew is read, shards are worked on: %+v", e)
		}
	})
	for name, ops := range map[string][]*pb.Op{
		"sealed":      {first, sealedOp()},
		"another run": {plannedOp("another", 1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := begin(t)
			e := c.do(func() { recheck(w, c.say("goes-on")) })
			e = c.answer(e.calls[0], entries(t, ops...), nil)
			if c.heard(""); !e.done || !errors.Is(e.err, planner.ErrStale) {
				t.Errorf("effects %+v", e)
			}
		})
		t.Run(name+", where another may overtake", func(t *testing.T) {
			w, c := begin(t)
			overtakes := func(what string) {
				w.overtaken = func() { c.say(what)(); c.Wait(func(func()) {}) }
			}
			overtakes("overtaken")
			e := c.do(func() { recheck(w, c.say("goes-on")); c.Go(func() { c.Sleep(time.Second); c.say("late")() }) })
			asked := e.calls[0]
			c.do(func() { recheck(w, c.say("goes-on-too")) })
			e = c.answer(asked, entries(t, ops...), nil)
			if want := map[string]string{"sealed": "overtaken", "another run": ""}[name]; e.done != (want == "") {
				t.Errorf("effects %+v", e)
			} else {
				c.heard(want)
			}
			c.mono += time.Minute
			c.pass(0)
			c.heard("")
			if name == "sealed" { // what has overtaken may ask anew
				e = c.do(func() { overtakes("overtaken-again"); recheck(w, c.say("goes-on")) })
				c.answer(e.calls[0], ledger.Reply{Head: entries(t, ops...).Head}, nil)
				c.heard("overtaken-again")
				w.sale = w.openLog()
				e = c.do(func() { recheck(w, c.say("live")) })
				c.answer(e.calls[0], entries(t, first), nil)
			}
		})
	}
}

// A shortfall is told of an apply that came to its end on every shard, and of no
// closed sale.
func TestWhatFellShort(t *testing.T) {
	document := func(stock int64) []byte {
		return specOf(t, spec.Sale{Name: "x", Run: 1, Stock: stock, LockCount: 2, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL})
	}
	for name, test := range map[string]struct {
		kind   planner.Kind
		phase  pb.Phase
		spec   []byte
		limits [2]int64
		second uint64 // generation of the second shard
		want   int64
	}{
		"none":                       {planner.KindApply, pb.Phase_OPEN, document(7), [2]int64{3, 4}, 1, 0},
		"some":                       {planner.KindApply, pb.Phase_OPEN, document(5), [2]int64{3, 4}, 1, 2},
		"paused":                     {planner.KindApply, pb.Phase_PAUSED, document(5), [2]int64{3, 4}, 1, 2},
		"fewer than declared":        {planner.KindApply, pb.Phase_OPEN, document(9), [2]int64{3, 4}, 1, 0},
		"closed":                     {planner.KindApply, pb.Phase_CLOSED, document(5), [2]int64{3, 4}, 1, 0},
		"a change of phase":          {planner.KindPhase, pb.Phase_OPEN, document(5), [2]int64{3, 4}, 1, 0},
		"a shard has gone on":        {planner.KindApply, pb.Phase_OPEN, document(5), [2]int64{3, 4}, 2, 0},
		"a document of no one's own": {planner.KindApply, pb.Phase_OPEN, []byte("{"), [2]int64{3, 4}, 1, 0},
	} {
		op := plannedOp(workUID, 1, 1)
		op.GetPlanned().Spec, op.GetPlanned().Settings.Phase = test.spec, test.phase
		op.GetPlanned().Shards = []*pb.ShardChange{{}, {}}
		w := &execution{plan: &planner.Plan{Kind: test.kind}, sale: said(t, op)}
		for i, limit := range test.limits {
			w.shards = append(w.shards, shard{head: &ledger.Head{Totals: ledger.Totals{Generation: []uint64{1, test.second}[i], Limit: limit}}})
		}
		if got := w.shortfall(1); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// What there is to do first: nothing, where a plan is carried out already.
func TestFirst(t *testing.T) {
	change := []planner.Action{{Address: "shard/0", Action: planner.Create}}
	for name, test := range map[string]struct {
		plan      planner.Plan
		rehearsal bool
		nothing   bool
	}{
		"an apply":                          {planner.Plan{Kind: planner.KindApply, Actions: change}, false, false},
		"an apply of nothing":               {planner.Plan{Kind: planner.KindApply, Generation: 3}, false, true},
		"a phase, of nothing":               {planner.Plan{Kind: planner.KindPhase}, false, false},
		"a destroy":                         {planner.Plan{Kind: planner.KindDestroy, Actions: change}, false, false},
		"a destroy of nothing":              {planner.Plan{Kind: planner.KindDestroy}, false, true},
		"of nothing, after a rehearsal":     {planner.Plan{Kind: planner.KindDestroy}, true, false},
		"of nothing, of what was destroyed": {planner.Plan{Kind: planner.KindDestroy, Phase: ledger.PhaseDestroyed}, false, false},
	} {
		w := &execution{plan: &test.plan, rehearsal: test.rehearsal}
		if got := w.first(); (got == nil) != test.nothing {
			t.Errorf("%s: there is something to do: %v", name, got != nil)
		}
		if test.plan.Kind == planner.KindApply && test.nothing && w.result.Generation != 3 {
			t.Errorf("%s: generation %d", name, w.result.Generation)
		}
	}
}

// stepped steps a core by hand.
type stepped struct {
	*machine.Core
	t    *testing.T
	mono time.Duration
	said []string
}

func newStepped(t *testing.T) *stepped {
	c := &stepped{Core: machine.NewCore(10 * time.Second), t: t, mono: time.Hour}
	t.Cleanup(machine.New(c.Core, nil).Drop)
	return c
}

func (c *stepped) time() clock.Now { return clock.Now{Mono: c.mono, Wall: time.Unix(1, 0).Add(c.mono)} }

func (c *stepped) say(what string) func() { return func() { c.said = append(c.said, what) } }

// results are the results of an event.
type results struct {
	calls []calls.Call
	wake  time.Duration
	done  bool
	err   error
}

func (c *stepped) take() results {
	e := results{c.Calls, c.Wake(), c.Over, c.Err}
	c.Calls = nil
	return e
}

func (c *stepped) do(event func()) results {
	c.Step(c.time(), event)
	return c.take()
}

func (c *stepped) pass(d time.Duration) results {
	c.mono += d
	c.Tick(c.time())
	return c.take()
}

func (c *stepped) answer(k calls.Call, value any, err error) results {
	k.Took(c.time(), machine.Reply{Value: value, Err: err}, nil)
	return c.take()
}

// heard compares what was said since it was last asked.
func (c *stepped) heard(want string) {
	c.t.Helper()
	if got := strings.Join(c.said, " "); got != want {
		c.t.Fatalf("heard %q, want %q", got, want)
	}
	c.said = nil
}
