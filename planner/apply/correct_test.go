package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/spec"
)

// onNodes is a sale of engine redis on nodes, and a world in which its processes use these.
func (w *listWorld) onNodes(nodes ...*memory.Lists) spec.Sale {
	w.keepers = nodes
	s := numbers(30)
	s.Redis = &spec.Redis{}
	for _, n := range nodes {
		s.Redis.Nodes = append(s.Redis.Nodes, n.Name())
	}
	return s
}

// correctable returns a world, its two nodes and a third that nobody means.
func correctable(t *testing.T) (w *listWorld, right []*memory.Lists, wrong *memory.Lists) {
	w = newListWorld(t)
	return w, w.keepers, memory.NewLists("redis-9:6379", func() time.Time { return w.now.Wall })
}

// A sale that was never on every shard has its nodes corrected in place; one that was is paused
// before, since a process may serve it.
func TestNodesAreCorrected(t *testing.T) {
	w, right, wrong := correctable(t)
	declared := w.onNodes(right[0], wrong)
	wrong.SetFaults(always(memory.ErrorBefore))
	if _, err := w.apply(w.mustPlan(declared)); !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "on node redis-9:6379 cannot be filled, tried for 200ms") {
		t.Fatalf("apply: %v", err)
	}
	if sale := w.actual().Sale; sale.Applied() != 0 {
		t.Fatalf("generation %d is said to be on every shard", sale.Applied())
	}
	corrected := w.onNodes(right...)
	corrected.Ack = spec.AckRedis
	plan := w.mustPlan(corrected)
	if err := w.run(plan); err != nil {
		t.Fatalf("apply: %v", err)
	}
	w.wantOn()
	if sale := w.actual().Sale; sale.Applied() != 2 || len(w.mustPlan(corrected).Actions) != 0 {
		t.Errorf("generation %d is applied, and to do is %+v", sale.Applied(), w.mustPlan(corrected).Actions)
	}

	swapped := w.onNodes(right[1], right[0])
	swapped.Ack = spec.AckRedis
	_, err := planner.Make(swapped, w.actual())
	if refusal := (*planner.Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, "its nodes and their order cannot change") ||
		!strings.HasPrefix(refusal.Remedy, "Run 'salectl pause' with the file as it was, then ") {
		t.Errorf("plan: %v", err)
	}
	w.onNodes(right...)
	w.mustPhase(pb.Phase_PAUSED)
	w.onNodes(right[1], right[0])
	w.mustApply(swapped)
	w.mustPhase(pb.Phase_OPEN)
	w.wantOn()
}

// An apply on the wrong nodes goes on while another corrects them: whichever of its calls that
// comes before, the lists of the sale are those of the nodes declared last, and the sale is
// known to be on every shard only when they are.
func TestNodesAreCorrectedBesideAnApply(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	named := false // an apply has said why it ends
	for n := range 4 {
		turned, pace := n%2 == 1, 1+n/2 // steps of the correction for each of the apply
		for before := 0; ; before++ {
			w, right, wrong := correctable(t)
			declared := w.onNodes(right[0], wrong)
			p := w.begin(w.mustPlan(declared))
			for calls := 0; calls < before && !p.done; calls++ {
				p.step(inOrder)
			}
			if w.actual().Sale.Applied() > 0 {
				break // it was faster
			}
			corrected := w.onNodes(right...)
			if turned {
				corrected = w.onNodes(right[1], right[0])
			}
			name := fmt.Sprintf("after %d calls, the nodes in another order %v, %d steps for one", before, turned, pace)
			begun := w.actual().Sale.Generation() > 0
			other := w.begin(w.mustPlan(corrected))
			for !other.done || !p.done { // both go on, by turns
				for range pace {
					if !other.done {
						other.step(inOrder)
					}
				}
				if !p.done {
					p.step(inOrder)
				}
				if s := w.actual().Sale; s.Applied() == 1 && s.Generation() == 2 && begun {
					t.Fatalf("%s: generation 1 is said to be applied when its nodes were corrected", name)
				}
			}
			if corrects, applies := other.err == nil && errors.Is(p.err, planner.ErrStale), p.err == nil && errors.Is(other.err, planner.ErrStale); !corrects && !applies {
				t.Fatalf("%s: the correction ends with %v, the apply with %v", name, other.err, p.err)
			}
			if other.err != nil {
				continue
			}
			named = named || strings.Contains(p.err.Error(), "was declared on other nodes meanwhile")
			w.wantOn()
			for shard := range 3 {
				l := lists.List{UID: w.actual().Sale.UID(), Shard: shard}
				if s, err := wrong.Inspect(t.Context(), l); err != nil || s.On && s.Fill >= w.ledgers()[shard].Fill {
					t.Fatalf("%s: the wrong node has a list that gives: %+v, %v", name, s, err)
				}
			}
		}
	}
	if !named {
		t.Error("no apply ended since the sale was declared on other nodes meanwhile")
	}
}

// The lock nodes of a sale that was never on every shard are corrected in place, too: no process
// has a lease there.
func TestLockNodesAreCorrected(t *testing.T) {
	w := newWorld(t)
	p := w.begin(w.mustPlan(tickets(10)))
	for w.actual().Sale == nil || w.actual().Sale.Generation() == 0 {
		p.step(inOrder)
	}
	if applied := w.actual().Sale.Applied(); applied != 0 {
		t.Fatalf("generation %d is applied", applied)
	}
	corrected := with(tickets(10), func(s *spec.Sale) {
		s.Homes = &spec.Homes{Ledger: s.Homes.Ledger, Locks: spec.Home{Kind: "memory", Place: "memory", Nodes: []string{"node-7"}}}
	})
	if _, err := planner.Make(corrected, w.actual()); err != nil {
		t.Errorf("plan: %v", err)
	}
}
