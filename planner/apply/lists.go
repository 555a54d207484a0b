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

// fillLists turns every list on, once each shard has a generation in which its list may be on.
// Where a process serves the sale, the owners do so sooner and get a ttl for it. A fill by
// another process is not disturbed.
func (x *execution) fillLists() {
	x.begin("filling the lists")
	p := x.sale.Planned(x.goal)
	if !x.onLists() || p.GetSettings().GetPhase() != pb.Phase_OPEN {
		return
	}
	began := x.core.Now.Mono
	alive := x.findOwner()
	x.core.Each(len(x.shards), func(i int) {
		x.fillList(i, alive, began)
		x.shards[i].forget()
		x.finished(planner.ListAddress(i), "")
	})
}

func (x *execution) fillList(i int, alive bool, began time.Duration) {
	// Another execution has planned a generation that is not read yet or has other nodes.
	foreign := func(generation uint64) bool {
		return generation > x.sale.Generation() || generation > x.goal && x.otherNodes(x.goal)
	}
	mayNot := func(s *ledger.State) bool { return s.Phase != ledger.PhaseOpen || foreign(s.Generation) }
	for seen := (lists.State{}); ; x.readHead(i) {
		state, err := x.inspect(i)
		head, changes := x.shards[i].head, err == nil && state != seen
		switch {
		case foreign(head.Generation):
			x.recheck()
			if x.otherNodes(x.goal) {
				x.stale("was declared on other nodes meanwhile")
			}
			x.core.Sleep(pollOwner)
		case err == nil && state.On && state.Fill == head.Fill, head.Phase != ledger.PhaseOpen:
			return
		case errors.Is(err, fs.ErrPermission): // whether the owner fills it cannot be checked
			x.core.Fail(fmt.Errorf("%s on node %s cannot be read: %s", planner.ListAddress(i), x.listNode(i), planner.ShortNodeError(err)))
		case alive && x.core.Now.Mono < began+x.ttl(), changes && (!state.On || state.Fill > head.Fill):
			seen = state
			x.core.Sleep(pollOwner)
		default:
			x.bring(i, lists.On, mayNot)
			if !foreign(x.shards[i].state.Generation) {
				return
			}
		}
	}
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
	begun  uint64                   // last fill begun by this process
	seen   *lists.State             // state of the list at the last inspection during a rebuild by another process

	// A try is the time between two failures.
	calls, most int           // successful calls: of this try, of the best try so far
	failing     time.Duration // monotonic: since when no try came further; 0: none has failed
	reported    bool          // the node's failure was reported
}

// outcome is that of a step of a listRebuild.
type outcome int

const (
	unfinished outcome = iota
	reached            // the list has the wanted state, or need not have it
	logGone            // a read found the shard's log gone
)

// bring reads a shard's log and brings its list to the wanted state. It returns when that is
// reached, or enough reports that it is unnecessary.
func (x *execution) bring(i int, want lists.Want, enough func(*ledger.State) bool) {
	for {
		if x.shards[i].rebuild == nil {
			x.shards[i].rebuild = lists.NewMachine(x.list(i), x.Sizes)
		}
		l := &listRebuild{x: x, shard: i, m: x.shards[i].rebuild, want: want, enough: enough}
		before := l.m.Voids
		l.m.SetTarget(x.core.Now, want)
		end := l.read()
		for end == unfinished {
			end = l.step()
		}
		if voids := int64(l.m.Voids - before); voids > 0 {
			x.warn("%s: node %s had recorded %s that the ledger cannot take: the ledger has given the units to others, or other units to the users",
				planner.ListAddress(i), x.listNode(i), spec.Count(voids, "claim"))
		}
		if end == reached {
			return
		}
		x.lost(i)
		x.shards[i].rebuild = nil
	}
}

// list returns the identity of a shard's list.
func (x *execution) list(i int) lists.List { return lists.List{UID: x.plan.UID, Shard: i} }

// listNode returns the name of the node of a shard's list.
func (x *execution) listNode(i int) string { return x.Lists[spec.ListNode(i, len(x.Lists))] }

// inspect queries the state of a shard's list.
func (x *execution) inspect(i int) (lists.State, error) {
	return x.core.Inspect(spec.ListNode(i, len(x.Lists)), x.list(i))
}

// read reads the shard's log to its end.
func (l *listRebuild) read() outcome {
	if e := l.x.readShard(l.shard); e == ledger.Gone || l.x.shards[l.shard].state.Next() == 0 {
		return logGone
	}
	l.m.Observe(l.x.core.Now, l.x.shards[l.shard].state)
	return unfinished
}

// step takes the next step.
func (l *listRebuild) step() outcome {
	x, s := l.x, l.x.shards[l.shard].state
	switch {
	case l.arrived(s):
		return reached
	case l.enough(s):
		x.shards[l.shard].rebuild = nil // its rebuild may have been stopped half-way
		return reached
	case l.m.Due(x.core.Now):
		return l.append()
	}
	c, wake := l.m.Next(x.core.Now, s)
	if c == nil {
		x.core.SleepUntil(max(wake, x.core.Now.Mono))
		if l.read() == logGone {
			return logGone
		}
		return l.reinspect()
	}
	r, err := machine.OnList(x.core, spec.ListNode(l.shard, len(x.Lists)), stepNames[c.Kind], func(ctx context.Context, node lists.Node) (lists.Reply, error) {
		r := c.Do(ctx, node)
		return r, r.Err
	})
	r.Err = err
	l.answered(c, r)
	return unfinished
}

// arrived reports whether the list has the wanted state.
func (l *listRebuild) arrived(s *ledger.State) bool {
	if l.want == lists.On {
		return l.m.On() != 0 && l.m.On() == s.Fill
	}
	return l.m.Stopped(s)
}

// append appends the machine's draft to the log.
func (l *listRebuild) append() outcome {
	s := l.x.shards[l.shard].state
	fill := s.Fill
	draft := s.Draft(l.x.Writer, l.x.timeUs())
	rebuilds := l.m.Draft(l.x.core.Now, draft, 0)
	if draft.Ops() == 0 { // the log has all ops of the machine
		l.m.Committed(l.x.core.Now, s)
		return unfinished
	}
	switch e := l.x.appendDraft(l.shard, draft); {
	case e == ledger.Gone:
		return logGone
	case e == ledger.Committed:
		l.m.Committed(l.x.core.Now, s)
		l.begun = s.Fill // this process's own, or the slot would be taken
	case rebuilds && s.Fill != fill:
		return l.reinspect() // another process was faster
	default:
		l.m.Observe(l.x.core.Now, s)
	}
	return unfinished
}

// reinspect continues after a failure, or after another process has begun to rebuild the list.
// It waits for the other process as long as the list changes.
func (l *listRebuild) reinspect() outcome {
	for {
		s := l.x.shards[l.shard].state
		if l.enough(s) || s.Fill == l.begun {
			return unfinished
		}
		state, err := l.x.inspect(l.shard)
		switch {
		case err == nil && l.want == lists.On && state.On && state.Fill == s.Fill:
			l.x.shards[l.shard].rebuild = nil
			return reached
		case err != nil || state.On || l.seen != nil && state == *l.seen:
			return unfinished
		}
		l.seen = &state
		l.x.core.Sleep(pollOwner)
		if l.read() == logGone {
			return logGone
		}
	}
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
		l.x.core.Fail(l.stuck(c, r.Err))
	case l.failing == 0:
		l.calls, l.failing = 0, now
		if node := l.x.listNode(l.shard); !l.reported {
			l.reported = true
			l.x.doing(planner.ListAddress(l.shard), "wait", fmt.Sprintf("for node %s: %s", node, planner.ShortNodeError(r.Err)))
		}
	case now-l.failing > l.x.core.Patience:
		l.x.core.Fail(l.stuck(c, r.Err))
	default:
		l.calls = 0
	}
}

// stuck returns the error of a list that could not be filled, or stopped and drained.
func (l *listRebuild) stuck(c *lists.Call, err error) error {
	node, what := l.x.listNode(l.shard), "filled"
	remedy := "If that server is gone for good, start an empty one at its address"
	if l.want == lists.Stopped {
		what = "stopped and drained"
		remedy += "; grabs that the ledger lacks are then lost"
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s on node %s cannot be %s (%s): %s", planner.ListAddress(l.shard), node, what, c.Kind, planner.ShortNodeError(err))
	}
	if errors.Is(err, lists.ErrToken) || errors.Is(err, lists.ErrLength) {
		remedy = "Another process rebuilds it: wait until it has finished"
	}
	return fmt.Errorf("%s on node %s cannot be %s, tried for %v (%s): %s. %s",
		planner.ListAddress(l.shard), node, what, l.x.core.Patience, c.Kind, planner.ShortNodeError(err), remedy)
}

// stepNames are the names of the calls of a lists.Machine.
var stepNames = map[lists.CallKind]string{
	lists.InspectCall: "inspect list",
	lists.RunIDCall:   "read list's run",
	lists.StopCall:    "stop list",
	lists.ReadCall:    "read stream",
	lists.PutCall:     "fill list",
	lists.StartCall:   "start list",
}

// onLists reports whether lists grant the sale's units.
func (x *execution) onLists() bool { return planner.EngineOf(x.sale.Newest()) == spec.EngineRedis }
