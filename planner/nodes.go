package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/spec"
)

// clockOff is how far our clock is ahead of a node's, known to half the time
// that the answer took.
func clockOff(sent, got clock.Now, info quorum.Info) time.Duration {
	return got.Wall.Sub(info.Time) - (got.Mono-sent.Mono)/2
}

// allNodes makes one call to each node and goes on when all have answered.
func (w *work) allNodes(newCall func(node int) call, answered func(node int, r reply), then func()) {
	left := len(w.nodes)
	if left == 0 {
		then()
		return
	}
	for i := range w.nodes {
		k := newCall(i)
		k.node = i
		w.call(k, func(r reply) {
			answered(i, r)
			if left--; left == 0 {
				then()
			}
		})
	}
}

// askNodes learns who the nodes are and what time they have. It comes before
// anything is read from the sale's log: see work.fresh.
func (w *work) askNodes(then func()) {
	sent := w.now
	w.allNodes(
		func(int) call { return call{kind: callInfo} },
		func(i int, r reply) {
			w.nodes[i].info, w.nodes[i].err = r.info, r.err
			w.nodes[i].off = clockOff(sent, w.now, r.info)
		},
		then)
}

// unfitOf returns, for each node that cannot be relied on, its name and why. Two
// names of one server are as bad as one server less: it votes twice, and fails
// twice. Of nodes that keep lists each clock has to be right, too: their shards' units are
// on no other node. Of those that only vote the median counts, in checkClock.
func unfitOf(nodes []workNode, keepLists bool) (unfit []string) {
	names := make(map[string]string) // by run id
	median, _ := medianOff(nodes)
	for _, n := range nodes {
		if n.err != nil {
			continue
		}
		wrong := median - n.off // our clock is ahead of the median by median, of the node by n.off
		switch twin, twice := names[n.info.RunID]; {
		case n.info.Unfit != "":
			unfit = append(unfit, n.name+": "+n.info.Unfit)
		case twice:
			unfit = append(unfit, n.name+": it is the same server as "+twin+". Name each server once.")
		case keepLists && wrong.Abs() > quorum.MaxTTL:
			unfit = append(unfit, fmt.Sprintf("%s: its clock is %s the median of the nodes' clocks. Set it right.", n.name, aheadOrBehind(wrong)))
		}
		names[n.info.RunID] = n.name
	}
	return unfit
}

// asked returns the nodes as a machine has them that has asked them.
func (a *Actual) asked() (nodes []workNode) {
	for _, n := range a.Nodes {
		nodes = append(nodes, workNode{name: n.Name, info: n.Info, err: n.Err, off: n.Off})
	}
	return nodes
}

// aheadOrBehind says how far a clock is from another.
func aheadOrBehind(by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%v behind", -by.Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", by.Round(time.Second))
}

// medianOff returns how far our clock is ahead of the median of the nodes' clocks.
// false: no node answers.
func medianOff(nodes []workNode) (time.Duration, bool) {
	var off []time.Duration
	for _, n := range nodes {
		if n.err == nil {
			off = append(off, n.off)
		}
	}
	if len(off) == 0 {
		return 0, false
	}
	slices.Sort(off)
	low, high := off[(len(off)-1)/2], off[len(off)/2]
	return low + (high-low)/2, true
}

// checkNodes ends an apply whose nodes are not set up as they must be. One that
// begins a sale waits for a majority of them before it writes anything: the sale
// could not be sold without, and the clock not be checked.
func (w *work) checkNodes(then func()) {
	giveUp, pause := w.now.Mono+min(w.patience, nodePatience), firstPause
	told := false
	var look func()
	look = func() {
		var silent []string
		for _, n := range w.nodes {
			if n.err != nil {
				silent = append(silent, n.name+": "+nodeShort(n.name, n.err))
			}
		}
		unfit := unfitOf(w.nodes, len(w.lists) > 0)
		all, why := len(w.nodes), strings.Join(silent, "; ")
		switch begins := w.intent.GetGeneration() == 1; {
		case w.plan.Kind != KindApply:
			then()
		case len(unfit) > 0:
			w.end(unfitNodes(unfit))
		case !begins || 2*len(silent) < all || all == 0:
			then()
		case w.now.Mono > giveUp:
			w.end(fmt.Errorf("%w: %d of %d lock nodes answer, and a new sale needs %d: %s",
				ErrTimeout, all-len(silent), all, all/2+1, why))
		default:
			if !told {
				w.doing(saleAddress(w.plan.Sale), "wait", "for a majority of the lock nodes: "+why)
			}
			told = true
			w.after(pause, func() { w.askNodes(look) })
			pause = min(2*pause, lastPause)
		}
	}
	look()
}

// nodePatience bounds the wait for a majority of the nodes.
const nodePatience = 10 * time.Second

// unfitNodes refuses a change, each node with its own words.
func unfitNodes(words []string) *Refusal {
	return &Refusal{Reason: "lock nodes are not set up as they must be", Remedy: strings.Join(words, "\n")}
}

// checkClock refuses to write by a clock that is more than a ttl off the median
// of the nodes': deadlines would end early or late for everybody. Where no node
// answers there is nothing to compare with, and work on the sale goes on: a
// planner must be able to close it.
func (w *work) checkClock() error {
	median, known := medianOff(w.nodes)
	if !known {
		if len(w.nodes) > 0 {
			w.warn("no lock node answers, so this host's clock could not be checked: what is appended has the time of the log that it goes to (%s)",
				nodeShort(w.nodes[0].name, w.nodes[0].err))
			w.unclocked = true
		}
		return nil
	}
	ttl := w.ttl()
	if median.Abs() <= ttl {
		return nil
	}
	for _, n := range w.nodes {
		if n.err == nil && n.info.Carried {
			return &Refusal{Reason: clockWasSet(n.off), Remedy: trustRemedy}
		}
	}
	return &Refusal{
		Reason: fmt.Sprintf("this host's clock is %v off the median of the lock nodes' clocks, and %v is allowed",
			median.Round(time.Millisecond), ttl),
		Remedy: "Set the clocks right, then run it again.",
	}
}

// clockWasSet says that a node without a clock of its own does not believe this host's.
func clockWasSet(by time.Duration) string {
	way := "forward"
	if by < 0 {
		way = "back"
	}
	return fmt.Sprintf("this host's clock was set %s by %v, and no time server keeps it right", way, by.Abs().Round(time.Second))
}

const trustRemedy = "Set it right; if it is right now and was wrong before, run apply --trust-clock."

// findOwner learns whether a process serves the sale: whether a majority of the
// nodes has the lease of shard 0, or may have, where some do not answer.
func (w *work) findOwner(then func(alive bool)) {
	key := spec.LeaseKey(w.plan.UID, 0)
	votes, silent := make(map[string]int), 0
	most := 0
	w.allNodes(
		func(int) call { return call{kind: callFindOwner, prefix: key} },
		func(_ int, r reply) {
			if r.err != nil {
				silent++
			}
			for _, h := range r.holdings {
				if h.Key == key {
					votes[h.Token]++
					most = max(most, votes[h.Token])
				}
			}
		},
		func() { then(most+silent > len(w.nodes)/2) })
}

// sweep removes what the nodes still have of the sale: whatever leases are left
// and the marker. Whoever serves the sale reads within a ttl that it is sealed
// and gives its leases back; a renewal that came after the marker is gone would
// leave a new one. A node that cannot be reached is left alone after a while: a
// lease there runs out, and a marker of a sale that is no more is never asked.
// The next destroy sweeps again.
func (w *work) sweep(then func()) {
	left := len(w.nodes)
	if left == 0 {
		then()
		return
	}
	freeBy := w.now.Mono + w.ttl()
	for i := range w.nodes {
		w.sweepNode(i, 1, freeBy, func() {
			if left--; left == 0 {
				then()
			}
		})
	}
}

const sweepTries = 4

func (w *work) sweepNode(i, try int, freeBy time.Duration, then func()) {
	failed := func(err error) {
		if try == sweepTries {
			w.warn("lock node %s was not swept: %s. Leases there run out within %v, its marker is never asked for again;"+
				" destroy, run again when the node is up, removes it", w.nodes[i].name, nodeShort(w.nodes[i].name, err), w.ttl())
			then()
			return
		}
		w.after(firstPause<<try, func() { w.sweepNode(i, try+1, freeBy, then) })
	}
	w.call(call{kind: callFindLeases, node: i, prefix: spec.LeasePrefix(w.plan.UID)}, func(r reply) {
		if r.err != nil {
			failed(r.err)
			return
		}
		if len(r.holdings) > 0 && w.now.Mono < freeBy {
			w.after(pollOwner, func() { w.sweepNode(i, try, freeBy, then) })
			return
		}
		var asks []quorum.Ask
		for _, h := range r.holdings {
			asks = append(asks, quorum.Ask{Key: h.Key, Token: h.Token})
		}
		w.call(call{kind: callRelease, node: i, asks: asks}, func(r reply) {
			if r.err != nil {
				failed(r.err)
				return
			}
			w.call(call{kind: callForget, node: i, marker: spec.Marker(w.plan.UID)}, func(r reply) {
				if r.err != nil {
					failed(r.err)
					return
				}
				w.finished(nodeAddress(w.nodes[i].name), "")
				then()
			})
		})
	})
}
