package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// askNodes reads the identity and time of each node. It must precede every read of the sale's
// log; see markNode.
func (x *execution) askNodes(then func()) {
	x.begin(askingNodes)
	sent := x.core.Now
	x.core.All(len(x.nodes), func(i int, done func()) {
		x.core.Info(i, func(info quorum.Info, err error) {
			x.nodes[i].info, x.nodes[i].err = info, err
			x.nodes[i].off = quorum.ClockOff(sent, x.core.Now, info)
			done()
		})
	}, then)
}

func (x *execution) asked() (nodes []quorum.NodeInfo) {
	for _, n := range x.nodes {
		nodes = append(nodes, quorum.NodeInfo{Name: n.name, Info: n.info, Err: n.err, Off: n.off})
	}
	return nodes
}

// checkNodes ends an apply if its nodes are not set up as required or do not permit what it
// needs: a majority of the voting nodes for a new sale, and all list nodes. An apply that
// begins a sale waits for a majority before it writes: without one the sale could not be sold,
// nor the clock be checked.
func (x *execution) checkNodes(then func()) {
	giveUp, pause := x.core.Now.Mono+min(x.core.Patience, nodePatience), machine.FirstPause
	told := false
	var look func()
	look = func() {
		var silent []string
		for _, n := range x.nodes {
			if n.err != nil {
				silent = append(silent, n.name+": "+planner.ShortNodeError(n.name, n.err))
			}
		}
		unfit := planner.CheckNodes(x.asked(), len(x.Lists) > 0)
		keepers := slices.DeleteFunc(slices.Clone(x.nodes), func(n lockNode) bool { return !slices.Contains(x.Lists, n.name) })
		all, why := len(x.nodes), strings.Join(silent, "; ")
		switch begins := x.intent.GetGeneration() == 1; {
		case x.plan.Kind != planner.KindApply:
			then()
		case unfit != nil:
			x.core.End(unfit)
		case denials(keepers) != "":
			x.core.End(fmt.Errorf("nothing was changed: an apply needs all nodes that keep lists, and some do not permit it: %s", denials(keepers)))
		case begins && quorum.NotPermitted(errorsOf(x.nodes)):
			x.core.End(fmt.Errorf("nothing was changed: a new sale needs %d of %d lock nodes, and too many do not permit it: %s", all/2+1, all, denials(x.nodes)))
		case !begins || 2*len(silent) < all || all == 0:
			then()
		case x.core.Now.Mono > giveUp:
			x.core.End(fmt.Errorf("%w: %d of %d lock nodes can be used, and a new sale needs %d: %s",
				planner.ErrTimeout, all-len(silent), all, all/2+1, why))
		default:
			if !told {
				x.doing(planner.SaleAddress(x.plan.Sale), "wait", fmt.Sprintf("for a majority of the lock nodes, %d of %d can be used: %s", all-len(silent), all, why))
			}
			told = true
			x.core.After(pause, func() { x.askNodes(look) })
			pause = min(2*pause, machine.LastPause)
		}
	}
	look()
}

// errorsOf returns the error of each node's query.
func errorsOf(nodes []lockNode) (errs []error) {
	for _, n := range nodes {
		errs = append(errs, n.err)
	}
	return errs
}

// denials lists the nodes that deny permission; "" if there is none.
func denials(nodes []lockNode) string {
	var all []string
	for _, n := range nodes {
		if errors.Is(n.err, fs.ErrPermission) {
			all = append(all, n.name+": "+planner.ShortNodeError(n.name, n.err))
		}
	}
	return strings.Join(all, "; ")
}

// nodePatience bounds the wait for a majority of the nodes.
const nodePatience = 10 * time.Second

// checkClock refuses to write with a clock that is more than a ttl off the nodes' median:
// deadlines would end early or late for everybody. If no node answers, there is nothing to
// compare with, and the execution continues: a planner must be able to close the sale.
func (x *execution) checkClock() error {
	median, known := quorum.MedianOff(x.asked())
	if !known {
		if len(x.nodes) > 0 {
			x.warn("no lock node can be asked, so this host's clock could not be checked: what is appended has the time of the log that it goes to (%s)",
				planner.ShortNodeError(x.nodes[0].name, x.nodes[0].err))
			x.unclocked = true
		}
		return nil
	}
	ttl := x.ttl()
	if median.Abs() <= ttl {
		return nil
	}
	for _, n := range x.nodes {
		if n.err == nil && n.info.Carried {
			return &planner.Refusal{Reason: planner.ClockWasSet(n.off), Remedy: planner.TrustRemedy}
		}
	}
	return &planner.Refusal{
		Reason: fmt.Sprintf("this host's clock is %v off the median of the lock nodes' clocks, and %v is allowed",
			median.Round(time.Millisecond), ttl),
		Remedy: "Set the clocks right, then run it again.",
	}
}

// findOwner reports whether a process may be serving the sale: a majority of the nodes has
// promised the lease of shard 0, or may have, as some do not answer. A sale that was never on
// every shard is not served.
func (x *execution) findOwner(then func(alive bool)) {
	if x.sale.Applied() == 0 {
		then(false)
		return
	}
	votes, waits := planner.NewLeaseVotes(x.plan.UID), x.waits
	x.waits = "for the lock nodes" // not for the subject of the stage
	x.core.All(len(x.nodes), func(i int, done func()) {
		x.core.Leases(i, "find owner", votes.Key, func(held []quorum.Holding, err error) {
			votes.Count(held, err)
			done()
		})
	}, func() {
		x.waits = waits
		then(votes.MayHaveOwner(len(x.nodes)))
	})
}

// sweep removes the sale's leases and marker from the nodes. A process that serves the sale
// reads within a ttl that it is sealed, and releases its leases; a renewal after the removal
// of the marker would leave a new lease. A node that cannot be reached is skipped after
// several attempts: its leases expire, and the marker of a destroyed sale is never queried.
// The next destroy sweeps again.
func (x *execution) sweep(then func()) {
	x.begin(sweepingNodes)
	freeBy := x.core.Now.Mono + x.ttl()
	x.core.All(len(x.nodes), func(i int, done func()) { x.sweepNode(i, 1, freeBy, done) }, then)
}

const sweepTries = 4

func (x *execution) sweepNode(i, try int, freeBy time.Duration, then func()) {
	failed := func(err error) {
		if try == sweepTries || errors.Is(err, fs.ErrPermission) {
			x.warn("lock node %s was not swept: %s. Leases there run out within %v, its marker is never asked for again;"+
				" destroy, run again when the node is up, removes it", x.nodes[i].name, planner.ShortNodeError(x.nodes[i].name, err), x.ttl())
			then()
			return
		}
		x.core.After(machine.FirstPause<<try, func() { x.sweepNode(i, try+1, freeBy, then) })
	}
	uid, sale := x.plan.UID, x.plan.Sale
	x.core.Leases(i, "sweep list", spec.LeasePrefix(uid), func(left []quorum.Holding, err error) {
		if err != nil {
			failed(err)
			return
		}
		if len(left) > 0 && x.core.Now.Mono < freeBy {
			x.core.After(pollOwner, func() { x.sweepNode(i, try, freeBy, then) })
			return
		}
		var asks []quorum.Ask
		for _, h := range left {
			asks = append(asks, quorum.Ask{Key: h.Key, Token: h.Token})
		}
		release := func(ctx context.Context, node quorum.Node) error {
			_, err := node.Release(ctx, asks)
			return err
		}
		machine.OnNode(x.core, i, "sweep leases", machine.NoValue(release), func(_ any, err error) {
			if err != nil {
				failed(err)
				return
			}
			forget := func(ctx context.Context, node quorum.Node) error {
				if err := node.Forget(ctx, spec.Marker(uid)); err != nil {
					return err
				}
				return node.Forget(ctx, spec.SaleMarker(sale))
			}
			machine.OnNode(x.core, i, "sweep marker", machine.NoValue(forget), func(_ any, err error) {
				if err != nil {
					failed(err)
					return
				}
				x.finished(planner.NodeAddress(x.nodes[i].name), "")
				then()
			})
		})
	})
}

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
