package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// mark writes the sale's markers and passes on the nodes that never had one. Before the sale
// is first on every shard, a majority must have a marker. Later each node repairs its own, so
// one round is enough, and a change of phase makes none.
func (x *execution) mark(then func()) {
	x.begin(markingNodes)
	first := x.sale.Applied() == 0
	if !first && x.plan.Kind == planner.KindPhase {
		x.unmarked = x.sale.Unmarked()
		then()
		return
	}
	x.markRound(first, x.core.Now.Mono+x.core.Patience, machine.FirstPause, func() {
		x.noteUnmarked()
		x.unmarked = x.result.Unmarked
		then()
	})
}

func (x *execution) markRound(first bool, giveUp, pause time.Duration, then func()) {
	good, restarted, errs := 0, false, make([]error, len(x.nodes))
	x.core.All(len(x.nodes), func(i int, done func()) {
		x.markNode(i, func(err error) {
			x.nodes[i].unmarked, errs[i] = err, err
			switch {
			case err == nil:
				good++
				x.finished(planner.NodeAddress(x.nodes[i].name), "")
			case errors.Is(err, quorum.ErrOtherRun):
				// It may have lost its memory since the query, and must abstain.
				x.nodes[i].restarted, restarted = true, true
			}
			done()
		})
	}, func() {
		switch n := len(x.nodes); {
		case good == n, !restarted && (good > n/2 || !first):
			then()
		case x.core.Now.Mono > giveUp, quorum.NotPermitted(errs):
			x.core.End(fmt.Errorf("%d of %d lock nodes have a marker, and a new sale needs %d: %s", good, n, n/2+1, x.left()))
		default:
			x.core.After(pause, func() { x.markRound(first, giveUp, min(2*pause, machine.LastPause), then) })
		}
	})
}

// noteUnmarked adds to the result the nodes that have no marker and never had one. Other nodes
// without a marker only cause a warning: they repair it when they are reachable.
func (x *execution) noteUnmarked() {
	for i, n := range x.nodes {
		switch {
		case n.unmarked == nil:
		case planner.WasMarked(x.sale, n.name):
			x.warn("lock node %s cannot be used: %s", n.name, planner.ShortNodeError(n.name, n.unmarked))
			x.nodes[i].unmarked = nil
		default:
			x.result.Unmarked = append(x.result.Unmarked, n.name)
		}
	}
}

// markNode writes a marker that votes at once if that is safe: this process has read the
// nodes' run ids and then appended the plan, to a sale that is on no shard. So no lease can
// have been promised before those ids were read. Only an append proves that, since a read may
// lag. Otherwise a good marker is kept, and any other is repaired as one that abstains.
func (x *execution) markNode(i int, then func(error)) {
	marker, ofSale := spec.Marker(x.plan.UID), spec.SaleMarker(x.plan.Sale)
	mark := func(what, runID string, then func(error)) {
		machine.OnNode(x.core, i, what, machine.NoValue(func(ctx context.Context, node quorum.Node) error {
			if err := node.Mark(ctx, marker, runID); err != nil {
				return err
			}
			return node.Mark(ctx, ofSale, "")
		}), func(_ any, err error) { then(err) })
	}
	if n := x.nodes[i]; x.planned == stored && x.sale.Applied() == 0 && n.err == nil && !n.restarted {
		mark("mark", n.info.RunID, then)
		return
	}
	x.core.ReadMarker(i, x.plan.UID, func(found quorum.Marker, err error) {
		if err != nil {
			then(err)
			return
		}
		mark("mend marker", "", func(err error) { // a good marker is confirmed
			x.core.Changed = x.core.Changed || !found.Good && err == nil
			then(err)
		})
	})
}
