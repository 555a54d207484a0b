package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// States of a list in plans and statuses.
const (
	ListOn      = "on"
	ListOff     = "off"
	ListUnknown = "unknown" // the node could not be queried
)

// ListState returns the state of a shard's list.
func (a *Actual) ListState(shard int) string {
	switch {
	case a.Lists[shard].Err != nil || a.Shards[shard].Err != nil:
		return ListUnknown
	case a.listOn(shard):
		return ListOn
	}
	return ListOff
}

// newLists plans the first lists of a run.
func (p *planning) newLists(desired spec.Sale) {
	nodes := desired.ListNodes()
	for i := range desired.LockCount {
		p.createList(i, nodes[spec.ListNode(i, len(nodes))])
	}
}

func (p *planning) createList(shard int, node string) {
	reason := "it is filled with the shard's units"
	for _, n := range p.actual.ListNodes {
		if n.Name == node && n.Err != nil {
			reason = "it is filled with the shard's units; its node cannot be used now"
		}
	}
	p.add(Action{Address: ListAddress(shard), Action: Create, ActionReason: ReasonNew, Reason: reason, After: &Attributes{List: ListOn, Node: node}})
}

// lists plans the lists whose state does not match the next phase. If a process serves the
// sale, or may, it turns on lists of an open sale itself, and the plan only warns.
func (p *planning) lists(to pb.Phase) {
	sale := p.actual.Sale
	now := sale.Newest().GetSettings().GetPhase()
	want := ListOff
	if to == pb.Phase_OPEN {
		want = ListOn
	}
	for i, l := range p.actual.Lists {
		stands := p.actual.ListState(i)
		a := Action{
			Address: ListAddress(i), Action: Update,
			Before: &Attributes{List: stands, Node: l.Node}, After: &Attributes{List: want, Node: l.Node},
		}
		switch begun := sale.Applied() > 0; {
		case stands == want, now == to && p.actual.Shards[i].Err != nil:
			continue // an unreadable shard has its own warning
		case want == ListOn && !begun:
			p.createList(i, l.Node)
			continue
		case want == ListOn && now == to && !p.actual.Unserved():
			_, why := l.fault(stands)
			p.warn("%s is %s: the serving process fills it from the ledger", ListAddress(i), why)
			continue
		case want == ListOn && now == to:
			reason, why := l.fault(stands)
			a.ActionReason, a.Reason = reason, "it is "+why+"; it is filled from the ledger"
		case want == ListOn:
			a.ActionReason, a.Reason = ReasonPhaseChanges, "it is filled from the ledger"
		case now == to:
			continue // rolling out the pending generation stops it
		default:
			a.ActionReason, a.Reason = ReasonPhaseChanges, "it is stopped, and its grabs are drained into the ledger"
		}
		p.add(a)
	}
}

// fault returns why a list is not on.
func (l ListActual) fault(stands string) (ActionReason, string) {
	switch {
	case stands == ListUnknown:
		return ReasonListUnknown, fmt.Sprintf("unknown (node %s: %s)", l.Node, ShortNodeError(l.Err))
	case !l.State.Exists:
		return ReasonListMissing, "missing on node " + l.Node
	}
	return ReasonListOff, "off on node " + l.Node
}

// forgottenLists plans the deletion of lists. Of a destroyed sale it lists only leftovers.
func (p *planning) forgottenLists() {
	for i, l := range p.actual.Lists {
		if p.actual.Sale.Destroyed() && !l.State.Exists {
			continue
		}
		why, reason := deleteReason(p.actual.Sale, "it is stopped, drained into the ledger and deleted")
		p.add(Action{
			Address: ListAddress(i), Action: Delete, Before: &Attributes{List: p.actual.ListState(i), Node: l.Node},
			ActionReason: why, Reason: reason,
		})
	}
}

// CheckLists refuses nodes other than those of a live sale's lists, for plans that may have to
// stop the lists.
func (a *Actual) CheckLists() error {
	old, err := Declared(a.Sale.Newest())
	if err != nil || old.Engine != spec.EngineRedis {
		return err
	}
	var names []string
	for _, n := range a.ListNodes {
		names = append(names, n.Name)
	}
	return CheckLists(a.Name, old, names, a.Sale.Applied() > 0)
}

// WarnOfDurability warns of each list node that may lose granted units.
func (a *Actual) WarnOfDurability(ack spec.Ack, warn func(format string, args ...any)) {
	if ack != spec.AckRedis {
		return // the ledger keeps every claim, whatever a node loses
	}
	const remedy = "set appendonly yes and appendfsync always, or write ack: ledger"
	for _, n := range a.ListNodes {
		switch s := n.Settings; {
		case n.Err != nil:
			warn("the persistence of node %s could not be checked: %s", n.Name, ShortNodeError(n.Err))
		case s.AOF && s.Fsync == "always":
		case s.AOF && s.Fsync == "":
			warn("the sync policy of node %s could not be checked, because it refuses CONFIG GET: %s", n.Name, remedy)
		case s.AOF && s.Fsync == "no":
			warn("ack: redis: node %s syncs when its host decides, and may lose the grabs of the last 30 seconds when that dies: %s",
				n.Name, remedy)
		case s.AOF:
			warn("ack: redis: node %s may lose the grabs of the last one or two seconds when its host dies: %s", n.Name, remedy)
		case s.Snapshots:
			warn("ack: redis: node %s only saves snapshots, and loses all grabs since the last one when it dies: %s", n.Name, remedy)
		default:
			warn("ack: redis: node %s keeps nothing on disk%s, and loses all grabs that the ledger lacks when it dies: %s",
				n.Name, unlessSaved(s), remedy)
		}
	}
}

// unlessSaved returns a suffix for nodes that do not report whether they save snapshots.
func unlessSaved(s lists.Settings) string {
	if s.Fsync == "" {
		return " except perhaps snapshots, which it does not report"
	}
	return ""
}

// fixedLists refuses changes of a live sale's engine, and of the inputs of its lists and
// packets.
func fixedLists(desired, old spec.Sale, actual *Actual, refuse func(string, ...any) error) error {
	switch {
	case engineName(desired) != engineName(old):
		return refuse("its engine cannot change from %s to %s", engineName(old), engineName(desired))
	case old.Engine != spec.EngineRedis:
		return nil
	case packetText(desired) != packetText(old):
		return refuse("its units cannot change from %s to %s: the amounts are fixed", packetText(old), packetText(desired))
	case desired.RedPacket != nil && desired.Stock != old.Stock:
		return refuse("its stock cannot change from %d to %d: the amounts of its red packet are fixed", old.Stock, desired.Stock)
	case actual.resting():
		return nil
	case desired.Ack != old.Ack:
		return actual.pauseFirst("its ack cannot change from %s to %s: serving processes use the value with which they started",
			old.Ack, desired.Ack)
	case !slices.Equal(old.ListNodes(), desired.ListNodes()):
		return actual.pauseFirst("its nodes and their order cannot change: each shard's list, with its grabs, is on one of them")
	}
	return nil
}

// resting reports whether no list of the sale is on: the sale is paused, or was never on every
// shard, so that no process has served it.
func (a *Actual) resting() bool { return a.Sale.Applied() == 0 || a.pausedEverywhere() }

// pausedEverywhere reports whether every shard is known to be paused: then no list is on, and
// the log has every grab.
func (a *Actual) pausedEverywhere() bool {
	return a.everyShard(ledger.PhasePaused) && a.Sale.Newest().GetSettings().GetPhase() == pb.Phase_PAUSED
}

func engineName(s spec.Sale) spec.Engine { return cmp.Or(s.Engine, spec.EngineLedger) }

// leftLists warns of nodes that leave the sale and keep keys of its lists.
func (p *planning) leftLists(desired, old spec.Sale, uid string) {
	if old.Engine != spec.EngineRedis {
		return
	}
	for _, n := range slices.Sorted(slices.Values(old.ListNodes())) {
		if !slices.Contains(desired.ListNodes(), n) {
			p.warn("node %s no longer belongs to the sale, but keeps its data: delete its keys %s%s:* manually",
				n, spec.KeyPrefix, uid)
		}
	}
}

// CheckLists refuses nodes other than those declared, in their order: the order determines the
// node of each shard's list.
func CheckLists(sale string, old spec.Sale, names []string, begun bool) error {
	if declared := old.ListNodes(); len(declared) > 0 && slices.Equal(declared, names) {
		return nil
	}
	given := cmp.Or(strings.Join(names, ", "), "none")
	change := "run 'salectl pause' with the old ones, then 'salectl apply' with the new"
	if !begun {
		change = "run 'salectl apply' with the new ones"
	}
	return Refuse("the lists of sale %s are on %s, and its file names %s", sale, strings.Join(old.ListNodes(), ", "), given).
		With("Write redis.nodes as they are declared, in that order. To change them, %s.", change)
}

// ListNodeActual is a list node.
type ListNodeActual struct {
	Name     string
	Err      error // why its settings could not be read
	Settings lists.Settings
}

// ListActual is the list of one shard on its node.
type ListActual struct {
	Node  string
	Err   error // why it could not be inspected
	State lists.State
}

// listOn reports whether a shard's list grants units, under the current fill of the log.
func (a *Actual) listOn(shard int) bool {
	l, head := a.Lists[shard], a.Shards[shard].Head
	return l.Err == nil && head != nil && l.State.On && l.State.Fill == head.Fill
}

// CountLists returns the number of lists of the present run, given the number of list nodes; 0 if
// the engine is not redis or there is no node.
func CountLists(sale *ledger.Sale, nodes int) int {
	if sale.UID() == "" || nodes == 0 || EngineOf(sale.Newest()) != spec.EngineRedis {
		return 0
	}
	return sale.Shards()
}
