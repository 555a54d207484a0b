package apply

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

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
