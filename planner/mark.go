package planner

import (
	"errors"
	"fmt"
	"time"

	"salectl/backends/quorum"
	"salectl/spec"
)

// mark writes the sale's markers. Before the sale is on every shard for the
// first time a majority must have one; later each node mends itself, so one
// round is enough, and a change of phase does not wait for that. Which nodes
// have none in the end stands in the result.
func (w *work) mark(then func()) {
	first := w.sale.Applied() == 0
	if !first && w.plan.Kind == KindPhase {
		then()
		return
	}
	w.markRound(first, w.now.Mono+w.patience, firstPause, then)
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
			w.noteUnmarked()
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

func (w *work) noteUnmarked() {
	for _, n := range w.nodes {
		if n.unmarked != nil {
			w.result.Unmarked = append(w.result.Unmarked, n.name)
		}
	}
}

// markNode writes a marker that votes at once where that is known to be safe.
// Otherwise one that is good is left alone, and any other is mended in the
// abstaining form.
func (w *work) markNode(i int, then func(error)) {
	k := call{kind: callMark, node: i, marker: spec.Marker(w.plan.UID)}
	if n := w.nodes[i]; w.fresh && n.err == nil && !n.restarted {
		k.runID = n.info.RunID
		w.call(k, func(r reply) { then(r.err) })
		return
	}
	w.call(call{kind: callReadMarker, node: i, marker: k.marker}, func(r reply) {
		if r.err != nil || r.marker.Good {
			then(r.err)
			return
		}
		w.call(k, func(r reply) {
			w.changed = w.changed || r.err == nil
			then(r.err)
		})
	})
}
