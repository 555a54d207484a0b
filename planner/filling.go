package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

func listAddress(i int) string { return fmt.Sprintf("list/%d", i) }

// engineOf says what gives out the units of a generation.
func engineOf(p *pb.Planned) spec.Engine {
	old, _ := declared(p) // one that cannot be read names none
	return old.Engine
}

// onLists says whether the sale's units are given out by lists.
func (w *work) onLists() bool { return engineOf(w.sale.Newest()) == spec.EngineRedis }

// checkLists refuses to bring shards to a generation whose lists are on other nodes
// than this process knows: what they have given would be missed.
func (w *work) checkLists(p *pb.Planned) error {
	old, err := declared(p)
	if err != nil || old.Engine != spec.EngineRedis {
		return err
	}
	return sameLists(w.plan.Sale, old, w.lists)
}

// sameLists refuses nodes that are not the declared ones, in their order: a
// shard's place among the lists follows from it.
func sameLists(sale string, old spec.Sale, names []string) error {
	if declared := old.ListNodes(); len(declared) > 0 && slices.Equal(declared, names) {
		return nil
	}
	given := "none"
	if len(names) > 0 {
		given = strings.Join(names, ", ")
	}
	return &Refusal{
		Reason: fmt.Sprintf("the lists of sale %s are on %s, and its file names %s", sale, strings.Join(old.ListNodes(), ", "), given),
		Remedy: "Write redis.nodes as they are declared, in that order. To change them, run 'salectl pause' with the old ones, then 'salectl apply' with the new.",
	}
}

// stopList has a shard's list stopped and drained before a generation is appended
// to the shard's log: only then does the log know which units are available. A
// shard whose phase is not open has no list that gives, and one without a fill
// never had one.
func (d *drive) stopList(i int, then func()) {
	s := d.states[i]
	open := func(s *ledger.State) bool { return s.Phase == ledger.PhaseOpen && s.Generation < d.goal }
	if !d.onLists() || s.Fill == 0 || !open(s) || d.machines[i] != nil && d.machines[i].Stopped(s) {
		then()
		return
	}
	d.bring(i, lists.Stopped, func(s *ledger.State) bool { return !open(s) }, then)
}

// fillLists turns every list on, once each shard has a generation in which it may
// give. Where a process serves the sale its owner does that, and sooner: it gets
// a ttl. Nobody is disturbed who fills a list right now.
func (w *work) fillLists(goal uint64, then func()) {
	p, _ := w.sale.Planned(goal)
	if !w.onLists() || p.GetSettings().GetPhase() != pb.Phase_OPEN {
		then()
		return
	}
	began := w.now.Mono
	fill := func(alive bool) {
		w.each(w.allShards(), func(i int, done func()) {
			w.fillList(i, alive, began, func() {
				w.shards[i], w.states[i], w.machines[i] = nil, nil, nil // a log may be large
				w.finished(listAddress(i), "")
				done()
			})
		}, then)
	}
	if w.sale.Applied() == 0 {
		fill(false) // nobody serves it yet
		return
	}
	w.findOwner(fill)
}

func (w *work) fillList(i int, alive bool, began time.Duration, done func()) {
	mayNot := func(s *ledger.State) bool { return s.Phase != ledger.PhaseOpen }
	var seen lists.State
	var look func()
	look = func() {
		w.inspect(i, func(r reply) {
			head, changes := w.heads[i], r.err == nil && r.state != seen
			switch {
			case r.err == nil && r.state.On && r.state.Fill == head.Fill, head.Phase != ledger.PhaseOpen:
				done()
			case alive && w.now.Mono < began+w.ttl(), changes && (!r.state.On || r.state.Fill > head.Fill):
				seen = r.state
				w.after(pollOwner, func() { w.readHead(i, look) })
			default:
				w.bring(i, lists.On, mayNot, done)
			}
		})
	}
	look()
}

// readHead reads a shard's head again. One that is not there is a read that lags.
func (w *work) readHead(i int, then func()) {
	w.insist(call{kind: callHeads, logs: shardLogs(w.sale)[i : i+1]}, func(r reply) {
		head, err := parseHead(r.heads[0])
		if err != nil {
			w.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(i), err))
			return
		}
		if head != nil {
			w.heads[i] = head
		}
		then()
	})
}

// forgetLists removes what the nodes have of the sale's lists. A node that cannot
// be reached is left alone after a while: what it has is of a run that is no more.
func (t *teardown) forgetLists(then func()) {
	left := len(t.lists)
	if !t.onLists() || left == 0 {
		then()
		return
	}
	for node := range t.lists {
		t.forgetFrom(node, 0, 1, func(all bool) {
			for i := range t.allShards() {
				if all && spec.ListNode(i, len(t.lists)) == node {
					t.finished(listAddress(i), "")
				}
			}
			if left--; left == 0 {
				then()
			}
		})
	}
}

// forgetFrom removes the lists from a shard on, one after the other. Each node is
// asked for all: an earlier declaration may have had the nodes in another order.
func (t *teardown) forgetFrom(node, shard, try int, then func(all bool)) {
	if shard == t.sale.Shards() {
		then(true)
		return
	}
	t.call(call{kind: callForgetList, node: node, list: t.list(shard)}, func(r reply) {
		switch {
		case r.err == nil:
			t.forgetFrom(node, shard+1, 1, then)
		case try == sweepTries:
			t.warn("node %s may still have lists of the sale: %s. They are never asked for again;"+
				" destroy, run again when the node is up, removes them", t.lists[node], nodeShort(t.lists[node], r.err))
			then(false)
		default:
			t.after(firstPause<<try, func() { t.forgetFrom(node, shard, try+1, then) })
		}
	})
}
