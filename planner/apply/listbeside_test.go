package apply

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/spec"
)

// stopsList reports whether a call is of a lists.Machine.
func stopsList(k calls.Call) bool {
	return k.What != "inspect list" && slices.Contains(slices.Collect(maps.Values(stepNames)), k.What)
}

// Another completes an apply while its lists are being stopped: they are not stopped
// again, nor filled anew.
func TestListsOfAnApplyThatAnotherCompletes(t *testing.T) {
	for name, about := range map[string]func(calls.Call) bool{
		"about to stop a list":             stopsList,
		"about to close its generation up": moments["to close a shard"],
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(numbers(30))
			w.grabAll()
			plan := w.mustPlan(numbers(24))
			p := w.begin(plan)
			p.stepTo(about)
			if err := w.run(plan); err != nil {
				t.Fatal(err)
			}
			w.wantOn()
			before := []lists.State{w.state(0), w.state(1), w.state(2)}
			w.grabAll()
			if err := p.finish(); err != nil {
				t.Fatal(err)
			}
			w.wantOn()
			for i, was := range before {
				if s := w.state(i); s.Fill != was.Fill {
					t.Errorf("the list of shard %d was filled again: %+v, was %+v", i, s, was)
				}
			}
			w.mustPhase(pb.Phase_PAUSED)
			w.wantOff()
			w.wantStock(24)
		})
	}
}

// A list that another has turned on again before a generation is appended is stopped
// again: what it gives meanwhile is not removed.
func TestListsThatAreOnAgain(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	p := w.begin(w.mustPlan(numbers(15)))
	about := func(k calls.Call) bool {
		return moments["to close a shard"](k) && strings.HasSuffix(requestOf(k).Log, "/1")
	}
	p.stepTo(about)
	s := ledger.NewState(spec.ShardLog(p.x.plan.UID, 1, 3))
	if _, err := ledger.Load(t.Context(), w.store.Handle(nil), spec.ShardLog(p.x.plan.UID, 1, 3), s); err != nil {
		t.Fatal(err)
	}
	w.refill(1)
	for range 8 {
		w.grab(1, 1)
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	w.wantOn()
	w.mustPhase(pb.Phase_PAUSED)
	w.wantOff()
}

// refill turns a shard's list on, as its owner does.
func (w *listWorld) refill(shard int) {
	w.Helper()
	o := w.owner(shard)
	m := lists.NewMachine(lists.List{UID: o.sale.UID(), Shard: shard}, lists.Sizes{})
	for m.SetTarget(w.now, lists.On); m.On() == 0 || m.On() != o.state.Fill; {
		if m.Due(w.now) {
			if err := o.append(func(d *ledger.Draft) { m.Draft(w.now, d, 0) }); err != nil {
				w.Fatal(err)
			}
			m.Committed(w.now, o.state)
			continue
		}
		c, _ := m.Next(w.now, o.state)
		if c == nil {
			w.Fatal("the list does not come on")
		}
		m.Done(w.now, c.Do(w.Context(), w.keeper(shard)))
	}
}

// While shards are made nothing is asked of their lists, which there are none of yet.
func TestListsOfShardsThatAreMade(t *testing.T) {
	w := newListWorld(t)
	w.runUntil(w.mustPlan(numbers(30)), 2)
	p := w.begin(w.mustPlan(numbers(40)))
	for !p.done {
		if p.x.stage == "applying the generation to the shards" && slices.ContainsFunc(p.queue, func(k calls.Call) bool { return k.List }) {
			t.Fatal("a list is asked for before its shard is there")
		}
		p.step(inOrder)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	w.wantOn()
}

// A sale without lists has nothing on the nodes that others have theirs on.
func TestNoListsAreForgotten(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(tickets(30))
	p := w.begin(w.planDestroy())
	for _, n := range w.keepers {
		n.SetFaults(always(memory.ErrorBefore))
	}
	if err := p.finish(); err != nil || len(p.x.result.Warnings) > 0 {
		t.Errorf("destroy: %v, warnings %q", err, p.x.result.Warnings)
	}
}

// An owner that comes to a shard's log while its list is rebuilt delays that by one
// append.
func TestListsBesideANewOwner(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grabAll()
	w.keepers[1].Restart()
	p := w.lister(pb.Phase_OPEN)
	w.owner(1)
	if err := p.finish(); err != nil || w.ledgers()[1].Fill != 2 {
		t.Errorf("%v, the log is at fill %d", err, w.ledgers()[1].Fill)
	}
	w.wantOn()
}

// A list that is on, but not under the fill that another has begun, is filled.
func TestListsOnUnderAnOlderFillThanAnothers(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	rebuilds := func() {
		if err := w.owner(1).append(func(d *ledger.Draft) { d.Rebuild() }); err != nil {
			t.Fatal(err)
		}
	}
	rebuilds()
	p := w.lister(pb.Phase_OPEN)
	rebuilds()
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	w.wantOn()
}

// A process that fills a list slowly is left to do so by another, for as long as the
// list changes.
func TestListsThatAreFilledSlowly(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(90))
	w.keepers[1].RestartEmpty()
	first := w.lister(pb.Phase_OPEN)
	first.x.Sizes.Put = 1
	first.x.shards[1].rebuild = nil
	second := w.lister(pb.Phase_OPEN)
	first.step(inOrder)
	for !second.done {
		for range 3 {
			if !first.done && len(first.queue) > 0 {
				first.step(inOrder)
			}
		}
		second.step(inOrder)
	}
	if err := first.finish(); err != nil || second.err != nil || w.ledgers()[1].Fill != 2 {
		t.Errorf("%v, %v, the log is at fill %d", err, second.err, w.ledgers()[1].Fill)
	}
	w.wantOn()
}
