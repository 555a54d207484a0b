package apply

import (
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
)

// rollout brings every shard to a generation. Owners do that too, and sooner, since no other
// process can append beside a busy owner; they get a ttl. If a shard has no owner, or the ttl
// has passed, rollout reads the shard's log to its end and appends the missing generations in
// order; the reducer ignores a generation that it has. A list that gives is stopped and
// drained before.
type rollout struct {
	x     *execution
	goal  uint64
	alive bool // a process serves the sale
	ready []bool
	then  func()
}

// pollOwner is the interval of checks whether an owner has done its part.
const pollOwner = 100 * time.Millisecond

func (x *execution) rollOut(then func()) {
	x.begin(bringingShards)
	goal := x.sale.Generation()
	x.goal = goal
	x.shards = make([]shard, x.sale.Shards())
	p, _ := x.sale.Planned(goal)
	if err := x.checkLists(p); err != nil {
		x.core.End(err)
		return
	}
	d := &rollout{x: x, goal: goal, ready: make([]bool, len(x.shards)), then: then}
	x.findOwner(func(alive bool) {
		d.alive = alive
		d.look()
	})
}

// look reads the heads of all shards that are not ready, and appends where that is due. A head
// is written together with its entry, so its generation is true, though it may be out of date.
func (d *rollout) look() {
	open := slices.DeleteFunc(d.x.allShards(), func(i int) bool { return d.ready[i] })
	d.x.readHeads(open, func(heads []*ledger.Head) {
		var own []int
		waiting := false
		for j, i := range open {
			switch head := heads[j]; {
			case head != nil && head.Generation >= d.goal:
				d.x.shards[i].head = head
				d.finish(i)
			case head != nil && head.Epoch > 0 && d.alive && d.x.core.Now.Mono < d.x.seenAt+d.x.ttl():
				waiting = true
			default:
				own = append(own, i)
			}
		}
		d.x.core.Each(own, d.append, func() {
			if waiting {
				d.x.core.After(pollOwner, d.look)
				return
			}
			d.then()
		})
	})
}

func (d *rollout) finish(i int) {
	d.ready[i] = true
	if d.x.plan.Kind == planner.KindDestroy {
		d.x.doing(planner.ShardAddress(i), "close", "")
		return
	}
	d.x.finished(planner.ShardAddress(i), "")
	if p, _ := d.x.sale.Planned(d.goal); p.GetSettings().GetPhase() != pb.Phase_OPEN {
		d.x.finished(planner.ListAddress(i), "") // it is off: a shard that is open turns it on later
	}
}

// append brings one shard to the goal.
func (d *rollout) append(i int, done func()) {
	var event func(ledger.Event)
	read := func() { d.x.shardLog(i).Read(event) }
	event = func(e ledger.Event) {
		state := d.x.shards[i].state
		switch {
		case e == ledger.Gone:
			d.x.lost(i, read)
		case e == ledger.Again:
			d.createAgain(i, read, event)
		case state.Generation >= d.goal:
			head := state.Head()
			d.x.shards[i].head = &head
			if d.x.plan.Kind != planner.KindDestroy && d.x.shards[i].rebuild == nil {
				d.x.shards[i].forget()
			}
			d.finish(i)
			done()
		case state.Next() > 0:
			d.stopList(i, func() {
				if d.x.shards[i].state.Generation >= d.goal { // another process has appended it
					event(ledger.CaughtUp)
					return
				}
				d.next(i, event)
			})
		case d.x.sale.Applied() > 0:
			d.x.lost(i, read)
		default:
			d.x.recheck(func() {
				if d.x.sale.Applied() > 0 { // another process has created it
					read()
					return
				}
				d.next(i, event)
			})
		}
	}
	read()
}

// createAgain repeats a create that is not stored, after a recheck: a blind repetition could
// restore a log that was deleted meanwhile.
func (d *rollout) createAgain(i int, read func(), event func(ledger.Event)) {
	d.x.core.After(againPause, func() {
		d.x.recheck(func() {
			if d.x.sale.Applied() > 0 {
				d.x.shardLog(i).Writer.Abandon()
				read()
				return
			}
			d.x.shardLog(i).Resend(event)
		})
	})
}

// next appends the next generation of a shard.
func (d *rollout) next(i int, event func(ledger.Event)) {
	state := d.x.shards[i].state
	draft := state.Draft(d.x.Writer, d.x.timeUs())
	if err := draft.Generation(d.x.sale.ShardGeneration(state.Generation+1, i)); err != nil {
		d.x.core.End(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, planner.ShardAddress(i), err))
		return
	}
	d.x.appendDraft(i, draft, event)
}

// stopList stops and drains a shard's list before a generation is appended to the shard's log:
// only then does the log know which units are available. A shard that is not open has no list
// that gives, and a shard without a fill never had one.
func (d *rollout) stopList(i int, then func()) {
	s := d.x.shards[i].state
	open := func(s *ledger.State) bool { return s.Phase == ledger.PhaseOpen && s.Generation < d.goal }
	if !d.x.onLists() || s.Fill == 0 || !open(s) || d.x.shards[i].rebuild != nil && d.x.shards[i].rebuild.Stopped(s) {
		then()
		return
	}
	d.x.bring(i, lists.Stopped, func(s *ledger.State) bool { return !open(s) }, then)
}
