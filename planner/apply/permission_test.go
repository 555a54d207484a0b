package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/current"
)

// What a store or a node does not permit it does not permit a moment later either: nothing
// waits for that. In these tests time passes only where something waits.

// denies makes a node permit nothing of what these methods do, of all if none is named.
func denies(ops ...memory.Op) memory.Faults {
	return func(c memory.Call) memory.Fault {
		if len(ops) == 0 || slices.Contains(ops, c.Op) {
			return memory.Fault{Kind: memory.Denied}
		}
		return memory.Fault{}
	}
}

// took returns how long something waited.
func (w *world) took(do func()) time.Duration {
	began := w.now.Mono
	do()
	return w.now.Mono - began
}

// atOnce fails unless an error came without a wait and has all of what it is to say.
func (w *world) atOnce(what string, do func() error, says ...string) (err error) {
	w.Helper()
	if took := w.took(func() { err = do() }); took != 0 {
		w.Errorf("%s: it took %v", what, took)
	}
	for _, text := range append(says, fs.ErrPermission.Error()) {
		if err == nil || !strings.Contains(err.Error(), text) {
			w.Errorf("%s: %v; want %q in it", what, err, text)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "tried for") || errors.Is(err, planner.ErrTimeout)) {
		w.Errorf("%s: %v; it was not tried again", what, err)
	}
	return err
}

func TestNodesThatDoNotPermit(t *testing.T) {
	for _, test := range []struct {
		name   string
		denied []int // nodes
		down   []int
		ops    []memory.Op
		says   []string // of the apply of a new sale; none: it goes on
		begun  bool     // the sale's log has the plan
	}{
		{name: "none", denied: []int{0, 1, 2}, says: []string{"nothing was changed: a new sale needs 2 of 3 lock nodes", "node-0: ", "node-1: ", "node-2: "}},
		{name: "a minority", denied: []int{1}, says: []string{"lock node node-1 could not be marked: "}, begun: true},
		{name: "beside one that is down", denied: []int{0, 2}, down: []int{1}, says: []string{"node-0: ", "node-2: "}},
		{name: "what writes", denied: []int{0, 1, 2}, ops: []memory.Op{memory.OpMark}, says: []string{"0 of 3 lock nodes have a marker", "node-2"}, begun: true},
		{name: "what writes, on a majority", denied: []int{0, 1}, ops: []memory.Op{memory.OpMark}, says: []string{"1 of 3 lock nodes have a marker", "node-1"}, begun: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			plan := w.mustPlan(tickets(10))
			for _, i := range test.denied {
				w.nodes[i].SetFaults(denies(test.ops...))
			}
			for _, i := range test.down {
				down(w.nodes[i])
			}
			var p *process
			err := w.atOnce("apply", func() error {
				for p = w.begin(plan); !p.done; {
					p.step(inOrder)
				}
				return p.x.Outcome(p.err)
			}, test.says...)
			if begun := w.actual().Sale.Generation() == 1; begun != test.begun || errors.Is(err, planner.ErrPartly) != test.begun {
				t.Errorf("%v, and the sale's log has the plan: %v", err, begun)
			}
		})
	}
}

// One node that does not permit what it is asked keeps nobody from what a majority can do,
// and is shown.
func TestAMinorityThatDoesNotPermit(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.nodes[1].SetFaults(denies())
	if plan := w.mustPlan(tickets(20)); !slices.ContainsFunc(plan.Warnings, func(s string) bool {
		return strings.HasPrefix(s, "lock node node-1 cannot be used: ") && strings.HasSuffix(s, fs.ErrPermission.Error())
	}) {
		t.Errorf("warnings: %q", plan.Warnings)
	}
	p := w.begin(w.mustPlan(tickets(20)))
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil || len(p.x.result.Warnings) != 1 || !strings.Contains(p.x.result.Warnings[0], "node-1") {
		t.Errorf("apply: %v, %q", p.err, p.x.result.Warnings)
	}
	for _, n := range w.nodes { // and a live sale is changed without them, as if they were away
		n.SetFaults(denies())
	}
	if err := w.run(w.mustPlan(tickets(30))); err != nil || w.actual().Sale.Applied() != 3 {
		t.Errorf("apply beside nodes none of which permits it: %v", err)
	}
	for i, n := range w.nodes {
		if n.SetFaults(nil); i == 1 {
			n.SetFaults(denies())
		}
	}
	p = w.begin(w.planDestroy())
	if took := w.took(func() {
		for !p.done {
			p.step(inOrder)
		}
	}); p.err != nil || took != 0 || len(p.x.result.Warnings) != 1 || !strings.Contains(p.x.result.Warnings[0], "node-1 was not cleaned") {
		t.Errorf("destroy: %v, %q, after %v", p.err, p.x.result.Warnings, took)
	}
}

func TestListNodesThatDoNotPermit(t *testing.T) {
	w := newListWorld(t)
	w.keepers[1].SetFaults(denies(memory.OpStop))
	err := w.atOnce("apply", w.command(applyJob{numbers(30)}).finish, "list/1 on node redis-1:6379 cannot be filled (stop)")
	if !errors.Is(err, planner.ErrPartly) {
		t.Errorf("apply: %v", err)
	}
	w.keepers[1].SetFaults(nil)
	w.mustApply(numbers(30))
	w.wantOn()
	w.keepers[1].SetFaults(denies())
	w.atOnce("pause", w.command(phaseJob{pb.Phase_PAUSED}).finish, "list/1 on node redis-1:6379 cannot be stopped and drained (run id)")
	w.keepers[1].SetFaults(nil)
	w.mustPhase(pb.Phase_PAUSED)
	w.keepers[1].SetFaults(denies(memory.OpInspect))
	w.atOnce("resume", w.command(phaseJob{pb.Phase_OPEN}).finish, "list/1 on node redis-1:6379 cannot be read")
	w.keepers[1].SetFaults(nil)
	w.mustPhase(pb.Phase_PAUSED)
	w.keepers[1].SetFaults(denies())
	w.atOnce("destroy", func() error {
		c := w.command(new(sink).job())
		if err := c.finish(); err != nil || len(c.result.Warnings) != 1 {
			t.Errorf("destroy: %v, with the warnings %q", err, c.result.Warnings)
		}
		return errors.New(c.result.Warnings[0])
	}, "node redis-1:6379 may still have lists")
}

// Where the lock nodes keep the lists as well, what they do not permit is known before
// anything is written.
func TestListsOfLockNodesThatDoNotPermit(t *testing.T) {
	w := newListWorld(t)
	for i, n := range w.keepers {
		w.nodes[i] = memory.NewNode(n.Name(), epoch)
	}
	w.mustApply(numbers(30))
	plan := w.mustPlan(numbers(40))
	w.nodes[1].SetFaults(denies())
	w.atOnce("apply", func() error { return w.run(plan) }, "nothing was changed: an apply needs all nodes that keep lists", "redis-1:6379: ")
	if got := w.actual().Sale.Generation(); got != 1 {
		t.Errorf("the sale is at generation %d", got)
	}
	w.nodes[1].SetFaults(nil)
	w.nodes[2].SetFaults(denies()) // it keeps none
	if err := w.run(plan); err != nil {
		t.Errorf("with a lock node that does not permit it: %v", err)
	}
}

func TestStoreThatDoesNotPermit(t *testing.T) {
	denied := memory.Fault{Kind: memory.Denied}
	for name, op := range map[string]memory.Op{
		"append": memory.OpAppend, "read": memory.OpRead, "heads": memory.OpHeads,
	} {
		w := newWorld(t)
		w.mustApply(tickets(10))
		plan := w.mustPlan(tickets(20))
		w.faults = memory.On(op, func(memory.Call) memory.Fault { return denied })
		err := w.atOnce(name, func() error { return w.run(plan) })
		if !errors.Is(err, planner.ErrStore) {
			t.Errorf("%s: %v, want ErrStore", name, err)
		}
	}
	w := newWorld(t)
	w.mustApply(tickets(10))
	reads := 0
	w.faults = memory.On(memory.OpRead, func(memory.Call) memory.Fault { reads++; return denied })
	if _, err := current.ReadSale(t.Context(), w.config().Backends, "tickets"); !errors.Is(err, planner.ErrStore) || !errors.Is(err, fs.ErrPermission) || reads != 1 {
		t.Errorf("reading: %v, after %d reads", err, reads)
	}
}

func TestTableThatIsNotPermitted(t *testing.T) {
	denied := fmt.Errorf("the master: %w", fs.ErrPermission)
	for name, fails := range map[string]func(*fakeTable){
		"checked": func(f *fakeTable) { f.checks = func() error { return denied } },
		"made":    func(f *fakeTable) { f.creates = func() error { return denied } },
	} {
		w := newWorld(t)
		w.table = &fakeTable{}
		plan := w.mustPlan(tickets(10))
		fails(w.table)
		err := w.atOnce(name, func() error { return w.run(plan) }, "table sales: the master")
		if !errors.Is(err, planner.ErrStore) || errors.Is(err, planner.ErrPartly) || errors.Is(err, ledger.ErrNoTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
