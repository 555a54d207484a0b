package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// projection is the state of the shards after all planned generations.
type projection struct {
	shards            []ShardActual
	limits, available []int64 // by shard
}

// head returns the head of a shard, or an empty one if it has no log or could not be read.
func (p projection) head(i int) *ledger.Head { return cmp.Or(p.shards[i].Head, new(ledger.Head)) }

// project applies to the head of each shard the planned generations that the shard lacks.
func (a *Actual) project() (p projection, err error) {
	if i, damaged := a.Damaged(); damaged {
		return p, fmt.Errorf("sale %s: %w", a.Name, DamagedError(a.Sale, i, a.Shards[i].Head))
	}
	p.shards = a.Shards
	for i := range a.Shards {
		limit, available := p.head(i).Limit, p.head(i).Available
		for g := p.head(i).Generation + 1; g <= a.Sale.Generation(); g++ {
			op := a.Sale.ShardGeneration(g, i)
			added := countUnits(op.GetAdd()) + countUnits(op.GetRestore())
			removed := min(op.GetRemove()+countUnits(op.GetDrop()), available+added)
			limit += added - removed
			available += added - removed
		}
		p.limits, p.available = append(p.limits, limit), append(p.available, available)
	}
	return p, nil
}

func countUnits(ranges []*pb.Range) (n int64) {
	for _, r := range ranges {
		n += r.GetCount()
	}
	return n
}

// unreadable returns the error of the first shard that could not be read, nil if all could.
func (p projection) unreadable() error {
	for i, s := range p.shards {
		if s.Err != nil {
			return fmt.Errorf("%s cannot be read: %w", ShardAddress(i), s.Err)
		}
	}
	return nil
}

// delta returns the change of the stock in units. It compares with the units that the shards
// have, not with those declared, so that an incomplete removal is planned again. The units of
// a closed sale do not change.
func (p projection) delta(desired, old spec.Sale, actual *Actual) (int64, error) {
	if actual.Sale.Newest().GetSettings().GetPhase() == pb.Phase_CLOSED {
		return 0, nil
	}
	if units := actual.Units; desired.Units != nil && units != nil && units.Err == nil {
		// A retired unit is still declared: the number of wanted units follows from the
		// payloads, not from the shards.
		delta := units.Added
		for i, gone := range units.Gone {
			delta += units.Leaving[i].Count() - gone.Count()
		}
		return delta, p.unreadable()
	}
	if err := p.unreadable(); err != nil {
		if desired.Stock == old.Stock {
			return 0, nil
		}
		return 0, fmt.Errorf("sale %s: a change of stock cannot be planned, %w", actual.Name, err)
	}
	return desired.Stock - sum(p.limits), nil
}

// distribute plans which shards receive new units, or return units. With payloads it removes units
// that are no longer declared, and restores units that were about to be removed and are declared again. Undrained grabs count as available here, so a removal that relies on them may fall short
// (apply.Result.Shortfall).
func (p projection) distribute(planned *pb.Planned, delta int64, actual *Actual) error {
	sale, limits, added, removed := actual.Name, slices.Clone(p.limits), max(delta, 0), max(-delta, 0)
	if units := actual.Units; units != nil {
		for i, gone := range units.Gone {
			planned.Shards[i].Drop, planned.Shards[i].Restore = gone.Proto(), units.Leaving[i].Proto()
			limits[i] += units.Leaving[i].Count() - gone.Count()
		}
		added, removed = units.Added, 0
	}
	switch last := planned.GetNextUnit() - 1; {
	case added > maxUnit-last:
		return tooManyUnits(sale, last+min(added, maxUnit))
	case added > 0:
		for i, n := range raise(limits, added) {
			planned.Shards[i].Add = deal(planned, n)
		}
	case removed > 0:
		if free := sum(p.available); free < removed {
			lowest := max(sum(limits)-free, int64(len(limits)))
			return Refuse("the stock of sale %s can be lowered by at most %s, not by %d", sale, spec.Count(free, "unit"), removed).
				With("The lowest stock allowed now is %d.", lowest)
		}
		for i, n := range lower(limits, p.available, removed) {
			planned.Shards[i].Remove = n
		}
	}
	return nil
}

// remaining adds the actions that finish generations which are not on every shard, and completes
// the plan.
func (p *planning) remaining(shards projection) error {
	sale := p.actual.Sale
	if sale.Applied() < sale.Generation() {
		old, _ := Declared(sale.Newest()) // the planner has decoded it before
		attributes := saleAttributes(old, old.Stock, p.Phase, sale.Generation())
		reason := fmt.Sprintf("generation %d pending: an earlier apply did not finish", sale.Generation())
		p.updateSale(ReasonGenerationPending, reason, attributes, attributes)
	}
	p.shards(shards, nil, ReasonGenerationPending)
	settings := sale.Newest().GetSettings()
	p.lists(settings.GetPhase())
	if p.Kind == KindApply {
		p.markers()
	}
	p.warnings(settings)
	return p.complete()
}

// shards adds the actions of the shards: pending earlier generations, and the changes of planned
// unless it is nil. why is the reason for those changes.
func (p *planning) shards(shards projection, planned *pb.Planned, why ActionReason) {
	for i, s := range shards.shards {
		head := shards.head(i)
		var reasons []string
		var added []*pb.Range
		for g := head.Generation + 1; g <= p.actual.Sale.Generation() && s.Err == nil; g++ {
			reasons = append(reasons, fmt.Sprintf("generation %d pending", g))
			added = append(added, p.actual.Sale.ShardGeneration(g, i).GetAdd()...)
		}
		limit := shards.limits[i]
		if planned != nil {
			c := planned.GetShards()[i]
			added = append(added, c.GetAdd()...)
			removed := c.GetRemove() + countUnits(c.GetDrop())
			limit += countUnits(c.GetAdd()) + countUnits(c.GetRestore()) - removed
			if removed > 0 {
				reasons = append(reasons, "withdraws "+spec.Count(removed, "unit"))
			}
			if len(c.GetAdd()) > 0 {
				reasons = append(reasons, "new units")
			}
			if n := countUnits(c.GetRestore()); n > 0 {
				reasons = append(reasons, spec.Count(n, "unit")+" restored")
			}
		}
		if len(reasons) == 0 {
			continue
		}
		action := Action{
			Address: ShardAddress(i), Action: Update, ActionReason: why, Reason: strings.Join(reasons, ", "),
			Before: &Attributes{Limit: &head.Limit}, After: &Attributes{Limit: &limit, Units: unitsText(added)},
		}
		if s.Head == nil && s.Err == nil {
			action.Action, action.Before = Create, nil
		}
		if head.Generation < p.actual.Sale.Generation() {
			action.ActionReason = ReasonGenerationPending
		}
		p.add(action)
	}
}

// markers adds the actions of the lock nodes: new markers until the first generation is on every
// shard, then only repairs of bad ones. A node that cannot be queried is included if no apply has
// reached it yet.
func (p *planning) markers() {
	first := !p.actual.Sale.Live() || p.actual.Sale.Applied() == 0
	for _, n := range p.actual.Nodes {
		a := Action{Address: NodeAddress(n.Name)}
		switch {
		case first:
			a.Action, a.After = Create, &Attributes{Marker: MarkerGood}
			a.ActionReason, a.Reason = ReasonNew, "a lock node, which votes on the owners of shards"
			if n.Err != nil {
				a.Reason = "it cannot be used now"
			}
		case n.Err != nil && WasMarked(p.actual.Sale, n.Name):
			continue
		case n.Err != nil:
			a.Action, a.Before, a.After = Update, &Attributes{Marker: MarkerUnknown}, &Attributes{Marker: MarkerGood}
			a.ActionReason, a.Reason = markerReason(p.actual.Sale, n.Name), "it cannot be used now"
		case n.MarkerState() == MarkerMissing:
			a.Action, a.Before, a.After = Update, &Attributes{Marker: MarkerMissing}, &Attributes{Marker: MarkerAbstaining}
			a.ActionReason = markerReason(p.actual.Sale, n.Name)
			a.Reason = "it has no marker of the sale yet: it abstains until the leases that it may have granted have expired"
			if a.ActionReason == ReasonMarkerMissing {
				a.Reason = "its marker is gone: it was restarted or flushed, or the key was deleted; it abstains until the leases that it may have granted have expired"
			}
		default:
			continue
		}
		p.add(a)
	}
}

// markerReason returns why a lock node lacks the marker of a live sale.
func markerReason(sale *ledger.Sale, node string) ActionReason {
	switch {
	case WasMarked(sale, node):
		return ReasonMarkerMissing
	case slices.Contains(sale.Unmarked(), node):
		return ReasonNodePending
	}
	return ReasonNewNode
}

func shardAttributes(h *ledger.Head) *Attributes {
	if h == nil {
		return &Attributes{}
	}
	return &Attributes{Limit: new(h.Limit)}
}

// unitsText formats units, as in "1-20, 101".
func unitsText(ranges []*pb.Range) string {
	var parts []string
	for _, r := range ranges {
		parts = append(parts, ledger.Range{First: r.GetFirst(), Count: r.GetCount()}.String())
	}
	return strings.Join(parts, ", ")
}

// WasMarked reports whether a node has had the sale's marker according to the sale's log: it
// belonged to the sale at an applied generation and was not unmarked then.
func WasMarked(sale *ledger.Sale, node string) bool {
	if sale.Applied() == 0 || slices.Contains(sale.Unmarked(), node) {
		return false
	}
	old, err := Declared(sale.Planned(sale.Applied()))
	if err != nil {
		return false
	}
	locks, err := old.Locks()
	return err == nil && slices.Contains(locks.Nodes, node)
}
