package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"salectl/backends/quorum"
	"salectl/spec"
)

// info reads the identity and time of a node.
func (c *core) info(node int, then func(quorum.Info, error)) {
	onNode(c, node, "info", func(ctx context.Context, node quorum.Node) (quorum.Info, error) { return node.Info(ctx) }, then)
}

// readMarker reads the marker of a run on a node.
func (c *core) readMarker(node int, uid string, then func(quorum.Marker, error)) {
	marker := spec.Marker(uid)
	onNode(c, node, "read marker", func(ctx context.Context, node quorum.Node) (quorum.Marker, error) {
		return node.ReadMarker(ctx, marker)
	}, then)
}

// leases reads the leases on a node whose keys begin with a prefix.
func (c *core) leases(node int, what, prefix string, then func([]quorum.Holding, error)) {
	onNode(c, node, what, func(ctx context.Context, node quorum.Node) ([]quorum.Holding, error) { return node.List(ctx, prefix) }, then)
}

// askNodes reads the identity and time of each node. It must precede every read of the sale's
// log; see markNode.
func (x *execution) askNodes(then func()) {
	x.begin(askingNodes)
	sent := x.core.now
	x.core.all(len(x.nodes), func(i int, done func()) {
		x.core.info(i, func(info quorum.Info, err error) {
			x.nodes[i].info, x.nodes[i].err = info, err
			x.nodes[i].off = quorum.ClockOff(sent, x.core.now, info)
			done()
		})
	}, then)
}

// unfitOf returns the name and fault of each unfit node. A list node also needs a right clock,
// since the units of its shards are on no other node. Of nodes that only vote the median
// counts, in checkClock.
func unfitOf(nodes []quorum.NodeInfo, keepLists bool) (unfit []string) {
	for _, f := range quorum.Judge(nodes) {
		if keepLists || !f.Clock {
			unfit = append(unfit, f.Node+": "+f.Why)
		}
	}
	return unfit
}

// asked returns what the nodes reported about themselves.
func (a *Actual) asked() (nodes []quorum.NodeInfo) {
	for _, n := range a.Nodes {
		nodes = append(nodes, quorum.NodeInfo{Name: n.Name, Info: n.Info, Err: n.Err, Off: n.Off})
	}
	return nodes
}

func (x *execution) asked() (nodes []quorum.NodeInfo) {
	for _, n := range x.nodes {
		nodes = append(nodes, quorum.NodeInfo{Name: n.name, Info: n.info, Err: n.err, Off: n.off})
	}
	return nodes
}

// Faults returns the faults of the lock nodes.
func (a *Actual) Faults() []quorum.Fault { return quorum.Judge(a.asked()) }

// checkNodes ends an apply if its nodes are not set up as required or do not permit what it
// needs: a majority of the voting nodes for a new sale, and all list nodes. An apply that
// begins a sale waits for a majority before it writes: without one the sale could not be sold,
// nor the clock be checked.
func (x *execution) checkNodes(then func()) {
	giveUp, pause := x.core.now.Mono+min(x.core.patience, nodePatience), firstPause
	told := false
	var look func()
	look = func() {
		var silent []string
		for _, n := range x.nodes {
			if n.err != nil {
				silent = append(silent, n.name+": "+shortNodeError(n.name, n.err))
			}
		}
		unfit := unfitOf(x.asked(), len(x.Lists) > 0)
		keepers := slices.DeleteFunc(slices.Clone(x.nodes), func(n lockNode) bool { return !slices.Contains(x.Lists, n.name) })
		all, why := len(x.nodes), strings.Join(silent, "; ")
		switch begins := x.intent.GetGeneration() == 1; {
		case x.plan.Kind != KindApply:
			then()
		case len(unfit) > 0:
			x.core.end(unfitNodes(unfit))
		case denials(keepers) != "":
			x.core.end(fmt.Errorf("nothing was changed: an apply needs all nodes that keep lists, and some do not permit it: %s", denials(keepers)))
		case begins && quorum.NotPermitted(errorsOf(x.nodes)):
			x.core.end(fmt.Errorf("nothing was changed: a new sale needs %d of %d lock nodes, and too many do not permit it: %s", all/2+1, all, denials(x.nodes)))
		case !begins || 2*len(silent) < all || all == 0:
			then()
		case x.core.now.Mono > giveUp:
			x.core.end(fmt.Errorf("%w: %d of %d lock nodes can be used, and a new sale needs %d: %s",
				ErrTimeout, all-len(silent), all, all/2+1, why))
		default:
			if !told {
				x.doing(saleAddress(x.plan.Sale), "wait", fmt.Sprintf("for a majority of the lock nodes, %d of %d can be used: %s", all-len(silent), all, why))
			}
			told = true
			x.core.after(pause, func() { x.askNodes(look) })
			pause = min(2*pause, lastPause)
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
			all = append(all, n.name+": "+shortNodeError(n.name, n.err))
		}
	}
	return strings.Join(all, "; ")
}

// nodePatience bounds the wait for a majority of the nodes.
const nodePatience = 10 * time.Second

// unfitNodes returns the refusal of a change, with each node's own description.
func unfitNodes(words []string) *Refusal {
	return &Refusal{Reason: "lock nodes are not set up as they must be", Remedy: strings.Join(words, "\n")}
}

// checkClock refuses to write with a clock that is more than a ttl off the nodes' median:
// deadlines would end early or late for everybody. If no node answers, there is nothing to
// compare with, and the execution continues: a planner must be able to close the sale.
func (x *execution) checkClock() error {
	median, known := quorum.MedianOff(x.asked())
	if !known {
		if len(x.nodes) > 0 {
			x.warn("no lock node can be asked, so this host's clock could not be checked: what is appended has the time of the log that it goes to (%s)",
				shortNodeError(x.nodes[0].name, x.nodes[0].err))
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
			return &Refusal{Reason: clockWasSet(n.off), Remedy: TrustRemedy}
		}
	}
	return &Refusal{
		Reason: fmt.Sprintf("this host's clock is %v off the median of the lock nodes' clocks, and %v is allowed",
			median.Round(time.Millisecond), ttl),
		Remedy: "Set the clocks right, then run it again.",
	}
}

// clockWasSet says that a node without a clock of its own does not believe this host's clock.
func clockWasSet(by time.Duration) string {
	way := "forward"
	if by < 0 {
		way = "back"
	}
	return fmt.Sprintf("this host's clock was set %s by %v, and no time server keeps it right", way, by.Abs().Round(time.Second))
}

// TrustRemedy is the remedy in warnings and refusals about a host's clock that was set.
const TrustRemedy = "Set it right; if it is right now and was wrong before, run 'salectl apply --trust-clock'."

// findOwner reports whether a process may be serving the sale: a majority of the nodes has
// promised the lease of shard 0, or may have, as some do not answer. A sale that was never on
// every shard is not served.
func (x *execution) findOwner(then func(alive bool)) {
	if x.sale.Applied() == 0 {
		then(false)
		return
	}
	votes, waits := newVotes(x.plan.UID), x.waits
	x.waits = "for the lock nodes" // not for the subject of the stage
	x.core.all(len(x.nodes), func(i int, done func()) {
		x.core.leases(i, "find owner", votes.key, func(held []quorum.Holding, err error) {
			votes.count(held, err)
			done()
		})
	}, func() {
		x.waits = waits
		then(votes.mayHaveOwner(len(x.nodes)))
	})
}

// sweep removes the sale's leases and marker from the nodes. A process that serves the sale
// reads within a ttl that it is sealed, and releases its leases; a renewal after the removal
// of the marker would leave a new lease. A node that cannot be reached is skipped after
// several attempts: its leases expire, and the marker of a destroyed sale is never queried.
// The next destroy sweeps again.
func (x *execution) sweep(then func()) {
	x.begin(sweepingNodes)
	freeBy := x.core.now.Mono + x.ttl()
	x.core.all(len(x.nodes), func(i int, done func()) { x.sweepNode(i, 1, freeBy, done) }, then)
}

const sweepTries = 4

func (x *execution) sweepNode(i, try int, freeBy time.Duration, then func()) {
	failed := func(err error) {
		if try == sweepTries || errors.Is(err, fs.ErrPermission) {
			x.warn("lock node %s was not swept: %s. Leases there run out within %v, its marker is never asked for again;"+
				" destroy, run again when the node is up, removes it", x.nodes[i].name, shortNodeError(x.nodes[i].name, err), x.ttl())
			then()
			return
		}
		x.core.after(firstPause<<try, func() { x.sweepNode(i, try+1, freeBy, then) })
	}
	uid, sale := x.plan.UID, x.plan.Sale
	x.core.leases(i, "sweep list", spec.LeasePrefix(uid), func(left []quorum.Holding, err error) {
		if err != nil {
			failed(err)
			return
		}
		if len(left) > 0 && x.core.now.Mono < freeBy {
			x.core.after(pollOwner, func() { x.sweepNode(i, try, freeBy, then) })
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
		onNode(x.core, i, "sweep leases", noValue(release), func(_ any, err error) {
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
			onNode(x.core, i, "sweep marker", noValue(forget), func(_ any, err error) {
				if err != nil {
					failed(err)
					return
				}
				x.finished(nodeAddress(x.nodes[i].name), "")
				then()
			})
		})
	})
}
