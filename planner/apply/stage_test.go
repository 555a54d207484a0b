package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/planner/machine"
)

// stages steps a process to its end and lists what it says of itself on the way,
// each once.
func (p *process) stages() (said []string) {
	p.world.Helper()
	for {
		if s := p.x.String(); len(said) == 0 || said[len(said)-1] != s {
			said = append(said, s)
		}
		if p.done {
			return said
		}
		p.step(inOrder)
	}
}

// An execution can say where it is at any time.
func TestStagesOfAnApply(t *testing.T) {
	w := newWorld(t)
	first := w.begin(w.mustPlan(tickets(10)))
	want := []string{
		"apply: reading the lock nodes",
		"apply: reading the sale's log",
		"apply: appending Planned, slot 0",
		"apply: applying the generation to the shards, slot 1, 0 of 3 shards done",
		"apply: applying the generation to the shards, slot 1, 1 of 3 shards done",
		"apply: applying the generation to the shards, slot 1, 2 of 3 shards done",
		"apply: marking the lock nodes, slot 1, 3 of 3 shards done",
		"apply: appending Applied, slot 1, 3 of 3 shards done",
		"apply: appending Applied, slot 2, 3 of 3 shards done",
	}
	if got := first.stages(); !slices.Equal(got, want) || first.err != nil {
		t.Errorf("it says\n%s\nwant\n%s\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), first.err)
	}
	if got := w.begin(w.mustPlan(tickets(20))); !slices.Contains(got.stages(), "apply: appending Planned, slot 2") {
		t.Errorf("a later apply does not say that it appends to slot 2")
	}
}

func TestStagesOfADestroy(t *testing.T) {
	w := newListWorld(t)
	if got := w.begin(w.mustPlan(numbers(10))).stages(); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "apply: filling the lists") }) {
		t.Errorf("an apply says\n%s\nand does not fill the lists", strings.Join(got, "\n"))
	}
	plan, err := planner.MakeDestroy(w.actual())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range w.begin(plan).stages() {
		step, _, _ := strings.Cut(strings.TrimPrefix(s, "destroy: "), ",")
		if len(got) == 0 || got[len(got)-1] != step {
			got = append(got, step)
		}
	}
	want := []string{
		"reading the lock nodes", "reading the sale's log", "appending Planned", "applying the generation to the shards", "appending Applied",
		"ending transfers and holds", "sealing the shards", "exporting", "appending Sealed", "cleaning the lock nodes",
		"deleting the lists", "deleting the shards' logs", "appending Destroyed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w = newListWorld(t)
	w.mustApply(numbers(10))
	if got := w.beginPurge().stages(); !strings.HasPrefix(got[len(got)-1], "destroy: deleting the sale's log") {
		t.Errorf("a purge says in the end %q", got[len(got)-1])
	}
}

// Who interrupts an apply reads how far it has come.
func TestInterruptsSayHowFarItCame(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	p := w.begin(w.mustPlan(tickets(20)))
	for !strings.HasSuffix(p.x.String(), "1 of 3 shards done") {
		p.step(inOrder)
	}
	m := machine.New(p.x.core, p.x)
	m.Stop(w.now, context.Canceled)
	_, _, _, err := m.Next(w.now)
	const want = "(apply: applying the generation to the shards, slot 3, 1 of 3 shards done)"
	if !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %q in it", err, want)
	}
	w.mustPhase(pb.Phase_PAUSED)
}

func TestInterruptedReadingSaysWhereItWas(t *testing.T) {
	for _, at := range []string{"the sale's log", "the heads of the shards", "the lock nodes", "the lists"} {
		w := newListWorld(t)
		w.mustApply(numbers(10))
		c := w.command(applyJob{numbers(10)})
		for c.String() != "read: "+at {
			c.step(inOrder, c.served)
		}
		c.Stop(w.now, context.DeadlineExceeded)
		if c.look(); c.err == nil || c.err.Error() != "sale tickets: context deadline exceeded (read: "+at+")" {
			t.Errorf("it ends with %v", c.err)
		}
	}
}

// A log that is read in pages says how far it is read, and a shard is done only at the
// generation that it is brought to.
func TestExecutionSaysHowFarItIs(t *testing.T) {
	x := &execution{plan: &planner.Plan{Kind: planner.KindApply}, stage: "reading the sale's log", sale: said(t, plannedOp(workUID, 1, 1)), goal: 2}
	if got := x.String(); got != "apply: reading the sale's log, slot 1" {
		t.Errorf("it says %q", got)
	}
	for generation, want := range map[uint64]string{1: "0 of 2 shards done", 2: "1 of 2 shards done", 3: "1 of 2 shards done"} {
		x.shards = []shard{{}, {head: &ledger.Head{Totals: ledger.Totals{Generation: generation}}}}
		if got := x.String(); !strings.HasSuffix(got, want) {
			t.Errorf("at generation %d it says %q, want %q", generation, got, want)
		}
	}
}

func TestStagesOfAnApplyWithATable(t *testing.T) {
	w := newWorld(t)
	w.table = &fakeTable{}
	if got := w.begin(w.mustPlan(tickets(10))).stages(); !slices.Contains(got, "apply: checking the table") {
		t.Errorf("it says\n%s", strings.Join(got, "\n"))
	}
}
