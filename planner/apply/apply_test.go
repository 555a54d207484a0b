package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

func TestApplyTwiceChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.wantStock(10)
	next := w.actual().Sale.Next()
	w.mustApply(tickets(10))
	if got := w.actual().Sale.Next(); got != next {
		t.Errorf("the sale's log grew from %d to %d slots", next, got)
	}
}

func TestApplyTellsOfEachAddressOnce(t *testing.T) {
	w := newWorld(t)
	p := w.begin(w.mustPlan(tickets(10)))
	for !p.done {
		p.step(inOrder)
	}
	var got []string
	for i, step := range p.log {
		if step.Done != i+1 || step.Total != len(p.x.plan.Actions) || step.Action != planner.Create {
			t.Errorf("step %d is %+v", i, step)
		}
		got = append(got, step.Address)
	}
	want := "[shard/0 shard/1 shard/2 node/node-0 node/node-1 node/node-2 sale/tickets]"
	if fmt.Sprint(got) != want {
		t.Errorf("progress: %v, want %v", got, want)
	}
}

// What is done on the way to a destroy is told too, each step once, also where an
// owner is waited for.
func TestDestroyTellsOfEachStep(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.owner(1)
	w.serve()
	p := w.begin(w.planDestroy())
	for !p.done {
		p.step(inOrder)
	}
	var got []string
	for _, step := range p.log {
		got = append(got, fmt.Sprintf("%d/%d %s %s", step.Done, step.Total, step.Action, step.Address))
	}
	want := []string{
		"0/7 close shard/0", "0/7 close shard/2", "0/7 close shard/1", "0/7 seal shard/0", "0/7 seal shard/1", "0/7 seal shard/2",
		"0/7 export sale/tickets", "1/7 delete node/node-0", "2/7 delete node/node-1", "3/7 delete node/node-2",
		"4/7 delete shard/0", "5/7 delete shard/1", "6/7 delete shard/2", "7/7 delete sale/tickets",
	}
	if p.err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, told\n%s, want\n%s", p.err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An apply that is killed at any call, whatever becomes of that call, is
// completed by the next one, and what was delayed does no harm.
func TestApplyKilledAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for name, test := range map[string]struct {
		before func(*world)
		want   spec.Sale
	}{
		"create":                {func(*world) {}, tickets(10)},
		"create with its table": {func(w *world) { w.table = &fakeTable{} }, tickets(10)},
		"more units": {func(w *world) {
			w.mustApply(tickets(10))
			w.owner(1).claim(3)
		}, tickets(25)},
		"fewer units": {func(w *world) {
			w.mustApply(tickets(20))
			w.owner(0).claim(5)
		}, tickets(7)},
		"completing what another began": {func(w *world) {
			w.mustApply(tickets(10))
			w.runUntil(w.mustPlan(tickets(20)), 1)
		}, tickets(25)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []fate{served, dropped, delayed} {
				for kill := 1; ; kill++ {
					w := newWorld(t)
					test.before(w)
					saved := w.mustPlan(test.want)
					killed := w.runKilled(saved, kill, how)
					if kill%2 == 0 { // the saved plan is as good as a new one, or stale
						if err := w.run(saved); err != nil && !errors.Is(err, planner.ErrStale) {
							t.Fatalf("kill at call %d, %v: the saved plan: %v", kill, how, err)
						}
					}
					w.mustApply(test.want)
					w.land()
					w.mustApply(test.want)
					w.wantStock(test.want.Stock)
					if !killed {
						break
					}
				}
			}
		})
	}
}

// Two applies at once, with every fault that a store can have: units are dealt
// once, and whoever is told of success was successful.
func TestAppliesOverlap(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds {
		w := newWorld(t)
		if seed%2 == 1 {
			w.mustApply(tickets(8))
		}
		if seed%4 > 1 {
			w.faults = memory.Random(seed, memory.Rates{
				memory.ErrorBefore: 0.05, memory.LostReply: 0.05, memory.OwnTaken: 0.05,
				memory.Late: 0.05, memory.Twice: 0.05, memory.Stale: 0.1,
			})
		}
		choose := seeded(seed)
		plans := []*planner.Plan{w.mustPlan(tickets(10)), w.mustPlan(tickets(13))}
		if seed%8 > 3 {
			plans[1] = plans[0] // one saved plan, carried out by two
		}
		processes := []*process{w.begin(plans[0]), w.begin(plans[1])}
		for running := processes; len(running) > 0; {
			i := choose(len(running))
			running[i].step(choose)
			if running[i].done {
				running = append(running[:i:i], running[i+1:]...)
			}
		}
		success := 0
		for i, p := range processes {
			switch {
			case p.err == nil:
				success++
			case !errors.Is(p.err, planner.ErrStale) || plans[0] == plans[1]:
				t.Fatalf("seed %d: apply %d: %v", seed, i, p.err)
			}
		}
		if success == 0 {
			t.Fatalf("seed %d: both are stale: %v, %v", seed, processes[0].err, processes[1].err)
		}
		w.land()
		w.faults = nil
		w.audit()
		w.mustApply(tickets(30))
		w.wantStock(30)
	}
}

func TestStalePlans(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(*world)
		want      error
	}{
		"nothing happened":     {func(*world) {}, nil},
		"another was faster":   {func(w *world) { w.mustApply(tickets(12)) }, planner.ErrStale},
		"the phase changed":    {func(w *world) { w.mustPhase(pb.Phase_PAUSED) }, planner.ErrStale},
		"it was destroyed":     {func(w *world) { w.mustDestroy() }, planner.ErrStale},
		"it was begun anew":    {func(w *world) { w.mustDestroy(); w.mustApply(run(tickets(10), 2)) }, planner.ErrStale},
		"units were sold only": {func(w *world) { w.owner(2).claim(2) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(tickets(10))
			plan := w.mustPlan(tickets(20))
			test.meanwhile(w)
			if err := w.run(plan); !errors.Is(err, test.want) {
				t.Fatalf("apply: %v, want %v", err, test.want)
			}
			if test.want == nil {
				w.wantStock(20)
			}
		})
	}
}

func run(s spec.Sale, n int64) spec.Sale {
	s.Run = n
	return s
}

// A plan that was carried out is known again by its digest, and is no news.
func TestSavedPlanAppliedAgain(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	for range 2 {
		if err := w.run(plan); err != nil {
			t.Fatal(err)
		}
	}
	w.mustApply(tickets(11))
	if err := w.run(plan); err != nil {
		t.Fatalf("after a later plan: %v", err)
	}
	w.wantStock(11)
}

// An owner that is alive gets a ttl to take a generation by itself; where there
// is none, the planner does not wait.
func TestApplyWaitsForTheOwner(t *testing.T) {
	for name, test := range map[string]struct {
		owned, served, silent bool
		begun                 bool          // another has stored the plan
		takes                 time.Duration // the owner takes the generation then; 0: never
		atLeast, atMost       time.Duration
	}{
		"another has begun it":     {owned: true, served: true, begun: true, atLeast: 3 * time.Second, atMost: 3 * time.Second},
		"nobody ever owned it":     {served: true, atMost: 0},
		"the owner is dead":        {owned: true, atMost: 0},
		"the owner takes it":       {owned: true, served: true, takes: time.Second, atLeast: time.Second, atMost: 1200 * time.Millisecond},
		"the owner does not":       {owned: true, served: true, atLeast: 3 * time.Second, atMost: 3 * time.Second},
		"nobody knows of an owner": {owned: true, silent: true, atLeast: 3 * time.Second, atMost: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(time.Hour)
			w.mustApply(tickets(10))
			var o *owner
			if test.owned {
				o = w.owner(0)
			}
			if test.served {
				w.serve()
			}
			if test.silent {
				for _, n := range w.nodes[1:] {
					n.SetFaults(memory.On(memory.OpList, always(memory.ErrorBefore)))
				}
			}
			plan := w.mustPlan(tickets(20))
			if test.begun {
				if err := w.begin(plan).killAfterPlanned(); err != nil {
					t.Fatal(err)
				}
			}
			p := w.begin(plan)
			began := w.now.Mono
			for !p.done {
				if test.takes > 0 && o.state.Generation == 1 && w.now.Mono-began >= test.takes {
					sale := w.actual().Sale
					if err := o.append(func(d *ledger.Draft) { d.Generation(sale.ShardGeneration(2, 0)) }); err != nil {
						t.Fatal(err)
					}
				}
				p.step(inOrder)
			}
			if p.err != nil {
				t.Fatal(p.err)
			}
			if took := w.now.Mono - began; took < test.atLeast || took > test.atMost {
				t.Errorf("it took %v, want %v to %v", took, test.atLeast, test.atMost)
			}
			w.wantStock(20)
		})
	}
}

func always(kind memory.Kind) memory.Faults {
	return func(memory.Call) memory.Fault { return memory.Fault{Kind: kind} }
}

// A busy owner takes slot after slot. The planner loses, looks again, and wins.
func TestApplyBesideABusyOwner(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	o := w.owner(1)
	p := w.begin(w.mustPlan(tickets(60)))
	for lost := 0; !p.done; {
		if r := p.request(); r.Log == o.writer.Log() && r.Kind == ledger.AppendRequest && lost < 4 {
			o.claim(1)
			lost++
		}
		p.step(inOrder)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	w.wantStock(60)
}

// A log that lacks a generation which every shard has had is an older copy: it is not gone on with.
func TestOlderCopyOfAShard(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	log := spec.ShardLog(w.actual().Sale.UID(), 1, 3)
	logs := w.store.Handle(nil)
	head, entries, err := logs.Read(t.Context(), log, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	w.mustApply(tickets(20))
	if err := logs.Delete(t.Context(), log, 100); err != nil {
		t.Fatal(err)
	}
	for slot, entry := range entries {
		before := head
		if slot == 0 {
			before = nil
		}
		if err := logs.Append(t.Context(), log, uint64(slot), before, head, entry); err != nil {
			t.Fatal(err)
		}
	}
	actual := w.actual()
	for name, make := range map[string]func() (*planner.Plan, error){
		"plan":    func() (*planner.Plan, error) { return planner.Make(tickets(20), actual) },
		"change":  func() (*planner.Plan, error) { return planner.Make(tickets(30), actual) },
		"pause":   func() (*planner.Plan, error) { return planner.MakePhase(actual, pb.Phase_PAUSED) },
		"destroy": func() (*planner.Plan, error) { return planner.MakeDestroy(actual) },
	} {
		var drift *planner.DriftError
		if _, err := make(); !errors.As(err, &drift) || drift.Address != "shard/1" || drift.Reason != planner.ReasonLogOlder || !errors.Is(err, ledger.ErrCorrupt) ||
			!strings.Contains(err.Error(), "ends with generation 1, and generation 2 was on every shard") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shard whose log is gone is never created anew: its claims would be lost.
func TestMissingShard(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	plan := w.mustPlan(tickets(20))
	log := spec.ShardLog(plan.UID, 1, 3)
	if err := w.store.Handle(nil).Delete(t.Context(), log, 100); err != nil {
		t.Fatal(err)
	}
	began := w.now.Mono
	var drift *planner.DriftError
	if err := w.run(plan); !errors.Is(err, ledger.ErrCorrupt) || !errors.As(err, &drift) || drift.Address != "shard/1" || drift.Reason != planner.ReasonLogMissing || !strings.Contains(err.Error(), "shard/1 of a live sale has no log") {
		t.Errorf("apply: %v", err)
	}
	if took := w.now.Mono - began; took != (ledger.MissingTries-1)*ledger.MissingPause {
		t.Errorf("a read that may lag was believed after %v", took)
	}
	actual := w.actual()
	for name, make := range map[string]func() (*planner.Plan, error){
		"plan":    func() (*planner.Plan, error) { return planner.Make(tickets(10), actual) },
		"pause":   func() (*planner.Plan, error) { return planner.MakePhase(actual, pb.Phase_PAUSED) },
		"destroy": func() (*planner.Plan, error) { return planner.MakeDestroy(actual) },
	} {
		if _, err := make(); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if head, _, err := w.store.Handle(nil).Read(t.Context(), log, 0, 1); head != nil || err != nil {
		t.Errorf("the shard is there again: %s, %v", head, err)
	}
}

// A shard whose log goes while an apply works on it is not made anew either: once
// another has said that every shard has one.
func TestShardThatGoesWhileItIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		kind ledger.RequestKind // of the call on shard 1 in whose place another ends the apply
		goes bool
		want error
	}{
		"while it is read":              {ledger.ReadRequest, true, ledger.ErrCorrupt},
		"while it is read, and stays":   {ledger.ReadRequest, false, nil},
		"while it is created":           {ledger.AppendRequest, true, ledger.ErrCorrupt},
		"while it is created, it stays": {ledger.AppendRequest, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			plan := w.mustPlan(tickets(10))
			p := w.begin(plan)
			log := spec.ShardLog(plan.UID, 1, 3)
			is := func(kind ledger.RequestKind) bool {
				r := p.request()
				return r.Log == log && r.Kind == kind
			}
			for !is(test.kind) {
				p.step(inOrder)
			}
			k := p.next(0)
			var r ledger.Reply
			if test.kind == ledger.AppendRequest {
				r.Err = memory.ErrInjected
			}
			p.reply(k, machine.Reply{Value: r, Err: r.Err})
			if test.kind == ledger.AppendRequest {
				p.step(inOrder) // it is read, and not there
			}
			w.mustApply(tickets(10))
			if test.goes {
				if err := w.store.Handle(nil).Delete(t.Context(), log, 100); err != nil {
					t.Fatal(err)
				}
			}
			began := w.now.Mono
			for !p.done {
				if is(ledger.AppendRequest) {
					t.Fatal("a create was sent")
				}
				p.step(inOrder)
			}
			if !errors.Is(p.err, test.want) {
				t.Errorf("apply: %v, want %v", p.err, test.want)
			}
			if took := w.now.Mono - began; test.goes && took > againPause+(ledger.MissingTries-1)*ledger.MissingPause {
				t.Errorf("it was believed after %v", took)
			}
		})
	}
}

// A create that the store lost is sent again only if the sale still is there.
func TestCreateIsNotSentAgainAfterDestroy(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	p := w.begin(plan)
	log := spec.ShardLog(plan.UID, 1, 3)
	lost := false
	for !p.done {
		if r := p.request(); r.Log == log && r.Kind == ledger.AppendRequest {
			if lost {
				t.Fatal("the create was sent again")
			}
			if len(p.queue) > 1 { // first the creates that would come in late otherwise
				p.queue = append(p.queue[1:], p.queue[0])
				p.step(inOrder)
				continue
			}
			k := p.next(0)
			lost = true
			w.mustDestroy()
			p.reply(k, machine.Reply{Err: memory.ErrInjected})
			continue
		}
		p.step(inOrder)
	}
	if !lost || !errors.Is(p.err, planner.ErrStale) {
		t.Errorf("apply: %v", p.err)
	}
	w.wantNothingLeft(plan.UID)
}

// A head or a generation that makes no sense ends a command, which names the shard.
func TestDamagedShards(t *testing.T) {
	for name, test := range map[string]struct {
		plan  func(*world) *planner.Plan
		heads int // the reading of them that comes back damaged
	}{
		"apply":                 {applies(tickets(20)), 1},
		"destroy":               {(*world).planDestroy, 1},
		"after the last delete": {(*world).planDestroy, 3},
	} {
		w := newWorld(t)
		w.mustApply(tickets(10))
		p := w.begin(test.plan(w))
		for read := 0; !p.done; {
			if !p.isNext("read heads") {
				p.step(inOrder)
				continue
			}
			k := p.next(0)
			r := p.perform(k)
			if read++; read == test.heads {
				r.Value.([][]byte)[1] = []byte("noise")
			}
			p.reply(k, r)
		}
		if !errors.Is(p.err, ledger.ErrCorrupt) || !strings.Contains(p.err.Error(), "shard/1: ") {
			t.Errorf("%s: %v", name, p.err)
		}
	}
	w := newWorld(t)
	w.mustApply(tickets(10))
	twice := next(w.actual().Sale, pb.Phase_OPEN)
	twice.Shards[2].Add = []*pb.Range{{First: 8, Count: 1}}
	p := planOf(t, planner.KindApply, w.actual(), twice, planner.Action{Address: "shard/2", Action: planner.Update})
	if err := w.run(p); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "shard/2: ") {
		t.Errorf("a unit that is dealt twice: %v", err)
	}
}

// Nobody can own a sale that no process has been able to serve, and no node is asked.
func TestNobodyLooksForTheOwnerOfANewSale(t *testing.T) {
	for name, c := range map[string]*command{
		"units": newWorld(t).command(applyJob{tickets(10)}),
		"lists": newListWorld(t).command(applyJob{numbers(30)}),
	} {
		if err := c.finish(); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(c.trace, func(call string) bool { return strings.HasSuffix(call, " find owner") }) {
			t.Errorf("%s: the calls are %q", name, c.trace)
		}
	}
}

// Nor is one sent for the first time when the sale was destroyed since it was
// planned.
func TestNoCreateAfterDestroy(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	p := w.begin(plan)
	for destroyed := false; !p.done; p.step(inOrder) {
		r := p.request()
		if !strings.HasSuffix(r.Log, "/1") {
			continue
		}
		if !destroyed {
			w.mustDestroy()
			destroyed = true
		}
		if r.Kind == ledger.AppendRequest {
			t.Fatal("a create was sent")
		}
	}
	if !errors.Is(p.err, planner.ErrStale) {
		t.Errorf("apply: %v", p.err)
	}
	w.wantNothingLeft(plan.UID)
}

func TestMarkers(t *testing.T) {
	votes := func(w *world, n *memory.Node, uid string) bool {
		c, err := n.Vote(t.Context(), quorum.Ballot{
			Marker: spec.Marker(uid), TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "k", Token: "t"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return !c.Abstained
	}
	for name, test := range map[string]struct {
		during func(*world, *process)
		want   [3]bool // who votes at once
		fails  bool
	}{
		"all are well":       {func(*world, *process) {}, [3]bool{true, true, true}, false},
		"one is down":        {func(w *world, _ *process) { down(w.nodes[1]) }, [3]bool{true, false, true}, false},
		"one restarts empty": {func(w *world, _ *process) { w.nodes[2].RestartEmpty() }, [3]bool{true, true, false}, false},
		"two are down":       {func(w *world, _ *process) { down(w.nodes[0]); down(w.nodes[1]) }, [3]bool{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			plan := w.mustPlan(tickets(10))
			p := w.begin(plan)
			p.stepTo(func(k calls.Call) bool { return k.What == "mark" }) // the run ids have been read
			test.during(w, p)
			for !p.done {
				p.step(inOrder)
			}
			if test.fails {
				if !errors.Is(p.err, planner.ErrPartly) || w.actual().Sale.Applied() != 0 {
					t.Errorf("apply: %v", p.err)
				}
				return
			}
			if p.err != nil {
				t.Fatal(p.err)
			}
			if left := p.x.left(); (left != "") != (name == "one is down") {
				t.Errorf("it has left undone: %q", left)
			}
			for i, n := range w.nodes {
				n.SetFaults(nil)
				if got := votes(w, n, plan.UID); got != test.want[i] {
					t.Errorf("%s votes: %t, want %t", n.Name(), got, test.want[i])
				}
			}
		})
	}
}

func down(n *memory.Node) { n.SetFaults(always(memory.ErrorBefore)) }

// Whoever completes the apply of another has not read the run ids before the
// sale could have had leases: a read of its log may lag. So its markers abstain.
func TestCompletedApplyMarksInTheAbstainingForm(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	w.runUntil(plan, 1)
	p := w.begin(plan)
	marks := 0
	for !p.done {
		for _, k := range p.queue {
			switch k.What {
			case "mark":
				t.Fatal("a marker that votes at once")
			case "mend marker":
				marks++
			}
		}
		p.step(inOrder)
	}
	if p.err != nil || marks == 0 {
		t.Errorf("apply: %v, %d marks", p.err, marks)
	}
}

// A clock that is far off would end deadlines early or late for everybody.
func TestWrongClock(t *testing.T) {
	for name, test := range map[string]struct {
		off   []time.Duration // of each node
		wrong bool
	}{
		"one node is off":          {[]time.Duration{time.Hour, 0, 0}, false},
		"two nodes say otherwise":  {[]time.Duration{time.Hour, time.Hour, 0}, true},
		"slow":                     {[]time.Duration{-4 * time.Second, -4 * time.Second, -4 * time.Second}, true},
		"within a ttl":             {[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second}, false},
		"the median is in between": {[]time.Duration{time.Second, time.Hour, -time.Hour}, false},
		"by a ttl":                 {[]time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}, false},
		"by a ttl, of two":         {[]time.Duration{2 * time.Second, 3500 * time.Millisecond}, false},
		"between two":              {[]time.Duration{2 * time.Second, 6 * time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.nodes = w.nodes[:len(test.off)]
			for i, n := range w.nodes {
				n.Advance(test.off[i])
			}
			plan := w.mustPlan(tickets(10))
			err := w.run(plan)
			if !test.wrong {
				if err != nil {
					t.Fatal(err)
				}
				for i, off := range test.off {
					warning := fmt.Sprintf("lock node node-%d is misconfigured: Its clock is ", i)
					warned := slices.ContainsFunc(plan.Warnings, func(text string) bool { return strings.HasPrefix(text, warning) })
					if far := off.Abs() == time.Hour; warned != far {
						t.Errorf("node %d is %v off, and the plan warns of %q", i, off, plan.Warnings)
					}
				}
				return
			}
			if !errors.Is(err, planner.ErrRefused) {
				t.Errorf("apply: %v", err)
			}
			if next := w.actual().Sale.Next(); next != 0 {
				t.Errorf("%d slots were written", next)
			}
		})
	}
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	if err := w.begin(plan).killAfterPlanned(); err != nil {
		t.Fatal(err)
	}
	w.now.Wall = w.now.Wall.Add(time.Hour)
	if err := w.run(plan); !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), "clock differs by 1h0m0s from the median") {
		t.Errorf("completing what another began: %v", err)
	}
	for i, s := range w.actual().Shards {
		if s.Head != nil {
			t.Errorf("shard %d was created", i)
		}
	}
}

// A removal takes what is available when it comes. What it could not take is
// told, and planned again.
func TestShortfall(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(12))
	plan := w.mustPlan(tickets(6))
	o := w.owner(0)
	o.claim(4)
	p := w.begin(plan)
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil || p.x.result.Shortfall != 2 {
		t.Fatalf("apply: %v, shortfall %d, want 2", p.err, p.x.result.Shortfall)
	}
	w.wantStock(8)
	again := w.mustPlan(tickets(6))
	if again.Empty() || !strings.Contains(again.Actions[0].Reason, "fell short") {
		t.Fatalf("the next plan: %+v", again.Actions)
	}
	w.mustApply(tickets(6))
	w.wantStock(6)
}

func TestPhases(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	for _, phase := range []pb.Phase{pb.Phase_PAUSED, pb.Phase_PAUSED, pb.Phase_OPEN, pb.Phase_CLOSED, pb.Phase_CLOSED} {
		w.mustPhase(phase)
		for i, s := range w.actual().Shards {
			if s.Head.Phase != ledger.PhaseName(phase) {
				t.Errorf("%v: shard %d is %s", phase, i, s.Head.Phase)
			}
		}
		if p := w.mustPlan(tickets(10)); !p.Empty() || p.Phase != ledger.PhaseName(phase) {
			t.Errorf("%v: the plan is of phase %s, with %+v", phase, p.Phase, p.Actions)
		}
	}
	if got := w.actual().Sale.Generation(); got != 4 {
		t.Errorf("there are %d generations, want 4", got)
	}
	if _, err := planner.MakePhase(w.actual(), pb.Phase_OPEN); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("resume of a closed sale: %v", err)
	}
}

// Apply carries the phase over.
func TestPhaseSurvivesApply(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.mustPhase(pb.Phase_PAUSED)
	w.mustApply(tickets(20))
	if got := w.actual().Sale.Phase(); got != ledger.PhasePaused {
		t.Errorf("after apply the sale is %s", got)
	}
}

func TestApplyInRealTime(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.Clock = clockOf(w)
	var told []Progress
	cfg.Progress = func(p Progress) { told = append(told, p) }
	result, err := Run(t.Context(), cfg, w.mustPlan(tickets(10)))
	if err != nil || result.Generation != 1 || len(told) != 7 {
		t.Fatalf("apply: %+v, %v, %d steps told", result, err, len(told))
	}
	w.wantStock(10)
	if _, err := Run(t.Context(), w.config(), w.mustPlan(tickets(10))); err != nil {
		t.Fatal(err)
	}
}

func TestApplyOutOfTime(t *testing.T) {
	for name, test := range map[string]struct {
		log  string // whose appends fail
		want error
	}{
		"before anything was sent": {"", planner.ErrTimeout},
		"with the plan on its way": {"sale/", planner.ErrPartly},
		"with the plan in the log": {"00/", planner.ErrPartly},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				plan := w.mustPlan(tickets(10))
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				if test.log == "" {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 0)
				}
				defer cancel()
				w.faults = func(c memory.Call) memory.Fault {
					if c.Op == memory.OpAppend && strings.HasPrefix(c.Log, test.log) {
						return memory.Fault{Kind: memory.ErrorBefore}
					}
					return memory.Fault{}
				}
				cfg := w.config()
				cfg.Clock = clockOf(w)
				_, err := Run(ctx, cfg, plan)
				if !errors.Is(err, test.want) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("apply: %v, want %v", err, test.want)
				}
				w.faults = nil
				w.mustApply(tickets(10))
			})
		})
	}
}

// A store that cannot be written is told after a while, with its own words.
func TestApplyGivesUp(t *testing.T) {
	w := newWorld(t)
	w.faults = memory.On(memory.OpAppend, always(memory.ErrorBefore))
	err := w.run(w.mustPlan(tickets(10)))
	if !errors.Is(err, memory.ErrInjected) || errors.Is(err, planner.ErrPartly) {
		t.Errorf("apply: %v", err)
	}
	if w.now.Mono < 10*time.Second || w.now.Mono > 30*time.Second {
		t.Errorf("it gave up after %v", w.now.Mono)
	}
}
