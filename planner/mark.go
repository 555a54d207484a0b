package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// mark writes the sale's markers. Before the sale is on every shard for the
// first time a majority must have one; later each node mends itself, so one
// round is enough, and a change of phase does not wait for that. then gets the
// nodes that never had one.
func (w *work) mark(then func(unmarked []string)) {
	first := w.sale.Applied() == 0
	if !first && w.plan.Kind == KindPhase {
		then(w.sale.Unmarked())
		return
	}
	w.markRound(first, w.now.Mono+w.patience, firstPause, func() {
		w.noteUnmarked()
		then(w.result.Unmarked)
	})
}

func (w *work) markRound(first bool, giveUp, pause time.Duration, then func()) {
	good, left := 0, len(w.nodes)
	restarted := false
	answered := func(i int, err error) {
		w.nodes[i].unmarked = err
		switch {
		case err == nil:
			good++
			w.finished(nodeAddress(w.nodes[i].name), "")
		case errors.Is(err, quorum.ErrOtherRun):
			// It may have lost its memory since it was asked: it must abstain.
			w.nodes[i].restarted, restarted = true, true
		}
	}
	done := func() {
		switch n := len(w.nodes); {
		case good == n, !restarted && (good > n/2 || !first):
			then()
		case w.now.Mono > giveUp:
			w.end(fmt.Errorf("%d of %d lock nodes have a marker, and a new sale needs %d: %s", good, n, n/2+1, w.left()))
		default:
			w.after(pause, func() { w.markRound(first, giveUp, min(2*pause, lastPause), then) })
		}
	}
	if left == 0 {
		done()
	}
	for i := range w.nodes {
		w.markNode(i, func(err error) {
			answered(i, err)
			if left--; left == 0 {
				done()
			}
		})
	}
}

// noteUnmarked puts into the result the nodes that have no marker now and never
// had one. Of the others only a warning is due: those mend themselves when they
// are back.
func (w *work) noteUnmarked() {
	for i, n := range w.nodes {
		switch {
		case n.unmarked == nil:
		case wasMarked(w.sale, n.name):
			w.warn("lock node %s cannot be reached: %s", n.name, nodeShort(n.name, n.unmarked))
			w.nodes[i].unmarked = nil
		default:
			w.result.Unmarked = append(w.result.Unmarked, n.name)
		}
	}
}

// wasMarked says whether a node has had the sale's marker, as far as the sale's
// log tells: it belonged to the sale when a generation was applied, and was not
// left out then.
func wasMarked(sale *ledger.Sale, node string) bool {
	if sale.Applied() == 0 || slices.Contains(sale.Unmarked(), node) {
		return false
	}
	p, _ := sale.Planned(sale.Applied())
	old, err := declared(p)
	if err != nil {
		return false
	}
	locks, err := old.Locks()
	return err == nil && slices.Contains(locks.Nodes, node)
}

// markNode writes a marker that votes at once where that is known to be safe.
// Otherwise one that is good is left alone, and any other is mended in the
// abstaining form.
func (w *work) markNode(i int, then func(error)) {
	k := call{kind: callMark, node: i, marker: spec.Marker(w.plan.UID)}
	if n := w.nodes[i]; w.fresh && w.sale.Applied() == 0 && n.err == nil && !n.restarted {
		k.runID = n.info.RunID
		w.call(k, func(r reply) { then(r.err) })
		return
	}
	w.call(call{kind: callReadMarker, node: i, marker: k.marker}, func(r reply) {
		if r.err != nil {
			then(r.err)
			return
		}
		bad := !r.marker.Good
		w.call(k, func(r reply) { // of a good one it makes sure that it stays
			w.changed = w.changed || bad && r.err == nil
			then(r.err)
		})
	})
}
