package apply

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// listLife is the whole life of a sale on lists by commands, with claims that
// nobody drains, and returns all calls made.
func listLife(t *testing.T) (trace []string) {
	w, exported := newListWorld(t), new(sink)
	do := func(job job, check func()) {
		t.Helper()
		c := w.command(job)
		if err := c.finish(); err != nil {
			t.Fatalf("%T: %v", job, err)
		}
		if got, planned := c.result.Summary, c.planned.Summary; got != planned {
			t.Errorf("%T: %+v is done of %+v", job, got, planned)
		}
		trace = append(trace, c.trace...)
		check()
		again := w.command(job)
		if err := again.finish(); err != nil || again.result.Changed {
			t.Errorf("%T again: %+v, %v", job, again.result, err)
		}
		check()
	}
	do(applyJob{numbers(30)}, w.wantOn)
	w.grabAll()
	do(phaseJob{pb.Phase_PAUSED}, w.wantOff)
	do(phaseJob{pb.Phase_OPEN}, w.wantOn)
	w.grabAll()
	do(applyJob{numbers(45)}, w.wantOn)
	w.grabAll()
	do(applyJob{phased(numbers(20), spec.PhasePaused)}, w.wantOff)
	do(applyJob{phased(numbers(20), spec.PhaseOpen)}, w.wantOn)
	w.wantStock(20)
	w.grabAll()
	uid := w.actual().Sale.UID()
	do(exported.job(), func() {})
	w.wantNothingLeft(uid)
	w.wantForgotten(uid)
	w.wantExported(exported, 20)
	if len(w.told) != 20 {
		t.Errorf("%d users were told of a unit, of 20", len(w.told))
	}
	return trace
}

// A list is told as done when it gives what it should: an open sale's after all
// shards, one that is stopped with its shard.
func TestListsToldOf(t *testing.T) {
	w := newListWorld(t)
	told := func(plan *planner.Plan) string {
		t.Helper()
		p := w.begin(plan)
		for !p.done {
			p.step(inOrder)
		}
		if p.err != nil {
			t.Fatal(p.err)
		}
		var addresses []string
		for _, step := range p.log {
			addresses = append(addresses, step.Address)
		}
		return strings.Join(addresses, " ")
	}
	for _, test := range []struct {
		plan func(*world) *planner.Plan
		want string
	}{
		{applies(numbers(30)), "shard/0 shard/1 shard/2 node/node-0 node/node-1 node/node-2 list/0 list/1 list/2 sale/tickets"},
		{pauses, "list/0 list/1 list/2 sale/tickets"},
	} {
		if got := told(test.plan(w.world)); got != test.want {
			t.Errorf("told of %s, want %s", got, test.want)
		}
	}
}

func TestListsLife(t *testing.T) {
	first := listLife(t)
	if second := listLife(t); !slices.Equal(first, second) {
		t.Errorf("the same commands made other calls:\n%v\n%v", first, second)
	}
	for _, name := range listCallNames {
		if !slices.ContainsFunc(first, func(call string) bool { return strings.HasSuffix(call, " "+name) }) {
			t.Errorf("no call was %q", name)
		}
	}
	for _, call := range first {
		if _, name, _ := strings.Cut(call, " "); !slices.Contains(append(callNames, listCallNames...), name) {
			t.Errorf("a call is %q, which no list of names has", name)
		}
	}
}

// A command on lists that is killed at any call, whatever becomes of that call,
// is completed by another one; buyers go on all the time, and nothing that they
// were told is lost.
func TestListsKilledAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	given := func(w *listWorld) {
		w.mustApply(numbers(30))
		w.grabAll()
	}
	for name, test := range map[string]struct {
		before func(*listWorld)
		job    func(*sink) job
		check  func(*listWorld, *sink)
	}{
		"create": {func(*listWorld) {}, func(*sink) job { return applyJob{numbers(30)} },
			func(w *listWorld, _ *sink) { w.wantOn(); w.wantStock(30) }},
		"raise": {given, func(*sink) job { return applyJob{numbers(45)} },
			func(w *listWorld, _ *sink) { w.wantOn(); w.wantStock(45) }},
		"lower": {given, func(*sink) job { return applyJob{numbers(25)} },
			func(w *listWorld, _ *sink) { w.wantOn(); w.wantStock(25) }},
		"pause": {given, func(*sink) job { return phaseJob{pb.Phase_PAUSED} },
			func(w *listWorld, _ *sink) { w.wantOff(); w.wantStock(30) }},
		"resume": {func(w *listWorld) { given(w); w.mustPhase(pb.Phase_PAUSED) },
			func(*sink) job { return phaseJob{pb.Phase_OPEN} },
			func(w *listWorld, _ *sink) { w.wantOn(); w.wantStock(30) }},
		"destroy": {given, func(s *sink) job { return s.job() },
			func(w *listWorld, s *sink) {
				w.wantExported(s, int64(len(w.told)))
				w.wantForgotten(w.actual().Sale.UID())
			}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []fate{served, dropped, delayed} {
				for kill := 1; ; kill++ {
					w, exported := newListWorld(t), new(sink)
					test.before(w)
					killed := w.killCommand(test.job(exported), kill, how)
					if kill%2 == 0 && w.actual().Sale.Live() {
						w.grabAll()
					}
					for late := range 2 {
						if late == 1 && how != delayed {
							break
						}
						if late == 1 {
							w.land()
						}
						if err := w.command(test.job(exported)).finish(); err != nil {
							t.Fatalf("kill at call %d, %v: %v", kill, how, err)
						}
					}
					test.check(w, exported)
					if w.actual().Sale.Live() && kill%3 == 0 {
						if err := w.command(phaseJob{pb.Phase_PAUSED}).finish(); err != nil {
							t.Fatalf("kill at call %d, %v: pause: %v", kill, how, err)
						}
						w.wantOff()
					}
					if !killed {
						break
					}
				}
			}
		})
	}
}

// A node that restarts between any two calls keeps nobody from going on: one that
// kept all loses nothing, and one that lost all gives no unit twice.
func TestListsOnANodeThatRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for name, restart := range map[string]func(*memory.Lists){
		"with all":     (*memory.Lists).Restart,
		"with nothing": (*memory.Lists).RestartEmpty,
		"flushed":      (*memory.Lists).Flush,
	} {
		for _, job := range []job{applyJob{numbers(40)}, phaseJob{pb.Phase_PAUSED}} {
			t.Run(fmt.Sprintf("%s, %T", name, job), func(t *testing.T) {
				for at := 1; ; at++ {
					w := newListWorld(t)
					w.mustApply(numbers(30))
					w.grabAll()
					c := w.command(job)
					for !c.done {
						if len(c.queue) > 0 && len(c.trace) == at {
							restart(w.keepers[at%2])
						}
						c.step(inOrder, c.served)
					}
					if c.err != nil {
						t.Fatalf("restart at call %d: %v", at, c.err)
					}
					if name != "with all" { // what nobody drained is gone
						clear(w.told)
					}
					if err := w.command(job).finish(); err != nil { // it may have restarted after its list was filled
						t.Fatalf("restart at call %d: again: %v", at, err)
					}
					if _, apply := job.(applyJob); apply {
						w.wantOn()
						w.grabAll()
						w.mustPhase(pb.Phase_PAUSED)
					}
					w.wantOff()
					if len(c.trace) < at {
						break
					}
				}
			})
		}
	}
}

// Commands run at once, on nodes whose calls fail, come late or are not answered.
// Units are given once, and what buyers were told is kept.
func TestListsUnderCommandsAtOnce(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		w, exported := newListWorld(t), new(sink)
		if seed%3 > 0 {
			w.mustApply(numbers(30))
		}
		if seed%2 == 1 {
			for i, n := range w.keepers {
				n.SetFaults(memory.Random(seed+uint64(1000*i), memory.Rates{
					memory.ErrorBefore: 0.1, memory.LostReply: 0.1, memory.Late: 0.1,
				}))
			}
		}
		if seed%4 > 1 {
			w.faults = memory.Random(seed, memory.Rates{
				memory.ErrorBefore: 0.05, memory.LostReply: 0.05, memory.OwnTaken: 0.05,
				memory.Late: 0.05, memory.Twice: 0.05, memory.Stale: 0.1,
			})
		}
		random := rand.New(rand.NewPCG(seed, 3))
		jobs := []job{applyJob{numbers(40)}, applyJob{numbers(40)}}
		if seed%3 > 0 {
			jobs[1] = []job{phaseJob{pb.Phase_PAUSED}, applyJob{numbers(35)}, applyJob{numbers(40)}}[seed%9/3]
		}
		running := []*command{w.command(jobs[0]), w.command(jobs[1])}
		for steps := 0; len(running) > 0; steps++ {
			if steps > 20000 {
				t.Fatalf("seed %d: no end", seed)
			}
			i := random.IntN(len(running))
			c := running[i]
			if c.step(random.IntN, c.served); c.done {
				running = slices.Delete(running, i, i+1)
				if c.err != nil && !isOneOf(c.err, planner.ErrStale, planner.ErrRefused, planner.ErrPartly, planner.ErrStore, memory.ErrInjected) {
					t.Fatalf("seed %d: %T: %v", seed, c.job, c.err)
				}
			}
			if random.IntN(20) == 0 && w.actual().Sale.Live() {
				w.grab(random.IntN(3), 1)
			}
		}
		for _, n := range w.keepers {
			n.SetFaults(nil)
		}
		w.faults = nil
		w.land()
		for _, job := range []job{phaseJob{pb.Phase_OPEN}, phaseJob{pb.Phase_PAUSED}} {
			if err := w.command(job).finish(); err != nil {
				t.Fatalf("seed %d: %T: %v", seed, job, err)
			}
		}
		w.wantOff()
		sold := w.audit().Sold // of some, nobody was told
		if err := w.command(exported.job()).finish(); err != nil {
			t.Fatalf("seed %d: destroy: %v", seed, err)
		}
		w.wantExported(exported, sold)
	}
}

// A sale is not applied before every list is on; the error names the node.
func TestListsOnANodeThatIsAway(t *testing.T) {
	w := newListWorld(t)
	away := func(is bool) {
		w.keepers[1].SetFaults(nil)
		if is {
			w.keepers[1].SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Kind: memory.ErrorBefore} })
		}
	}
	wantPartly := func(job job) {
		t.Helper()
		err := w.command(job).finish()
		if !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "list/1 on node redis-1:6379") {
			t.Errorf("%T: %v", job, err)
		}
	}
	away(true)
	wantPartly(applyJob{numbers(30)})
	if applied := w.actual().Sale.Applied(); applied != 0 {
		t.Errorf("generation %d is applied", applied)
	}
	away(false)
	w.mustApply(numbers(30))
	w.wantOn()
	w.grabAll()
	away(true)
	wantPartly(phaseJob{pb.Phase_PAUSED})
	if s := w.actual().Shards[1].Head; s.Phase != ledger.PhaseOpen {
		t.Errorf("shard 1 is %s, and what its list gave is not in its log", s.Phase)
	}
	away(false)
	w.mustPhase(pb.Phase_PAUSED)
	w.wantOff()
	uid := w.actual().Sale.UID()
	away(true)
	c := w.command(new(sink).job())
	if err := c.finish(); err != nil || len(c.result.Warnings) != 1 || !strings.Contains(c.result.Warnings[0], "redis-1:6379 may still have lists") {
		t.Errorf("destroy: %v, %q", err, c.result.Warnings)
	}
	away(false)
	if p := w.planDestroy(); len(p.Actions) != 1 || p.Actions[0].Address != "list/1" {
		t.Errorf("what is left: %+v", p.Actions)
	}
	w.mustDestroy()
	w.wantForgotten(uid)
}

// Where a process serves the sale it gets a ttl to fill a list by itself.
func TestListsBesideAnOwner(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.owner(0)
	w.serve()
	w.keepers[0].RestartEmpty()
	if p := w.mustPlan(numbers(30)); !p.Empty() || len(p.Warnings) != 2 || !strings.HasPrefix(p.Warnings[0], "list/0 is missing on node redis-0:6379: the serving process") {
		t.Errorf("the plan has %+v, and warns of %q", p.Actions, p.Warnings)
	}
	began := w.now.Mono
	w.mustPhase(pb.Phase_OPEN)
	if took := w.now.Mono - began; took != 3*time.Second {
		t.Errorf("it took %v, want the ttl of 3s", took)
	}
	w.wantOn()
}

// A stock that is lowered takes what is left when all that lists have given is in
// the ledger: less than the plan could see.
func TestListsFallShort(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	for shard := range 3 {
		w.grab(shard, 9)
	}
	c := w.command(applyJob{numbers(10)})
	if err := c.finish(); !errors.Is(err, planner.ErrPartly) || c.result.Shortfall != 17 {
		t.Errorf("got %v, short of %d", err, c.result.Shortfall)
	}
	w.wantTold(w.ledgers())
	w.mustApply(numbers(27))
	w.wantOn()
}

// A node that answers and cannot be written is given up like one that is away.
func TestListsOnANodeThatIsFull(t *testing.T) {
	w := newListWorld(t)
	w.keepers[0].SetFaults(memory.On(memory.OpPut, always(memory.ErrorBefore)))
	began := w.now.Mono
	err := w.command(applyJob{numbers(30)}).finish()
	if !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "on node redis-0:6379 cannot be filled, tried for 10s (put)") {
		t.Errorf("got %v", err)
	}
	if took := w.now.Mono - began; took < 10*time.Second || took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// How long a list is looked at before it is filled follows from how it stands: one
// that somebody else may be filling is looked at twice.
func TestListsAreLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		befall func(*listWorld)
		want   time.Duration
		fill   uint64 // that the list gives under in the end
	}{
		"on":      {func(*listWorld) {}, 0, 1},
		"off":     {func(w *listWorld) { w.keepers[1].Restart() }, pollOwner, 2},
		"missing": {func(w *listWorld) { w.keepers[1].RestartEmpty() }, 0, 2},
		"on, under an older fill": {func(w *listWorld) {
			if err := w.owner(1).append(func(d *ledger.Draft) { d.Rebuild() }); err != nil {
				t.Fatal(err)
			}
		}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(numbers(30))
			test.befall(w)
			began := w.now.Mono
			w.mustPhase(pb.Phase_OPEN)
			if took := w.now.Mono - began; took != test.want {
				t.Errorf("it took %v, want %v", took, test.want)
			}
			if w.wantOn(); w.state(1).Fill != test.fill {
				t.Errorf("the list is %+v, want fill %d", w.state(1), test.fill)
			}
		})
	}
}

// A list that another has filled since the heads were read is not filled anew, and
// one that another has stopped is not turned on.
func TestListsThatAnotherHasBrought(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile pb.Phase
		heads     []memory.Fault // of the readings of heads after that
		err       error
		fill      uint64
		on        bool
	}{
		"filled":                    {pb.Phase_OPEN, nil, nil, 2, true},
		"filled, and the head lags": {pb.Phase_OPEN, []memory.Fault{past(100)}, nil, 3, true},
		"stopped":                   {pb.Phase_PAUSED, nil, planner.ErrStale, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(numbers(30))
			w.keepers[1].Restart()
			resume, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
			if err != nil {
				t.Fatal(err)
			}
			var heads []memory.Fault
			w.faults = memory.On(memory.OpHeads, func(memory.Call) memory.Fault {
				if len(heads) == 0 {
					return memory.Fault{}
				}
				next := heads[0]
				heads = heads[1:]
				return next
			})
			p := w.begin(resume)
			for !p.isNext("inspect list") {
				p.step(inOrder)
			}
			w.mustPhase(test.meanwhile)
			heads = test.heads
			for !p.done {
				p.step(inOrder)
			}
			if !errors.Is(p.err, test.err) || len(heads) > 0 {
				t.Errorf("it ended with %v, want %v", p.err, test.err)
			}
			if s := w.state(1); s.On != test.on || test.on && s.Fill != test.fill {
				t.Errorf("the list is %+v", s)
			}
		})
	}
}

// Heads that make no sense end a command also where it waits for another to fill a
// list.
func TestListsOfADamagedShard(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.keepers[1].Restart()
	p := w.begin(func() *planner.Plan {
		resume, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
		if err != nil {
			t.Fatal(err)
		}
		return resume
	}())
	for read := 0; !p.done; {
		if !p.isNext("read heads") {
			p.step(inOrder)
			continue
		}
		k := p.next(0)
		r := p.perform(k)
		if read++; read > 1 {
			r.Value.([][]byte)[0] = []byte("noise")
		}
		p.reply(k, r)
	}
	if !errors.Is(p.err, ledger.ErrCorrupt) || !strings.Contains(p.err.Error(), "shard/1: ") {
		t.Errorf("it ended with %v", p.err)
	}
}

// A list that was never filled needs not be stopped: it is filled once.
func TestListsAreFilledOnce(t *testing.T) {
	w := newListWorld(t)
	w.runUntil(w.mustPlan(numbers(30)), 2)
	w.mustApply(numbers(40))
	for i := range 3 {
		if s := w.state(i); !s.On || s.Fill != 1 {
			t.Errorf("the list of shard %d is %+v", i, s)
		}
	}
	w.mustApply(numbers(50)) // for which it is stopped, and filled, under one fill
	for i := range 3 {
		if s := w.state(i); !s.On || s.Fill != 2 {
			t.Errorf("the list of shard %d is %+v", i, s)
		}
	}
}

// lister is a process that is about to begin the rebuilding of the list of shard 1.
func (w *listWorld) lister(phase pb.Phase) *process {
	w.Helper()
	plan, err := planner.MakePhase(w.actual(), phase)
	if err != nil {
		w.Fatal(err)
	}
	p := w.begin(plan)
	for !p.rebuilds() {
		p.step(inOrder)
	}
	return p
}

func (p *process) rebuilds() bool {
	if !strings.HasSuffix(p.request().Log, "/1") {
		return false
	}
	ops := commitOf(p.queue[0]).GetOps()
	return len(ops) == 1 && ops[0].GetRebuild() != nil
}

// Of two who rebuild a list at once, who comes second to the log lets the first, as
// long as that goes on.
func TestListsOfTwoWhoRebuild(t *testing.T) {
	for name, test := range map[string]struct {
		phase pb.Phase
		first func(*listWorld, *process) // another process that was about to do it too
		took  time.Duration
		fill  uint64 // of the log in the end
	}{
		"the first has filled it": {pb.Phase_OPEN, func(w *listWorld, p *process) {
			for !p.done {
				p.step(inOrder)
			}
		}, 0, 2},
		"the first has died": {pb.Phase_OPEN, func(w *listWorld, p *process) { p.step(inOrder) }, pollOwner, 3},
		"the first has died, and the node does not answer": {pb.Phase_OPEN, func(w *listWorld, p *process) {
			p.step(inOrder)
			asked := 0
			w.keepers[1].SetFaults(memory.On(memory.OpInspect, func(memory.Call) memory.Fault {
				if asked++; asked > 1 {
					return memory.Fault{}
				}
				return memory.Fault{Kind: memory.ErrorBefore}
			}))
		}, 0, 3},
		"the first has died after half of it": {pb.Phase_OPEN, func(w *listWorld, p *process) {
			for range 3 {
				p.step(inOrder)
			}
		}, pollOwner, 3},
		"the first has filled what is to be stopped": {pb.Phase_PAUSED, func(w *listWorld, p *process) {
			for !w.state(1).On {
				p.step(inOrder)
			}
		}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(numbers(30))
			w.grabAll()
			w.keepers[1].Restart()
			first := w.lister(pb.Phase_OPEN)
			second := w.lister(test.phase)
			test.first(w, first)
			began := w.now.Mono
			for !second.done {
				second.step(inOrder)
			}
			if took := w.now.Mono - began; second.err != nil || took != test.took {
				t.Errorf("it ended after %v with %v, want %v", took, second.err, test.took)
			}
			if got := w.ledgers()[1].Fill; got != test.fill {
				t.Errorf("the log is at fill %d, want %d", got, test.fill)
			}
			if test.phase == pb.Phase_OPEN {
				w.wantOn()
			} else {
				w.wantOff()
			}
		})
	}
}

// A shard whose log goes while its list is rebuilt is a loss, and is not rebuilt from
// nothing; a read that only lags is made again.
func TestListsOfAShardThatGoes(t *testing.T) {
	shardReads := func(p *process) bool {
		return strings.HasSuffix(p.request().Log, "/1")
	}
	for name, until := range map[string]func(*process) bool{
		"before it is read": shardReads,
		"before the append": (*process).rebuilds,
	} {
		for _, goes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %v", name, goes), func(t *testing.T) {
				w := newListWorld(t)
				w.mustApply(numbers(30))
				w.grabAll()
				w.keepers[1].Restart()
				plan, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
				if err != nil {
					t.Fatal(err)
				}
				lag := false
				log := spec.ShardLog(plan.UID, 1, 3)
				w.faults = func(c memory.Call) memory.Fault {
					switch {
					case c.Log != log || !lag:
					case c.Op == memory.OpAppend:
						return memory.Fault{Kind: memory.ErrorBefore}
					case c.Op == memory.OpRead:
						lag = false
						return past(100)
					}
					return memory.Fault{}
				}
				p := w.begin(plan)
				for !until(p) {
					p.step(inOrder)
				}
				if lag = !goes; goes {
					if err := w.store.Handle(nil).Delete(t.Context(), log, 100); err != nil {
						t.Fatal(err)
					}
				}
				for !p.done {
					p.step(inOrder)
				}
				if goes && !errors.Is(p.err, ledger.ErrCorrupt) || !goes && p.err != nil {
					t.Fatalf("it ended with %v", p.err)
				}
				if !goes {
					w.wantOn()
				}
			})
		}
	}
}

// A call on a list that is not answered, made or not, is not taken for done.
func TestListsWithoutAnAnswer(t *testing.T) {
	for _, name := range []string{"read list's run", "stop list", "read stream", "fill list", "start list"} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, %v", name, made), func(t *testing.T) {
				w := newListWorld(t)
				w.mustApply(numbers(30))
				w.grabAll()
				w.keepers[1].Restart()
				lost := 0
				c := w.command(phaseJob{pb.Phase_OPEN})
				for !c.done {
					c.step(inOrder, func(k calls.Call) (any, error) {
						if k.What != name || lost > 0 {
							return c.make(k), nil
						}
						if lost++; made {
							c.make(k)
						}
						return nil, context.DeadlineExceeded
					})
				}
				if c.err != nil || lost == 0 {
					t.Errorf("%d calls were not answered: %v", lost, c.err)
				}
				w.wantOn()
				w.mustPhase(pb.Phase_PAUSED)
				w.wantOff()
			})
		}
	}
}

// A node that fails again and again is not given up as long as each try comes further
// than those before.
func TestListsThatComeFurther(t *testing.T) {
	for name, test := range map[string]struct {
		further int // calls that are answered more, from one try to the next
		want    error
	}{
		"further each time": {1, nil},
		"as far each time":  {0, planner.ErrPartly},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			p := w.begin(w.mustPlan(numbers(90)))
			p.x.Sizes, p.x.core.Patience = lists.Sizes{Read: 10, Put: 1, Move: 10}, 40*time.Millisecond
			calls, most := 0, 5
			w.keepers[1].SetFaults(func(c memory.Call) memory.Fault {
				if calls++; c.Op == memory.OpInspect || calls <= most {
					return memory.Fault{}
				}
				calls, most = 0, most+test.further
				return memory.Fault{Kind: memory.ErrorBefore}
			})
			w.pass(time.Second) // no time is counted from 0
			began := w.now.Mono
			for !p.done {
				p.step(inOrder)
			}
			took := w.now.Mono - began
			if !errors.Is(p.err, test.want) || took <= 40*time.Millisecond || test.want != nil && took != 140*time.Millisecond {
				t.Errorf("after %v: %v, want %v", took, p.err, test.want)
			}
		})
	}
}

// What keeps a list from coming to what is wanted is told with a remedy.
func TestStuckLists(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		want lists.Want
		err  error
		says string
	}{
		"filling": {lists.On, broken,
			"list/1 on node b cannot be filled, tried for 10s (put): broken. If that server is gone for good, start an empty one at its address"},
		"stopping": {lists.Stopped, broken, "list/1 on node b cannot be stopped and drained, tried for 10s (put): broken. " +
			"If that server is gone for good, start an empty one at its address; grabs that the ledger lacks are then lost"},
		"a token of another": {lists.On, lists.ErrToken, "Another process rebuilds it: wait until it has finished"},
		"a part of another":  {lists.Stopped, lists.ErrLength, "Another process rebuilds it: wait until it has finished"},
	} {
		l := &listRebuild{x: &execution{Terms: Terms{Names: machine.Names{Lists: []string{"a", "b"}}}, core: machine.NewCore(10 * time.Second)}, shard: 1, want: test.want}
		if got := l.stuck(&lists.Call{Kind: lists.PutCall}, test.err).Error(); !strings.HasSuffix(got, test.says) {
			t.Errorf("%s: it says %q, want %q", name, got, test.says)
		}
	}
}

// A node that does not answer when it is to forget its lists is asked again a few
// times, and then left alone. Only what is forgotten is told as done.
func TestListsAreForgotten(t *testing.T) {
	const ms = time.Millisecond
	for fails := 1; fails <= sweepTries; fails++ {
		w := newListWorld(t)
		w.mustApply(numbers(30))
		p := w.begin(w.planDestroy())
		for w.actual().Sale.Sealed() == nil {
			p.step(inOrder)
		}
		var asked []time.Duration
		began := w.now.Mono
		w.keepers[0].SetFaults(memory.On(memory.OpForgetList, func(memory.Call) memory.Fault {
			if asked = append(asked, w.now.Mono-began); len(asked) <= fails {
				return memory.Fault{Kind: memory.ErrorBefore}
			}
			return memory.Fault{}
		}))
		for !p.done {
			p.step(inOrder)
		}
		want := []time.Duration{0, 40 * ms, 120 * ms, 280 * ms}[:min(fails+1, sweepTries)]
		if got := asked[:min(len(asked), len(want))]; !slices.Equal(got, want) || fails == sweepTries && len(asked) > len(want) {
			t.Errorf("asked after %v, want %v", asked, want)
		}
		told := make(map[string]bool)
		for _, step := range p.log {
			told[step.Address] = true
		}
		left := fails == sweepTries
		if p.err != nil || told["list/0"] == left || !told["list/1"] || told["list/2"] == left || len(p.x.result.Warnings) > 0 != left {
			t.Errorf("%d calls fail: %v, told of %v, warnings %q", fails, p.err, told, p.x.result.Warnings)
		}
	}
}

// A sale that is sealed can be destroyed without the nodes of its lists.
func TestListsWithoutTheirNodes(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.seal()
	w.keepers = nil
	w.mustDestroy()
}

// A node that comes back with what it had long ago tells of claims that the
// ledger has given to others since. They are counted, not taken.
func TestListsOnANodeFromThePast(t *testing.T) {
	for name, test := range map[string]struct {
		before pb.Phase
		job    job
	}{
		"resumed": {pb.Phase_PAUSED, phaseJob{pb.Phase_OPEN}},
		"raised":  {pb.Phase_OPEN, applyJob{numbers(40)}}, // where the list is stopped and filled
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(numbers(30))
			w.grab(1, 2)
			past := w.keepers[1].Snapshot()
			w.keepers[1].RestartEmpty()
			w.mustApply(numbers(30))
			clear(w.told) // it lost them
			w.grab(1, 2)
			w.mustPhase(pb.Phase_PAUSED)
			w.mustPhase(test.before)
			w.keepers[1].RestartFrom(past)
			c := w.command(test.job)
			if err := c.finish(); err != nil {
				t.Fatal(err)
			}
			if warnings := c.result.Warnings; len(warnings) != 1 ||
				!strings.HasPrefix(warnings[0], "list/1: node redis-1:6379 had recorded 2 claims that the ledger cannot take") {
				t.Errorf("warnings: %q", warnings)
			}
			w.wantOn()
			w.wantTold(w.ledgers())
		})
	}
}

// together has two commands work at once: each makes its calls, and waits where it
// must.
func together(a, b *command) {
	for !a.done || !b.done {
		for _, c := range []*command{a, b} {
			for calls := 0; !c.done && (calls == 0 || len(c.queue) > 0 && calls < 6); calls++ {
				c.step(inOrder, c.served)
			}
		}
	}
}

// Of two applies one fills a list, and the other lets it: once begun, it is not
// begun anew; and where both begin, one of them goes on.
func TestListsAreFilledByOne(t *testing.T) {
	for begun := 0; begun < 100; begun += 3 {
		w := newListWorld(t)
		job := applyJob{numbers(60000)}
		first, second := w.command(job), (*command)(nil)
		puts := 0
		for len(first.trace) < begun && !first.done {
			first.step(inOrder, first.served)
		}
		for _, call := range first.trace {
			if strings.HasSuffix(call, "fill list") {
				puts++
			}
		}
		second = w.command(job)
		together(first, second)
		if first.err != nil || second.err != nil && !errors.Is(second.err, planner.ErrStale) {
			t.Fatalf("after %d calls: %v, %v", begun, first.err, second.err)
		}
		w.wantOn()
		for i := range 3 {
			if fill := w.state(i).Fill; fill > 2 || puts >= 3 && fill != 1 {
				t.Errorf("after %d calls, %d of them puts: the list of shard %d was rebuilt %d times", begun, puts, i, fill)
			}
		}
	}
}

// Two destroys at once: a list is not rebuilt when its shard is closed.
func TestListsOfTwoDestroys(t *testing.T) {
	for seed := range uint64(60) {
		w, exported := newListWorld(t), new(sink)
		w.mustApply(packets(30))
		w.grabAll()
		random := rand.New(rand.NewPCG(seed, 5))
		a, b := w.command(exported.job()), w.command(exported.job())
		for !a.done || !b.done {
			if c := []*command{a, b}[random.IntN(2)]; !c.done {
				c.step(random.IntN, c.served)
			}
		}
		for _, err := range []error{a.err, b.err, w.command(exported.job()).finish()} {
			if err != nil && !errors.Is(err, planner.ErrStale) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		w.wantExported(exported, 6)
	}
}

// A list that still gives under a fill before the log's gives what the log does
// not take any more: it is rebuilt.
func TestListsOfAnOlderFill(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grab(1, 2)
	if err := w.owner(1).append(func(d *ledger.Draft) { d.Rebuild() }); err != nil {
		t.Fatal(err)
	}
	w.grab(1, 2)
	wantListed(t, w.mustPlan(numbers(30)), "update list/1 list off>on")
	w.mustPhase(pb.Phase_OPEN)
	w.wantOn()
	w.wantTold(w.ledgers())
}
