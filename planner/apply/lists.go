package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// fillLists turns every list on, once each shard has a generation in which its list may give.
// Where a process serves the sale, the owners do so sooner and get a ttl for it. A fill by
// another process is not disturbed.
func (x *execution) fillLists(then func()) {
	x.begin(fillingLists)
	p, _ := x.sale.Planned(x.goal)
	if !x.onLists() || p.GetSettings().GetPhase() != pb.Phase_OPEN {
		then()
		return
	}
	began := x.core.Now.Mono
	fill := func(alive bool) {
		x.core.Each(x.allShards(), func(i int, done func()) {
			x.fillList(i, x.goal, alive, began, func() {
				x.shards[i].forget()
				x.finished(planner.ListAddress(i), "")
				done()
			})
		}, then)
	}
	x.findOwner(fill)
}

func (x *execution) fillList(i int, goal uint64, alive bool, began time.Duration, done func()) {
	// Another execution has planned a generation that is not read yet or has other nodes.
	foreign := func(generation uint64) bool {
		return generation > x.sale.Generation() || generation > goal && x.otherNodes(goal)
	}
	mayNot := func(s *ledger.State) bool { return s.Phase != ledger.PhaseOpen || foreign(s.Generation) }
	var seen lists.State
	var look func()
	look = func() {
		x.inspect(i, func(state lists.State, err error) {
			head, changes := x.shards[i].head, err == nil && state != seen
			switch {
			case foreign(head.Generation):
				x.recheck(func() {
					if x.otherNodes(goal) {
						x.stale("was declared on other nodes meanwhile")
						return
					}
					x.core.After(pollOwner, func() { x.readHead(i, look) })
				})
			case err == nil && state.On && state.Fill == head.Fill, head.Phase != ledger.PhaseOpen:
				done()
			case errors.Is(err, fs.ErrPermission): // whether the owner fills it cannot be checked
				x.core.End(fmt.Errorf("%s on node %s cannot be looked at: %s", planner.ListAddress(i), x.listNode(i), planner.ShortNodeError(x.listNode(i), err)))
			case alive && x.core.Now.Mono < began+x.ttl(), changes && (!state.On || state.Fill > head.Fill):
				seen = state
				x.core.After(pollOwner, func() { x.readHead(i, look) })
			default:
				x.bring(i, lists.On, mayNot, func() {
					if s := x.shards[i].state; foreign(s.Generation) {
						x.readHead(i, look)
						return
					}
					done()
				})
			}
		})
	}
	look()
}

// listRebuild brings the list of one shard to a wanted state with a lists.Machine: it appends
// the machine's drafts to the shard's log and makes its calls. If another process rebuilds the
// list at the same time, one of the two waits: the last fill in the log continues.
type listRebuild struct {
	x      *execution
	shard  int
	m      *lists.Machine
	want   lists.Want
	enough func(*ledger.State) bool // reports that the log makes the wanted state unnecessary
	then   func()

	begun uint64       // last fill begun by this process
	seen  *lists.State // state of the list at the last inspection during a rebuild by another process

	// A try is the time between two failures.
	calls, most int           // successful calls: of this try, of the best try so far
	failing     time.Duration // monotonic: since when no try came further; 0: none has failed
	told        bool          // the node's failure was reported
}

// bring reads a shard's log and brings its list to the wanted state. It continues when that is
// reached, or enough reports that it is unnecessary.
func (x *execution) bring(i int, want lists.Want, enough func(*ledger.State) bool, then func()) {
	if x.shards[i].rebuild == nil {
		x.shards[i].rebuild = lists.NewMachine(x.list(i), x.Sizes)
	}
	l := &listRebuild{x: x, shard: i, m: x.shards[i].rebuild, want: want, enough: enough}
	before := l.m.Voids()
	l.then = func() {
		if voids := l.m.Voids() - before; voids > 0 {
			x.warn("%s: node %s had recorded %s that the ledger cannot take: it has given the units to others, or the users other units",
				planner.ListAddress(i), x.listNode(i), spec.Count(voids, "claim"))
		}
		then()
	}
	l.m.SetTarget(x.core.Now, want)
	l.read(l.step)
}

// list returns the identity of a shard's list.
func (x *execution) list(i int) lists.List { return lists.List{UID: x.plan.UID, Shard: i} }

// listNode returns the name of the node of a shard's list.
func (x *execution) listNode(i int) string { return x.Lists[spec.ListNode(i, len(x.Lists))] }

// inspect queries the state of a shard's list.
func (x *execution) inspect(i int, then func(lists.State, error)) {
	x.core.Inspect(spec.ListNode(i, len(x.Lists)), x.list(i), then)
}

// read reads the shard's log to its end.
func (l *listRebuild) read(then func()) {
	l.x.shardLog(l.shard).Read(func(e ledger.Event) {
		if e == ledger.Gone || l.x.shards[l.shard].state.Next() == 0 {
			l.gone()
			return
		}
		l.m.Observe(l.x.core.Now, l.x.shards[l.shard].state)
		then()
	})
}

// gone starts over after a read that found the shard's log gone.
func (l *listRebuild) gone() {
	l.x.lost(l.shard, func() {
		l.x.shards[l.shard].rebuild = nil
		l.x.bring(l.shard, l.want, l.enough, l.then)
	})
}

// step takes the next step.
func (l *listRebuild) step() {
	s := l.x.shards[l.shard].state
	switch {
	case l.arrived(s):
		l.then()
	case l.enough(s):
		l.x.shards[l.shard].rebuild = nil // its rebuild may have been stopped half-way
		l.then()
	case l.m.Due(l.x.core.Now):
		l.append()
	default:
		c, wake := l.m.Next(l.x.core.Now, s)
		if c == nil {
			l.x.core.At(max(wake, l.x.core.Now.Mono), func() { l.read(l.lookAgain) })
			return
		}
		make := func(ctx context.Context, node lists.Node) (lists.Reply, error) {
			r := c.Do(ctx, node)
			return r, r.Err
		}
		machine.OnList(l.x.core, spec.ListNode(l.shard, len(l.x.Lists)), stepNames[c.Kind], make, func(r lists.Reply, err error) {
			r.Err = err
			l.answered(c, r)
		})
	}
}

// arrived reports whether the list has the wanted state.
func (l *listRebuild) arrived(s *ledger.State) bool {
	if l.want == lists.On {
		return l.m.On() != 0 && l.m.On() == s.Fill
	}
	return l.m.Stopped(s)
}

// append appends the machine's draft to the log.
func (l *listRebuild) append() {
	s := l.x.shards[l.shard].state
	fill := s.Fill
	draft := s.Draft(l.x.Writer, l.x.timeUs())
	rebuilds := l.m.Draft(l.x.core.Now, draft, 0)
	if draft.Ops() == 0 { // the log has all ops of the machine
		l.m.Committed(l.x.core.Now, s)
		l.step()
		return
	}
	l.x.appendDraft(l.shard, draft, func(e ledger.Event) {
		s := l.x.shards[l.shard].state
		switch {
		case e == ledger.Gone:
			l.gone()
		case e == ledger.Committed:
			l.m.Committed(l.x.core.Now, s)
			l.begun = s.Fill // this process's own, or the slot would be taken
			l.step()
		case rebuilds && s.Fill != fill:
			l.lookAgain() // another process was faster
		default:
			l.m.Observe(l.x.core.Now, s)
			l.step()
		}
	})
}

// lookAgain continues after a failure, or after another process has begun to rebuild the list.
// It waits for the other process as long as the list changes.
func (l *listRebuild) lookAgain() {
	s := l.x.shards[l.shard].state
	if l.enough(s) || s.Fill == l.begun {
		l.step()
		return
	}
	l.x.inspect(l.shard, func(state lists.State, err error) {
		switch {
		case err != nil:
			l.step()
		case l.want == lists.On && state.On && state.Fill == s.Fill:
			l.x.shards[l.shard].rebuild = nil
			l.then()
		case state.On || l.seen != nil && state == *l.seen:
			l.step()
		default:
			l.seen = &state
			l.x.core.After(pollOwner, func() { l.read(l.lookAgain) })
		}
	})
}

// answered processes the reply to a call of the machine. It fails when no try has come further
// than an earlier one within patience, and at once if the node does not permit the call.
func (l *listRebuild) answered(c *lists.Call, r lists.Reply) {
	l.m.Done(l.x.core.Now, r)
	now := max(l.x.core.Now.Mono, 1)
	switch {
	case r.Err == nil:
		if l.calls++; l.calls > l.most {
			l.most, l.failing = l.calls, 0
		}
	case errors.Is(r.Err, fs.ErrPermission):
		l.x.core.End(l.stuck(c, r.Err))
		return
	case l.failing == 0:
		l.calls, l.failing = 0, now
		if node := l.x.listNode(l.shard); !l.told {
			l.told = true
			l.x.doing(planner.ListAddress(l.shard), "wait", fmt.Sprintf("for node %s: %s", node, planner.ShortNodeError(node, r.Err)))
		}
	case now-l.failing > l.x.core.Patience:
		l.x.core.End(l.stuck(c, r.Err))
		return
	default:
		l.calls = 0
	}
	l.step()
}

// stuck returns the error of a list that could not be filled, or stopped and drained.
func (l *listRebuild) stuck(c *lists.Call, err error) error {
	node, what := l.x.listNode(l.shard), "filled"
	remedy := "If that server is gone for good, start an empty one at its address"
	if l.want == lists.Stopped {
		what = "stopped and drained"
		remedy += "; what the list has given and the ledger does not have is lost then"
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s on node %s cannot be %s (%s): %s", planner.ListAddress(l.shard), node, what, c.Kind, planner.ShortNodeError(node, err))
	}
	if errors.Is(err, lists.ErrToken) || errors.Is(err, lists.ErrLength) {
		remedy = "Another process rebuilds it: let that end"
	}
	return fmt.Errorf("%s on node %s cannot be %s, tried for %v (%s): %s. %s",
		planner.ListAddress(l.shard), node, what, l.x.core.Patience, c.Kind, planner.ShortNodeError(node, err), remedy)
}

// stepNames are the names of the calls of a lists.Machine.
var stepNames = map[lists.CallKind]string{
	lists.InspectCall: "inspect list",
	lists.RunIDCall:   "ask list's run",
	lists.StopCall:    "stop list",
	lists.ReadCall:    "read stream",
	lists.PutCall:     "fill list",
	lists.StartCall:   "start list",
}

// onLists reports whether lists give out the sale's units.
func (x *execution) onLists() bool { return planner.EngineOf(x.sale.Newest()) == spec.EngineRedis }
