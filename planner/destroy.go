package planner

import (
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
)

// MakeDestroy plans the end of a sale: close, export, delete. For a sealed sale it plans only
// the remaining deletions; the plan is empty if there are none.
func MakeDestroy(actual *Actual) (*Plan, error) {
	sale := actual.Sale
	p := newPlan(KindDestroy, actual)
	if sale.UID() == "" {
		return p, p.complete()
	}
	old, err := Declared(sale.Newest())
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	if i, is := actual.Damaged(); is {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, DamagedError(sale, i, actual.Shards[i].Head))
	}
	if sale.Live() {
		if err := protected(old, actual.Name, "it is not destroyed"); err != nil {
			return nil, err
		}
		if err := actual.CheckLists(); err != nil {
			return nil, err
		}
	}
	p.deletions(actual)
	if !sale.Destroyed() {
		kept := "asked for; its own log is kept"
		if actual.Table != nil {
			kept += ", and so is the table " + actual.Table.Name + ", where other sales may be"
		}
		before := saleAttributes(old, old.Stock, sale.Phase(), sale.Generation())
		if sale.Live() {
			before.Ends = actual.ends()
			p.holds(before.Ends, actual.Holds)
			p.packets(actual, before)
		}
		why, reason := deleteReason(sale, kept)
		p.add(Action{Address: SaleAddress(p.Sale), Action: Delete, ActionReason: why, Reason: reason, Before: before})
	}
	p.warnings(actual, 0)
	if sale.Newest().GetSettings().GetPhase() == pb.Phase_CLOSED { // as every sealed sale is
		return p, p.complete()
	}
	return p, p.setPlanned(follow(sale, withPhase(sale.Newest().GetSettings(), pb.Phase_CLOSED)))
}

// deletions plans the deletion of shards and of the nodes' keys. For a destroyed sale these
// are only late writes.
func (p *Plan) deletions(actual *Actual) {
	sale := actual.Sale
	for i, s := range actual.Shards {
		if s.Head == nil && s.Err == nil && !sale.Live() {
			continue // deleted already
		}
		why, reason := deleteReason(sale, "its log is sealed, exported and deleted")
		p.add(Action{Address: ShardAddress(i), Action: Delete, ActionReason: why, Reason: reason, Before: shardAttributes(s.Head)})
	}
	p.forgottenLists(actual)
	for _, n := range actual.Nodes {
		if has := n.Marker.Good || len(n.Leases) > 0; sale.Destroyed() && !has {
			continue
		}
		why, _ := deleteReason(sale, "")
		p.add(Action{
			Address: NodeAddress(n.Name), Action: Delete, Before: &Attributes{Marker: n.MarkerState()},
			ActionReason: why, Reason: "leases and marker of the sale are removed",
		})
	}
}
