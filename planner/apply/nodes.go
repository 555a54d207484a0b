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

// readNodes reads the identity and time of each node. It must precede every read of the sale's
// log; see markNode.
func (x *execution) readNodes() {
	x.begin("reading the lock nodes")
	sent := x.core.Now
	x.core.Each(len(x.nodes), func(i int) {
		n := &x.nodes[i]
		n.Info, n.Err = x.core.Info(i)
		n.Off = quorum.ClockOff(sent, x.core.Now, n.Info)
	})
}

func (x *execution) infos() (nodes []quorum.NodeInfo) {
	for _, n := range x.nodes {
		nodes = append(nodes, n.NodeInfo)
	}
	return nodes
}

// checkNodes ends an apply if its nodes are not set up as required or do not permit what it
// needs: a majority of the voting nodes for a new sale, and all list nodes. An apply that
// begins a sale waits for a majority before it writes: without one the sale could not be sold,
// nor the clock be checked.
func (x *execution) checkNodes() {
	if x.plan.Kind != planner.KindApply {
		return
	}
	deadline, pause := x.core.Now.Mono+min(x.core.Patience, nodePatience), machine.FirstPause
	for {
		var silent []string
		var errs []error
		for _, n := range x.nodes {
			if errs = append(errs, n.Err); n.Err != nil {
				silent = append(silent, n.Name+": "+planner.ShortNodeError(n.Err))
			}
		}
		x.core.Check(planner.CheckNodes(x.infos(), len(x.Lists) > 0))
		keepers := slices.DeleteFunc(slices.Clone(x.nodes), func(n lockNode) bool { return !slices.Contains(x.Lists, n.Name) })
		all, why := len(x.nodes), strings.Join(silent, "; ")
		switch begins := x.intent.GetGeneration() == 1; {
		case denials(keepers) != "":
			x.core.Fail(fmt.Errorf("nothing was changed: an apply needs all nodes that keep lists, and some do not permit it: %s", denials(keepers)))
		case begins && quorum.NotPermitted(errs):
			x.core.Fail(fmt.Errorf("nothing was changed: a new sale needs %d of %d lock nodes, and too many do not permit it: %s", all/2+1, all, denials(x.nodes)))
		case !begins || 2*len(silent) < all || all == 0:
			return
		case x.core.Now.Mono > deadline:
			x.core.Fail(fmt.Errorf("%w: %d of %d lock nodes can be used, and a new sale needs %d: %s",
				planner.ErrTimeout, all-len(silent), all, all/2+1, why))
		case pause == machine.FirstPause:
			x.doing(planner.SaleAddress(x.plan.Sale), "wait", fmt.Sprintf("for a majority of the lock nodes, %d of %d can be used: %s", all-len(silent), all, why))
		}
		x.core.Sleep(pause)
		x.readNodes()
		pause = min(2*pause, machine.LastPause)
	}
}

// denials lists the nodes that deny permission; "" if there is none.
func denials(nodes []lockNode) string {
	var all []string
	for _, n := range nodes {
		if errors.Is(n.Err, fs.ErrPermission) {
			all = append(all, n.Name+": "+planner.ShortNodeError(n.Err))
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
	median, known := quorum.MedianOff(x.infos())
	if !known {
		if len(x.nodes) > 0 {
			x.warn("no lock node answers, so this host's clock could not be checked: commits get the time of their log (%s)",
				planner.ShortNodeError(x.nodes[0].Err))
			x.unclocked = true
		}
		return nil
	}
	ttl := x.ttl()
	if median.Abs() <= ttl {
		return nil
	}
	for _, n := range x.nodes {
		if n.Err == nil && n.Info.Carried {
			return &planner.Refusal{Reason: planner.ClockWasSet(n.Off), Remedy: planner.TrustRemedy}
		}
	}
	return planner.Refuse("this host's clock differs by %v from the median of the lock nodes' clocks; at most %v is allowed",
		median.Round(time.Millisecond), ttl).
		With("Correct the clocks, then repeat the command.")
}

// findOwner reports whether a process may be serving the sale: a majority of the nodes has
// promised the lease of shard 0, or may have, as some do not answer. A sale that was never on
// every shard is not served.
func (x *execution) findOwner() (alive bool) {
	if x.sale.Applied() == 0 {
		return false
	}
	nodes, waits := make([]planner.NodeActual, len(x.nodes)), x.waits
	x.waits = "for the lock nodes" // not for the subject of the stage
	x.core.Each(len(nodes), func(i int) {
		nodes[i].Leases, nodes[i].Err = x.core.Leases(i, "find owner", spec.LeaseKey(x.plan.UID, 0))
	})
	x.waits = waits
	return !planner.Unserved(x.plan.UID, nodes)
}

// sweep removes the sale's leases and marker from the nodes. A process that serves the sale
// reads within a ttl that it is sealed, and releases its leases; a renewal after the removal
// of the marker would leave a new lease. A node that cannot be reached is skipped after
// several attempts: its leases expire, and the marker of a destroyed sale is never queried.
// The next destroy sweeps again.
func (x *execution) sweep() {
	x.begin("cleaning the lock nodes")
	freeBy := x.core.Now.Mono + x.ttl()
	x.core.Each(len(x.nodes), func(i int) { x.sweepNode(i, freeBy) })
}

const sweepTries = 4

func (x *execution) sweepNode(i int, freeBy time.Duration) {
	for try := 1; ; try++ {
		switch err := x.trySweep(i, freeBy); {
		case err == nil:
			x.finished(planner.NodeAddress(x.nodes[i].Name), "")
			return
		case try == sweepTries || errors.Is(err, fs.ErrPermission):
			x.warn("lock node %s was not cleaned: %s. Its leases expire within %v, and its marker is no longer used;"+
				" run destroy again when the node is up to remove it", x.nodes[i].Name, planner.ShortNodeError(err), x.ttl())
			return
		}
		x.core.Sleep(machine.FirstPause << try)
	}
}

// trySweep waits until freeBy for the owners of leases.
func (x *execution) trySweep(i int, freeBy time.Duration) error {
	left, err := x.core.Leases(i, "sweep list", spec.LeasePrefix(x.plan.UID))
	for err == nil && len(left) > 0 && x.core.Now.Mono < freeBy {
		x.core.Sleep(pollOwner)
		left, err = x.core.Leases(i, "sweep list", spec.LeasePrefix(x.plan.UID))
	}
	if err != nil {
		return err
	}
	var requests []quorum.LeaseRequest
	for _, h := range left {
		requests = append(requests, quorum.LeaseRequest{Key: h.Key, Token: h.Token})
	}
	release := func(ctx context.Context, node quorum.Node) (int, error) { return node.Release(ctx, requests) }
	if _, err := machine.OnNode(x.core, i, "sweep leases", release); err != nil {
		return err
	}
	forget := func(ctx context.Context, node quorum.Node) error {
		if err := node.Forget(ctx, spec.Marker(x.plan.UID)); err != nil {
			return err
		}
		return node.Forget(ctx, spec.SaleMarker(x.plan.Sale))
	}
	_, err = machine.OnNode(x.core, i, "sweep marker", machine.NoValue(forget))
	return err
}

// mark writes the sale's markers and notes the nodes that never had one. Before the sale
// is first on every shard, a majority must have a marker. Later each node repairs its own, so
// one round is enough, and a change of phase makes none.
func (x *execution) mark() {
	x.begin("marking the lock nodes")
	first := x.sale.Applied() == 0
	if !first && x.plan.Kind == planner.KindPhase {
		x.unmarked = x.sale.Unmarked()
		return
	}
	deadline, pause := x.core.Now.Mono+x.core.Patience, machine.FirstPause
	for n := len(x.nodes); ; pause = min(2*pause, machine.LastPause) {
		good, restarted, errs := 0, false, make([]error, n)
		x.core.Each(n, func(i int) {
			err := x.markNode(i)
			x.nodes[i].unmarked, errs[i] = err, err
			switch {
			case err == nil:
				good++
				x.finished(planner.NodeAddress(x.nodes[i].Name), "")
			case errors.Is(err, quorum.ErrOtherRun):
				// It may have lost its memory since the query, and must abstain.
				x.nodes[i].restarted, restarted = true, true
			}
		})
		if good == n || !restarted && (good > n/2 || !first) {
			break
		}
		if x.core.Now.Mono > deadline || quorum.NotPermitted(errs) {
			x.core.Fail(fmt.Errorf("%d of %d lock nodes have a marker, and a new sale needs %d: %s", good, n, n/2+1, x.left()))
		}
		x.core.Sleep(pause)
	}
	x.noteUnmarked()
	x.unmarked = x.result.Unmarked
}

// noteUnmarked adds to the result the nodes that have no marker and never had one. Other nodes
// without a marker only cause a warning: they repair it when they are reachable.
func (x *execution) noteUnmarked() {
	for i, n := range x.nodes {
		switch {
		case n.unmarked == nil:
		case planner.WasMarked(x.sale, n.Name):
			x.warn("lock node %s cannot be used: %s", n.Name, planner.ShortNodeError(n.unmarked))
			x.nodes[i].unmarked = nil
		default:
			x.result.Unmarked = append(x.result.Unmarked, n.Name)
		}
	}
}

// markNode writes a marker that votes at once if that is safe: this process has read the
// nodes' run ids and then appended the plan, to a sale that is on no shard. So no lease can
// have been promised before those ids were read. Only an append proves that, since a read may
// lag. Otherwise a good marker is kept, and any other is repaired as one that abstains.
func (x *execution) markNode(i int) error {
	mark := func(what, runID string) error {
		_, err := machine.OnNode(x.core, i, what, machine.NoValue(func(ctx context.Context, node quorum.Node) error {
			if err := node.Mark(ctx, spec.Marker(x.plan.UID), runID); err != nil {
				return err
			}
			return node.Mark(ctx, spec.SaleMarker(x.plan.Sale), "")
		}))
		return err
	}
	if n := x.nodes[i]; x.planned == stored && x.sale.Applied() == 0 && n.Err == nil && !n.restarted {
		return mark("mark", n.Info.RunID)
	}
	found, err := x.core.ReadMarker(i, x.plan.UID)
	if err != nil {
		return err
	}
	err = mark("mend marker", "") // a good marker is confirmed
	x.core.Changed = x.core.Changed || !found.Good && err == nil
	return err
}
