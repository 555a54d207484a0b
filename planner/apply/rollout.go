package apply

import (
	"fmt"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
)

// pollOwner is the interval of checks whether an owner has done its part.
const pollOwner = 100 * time.Millisecond

// rollOut brings every shard to the newest generation, the goal. Owners do that too, and
// sooner, since no other process can append beside a busy owner; they get a ttl. If a shard has
// no owner, or the ttl has passed, rollOut reads the shard's log to its end and appends the
// missing generations in order; the reducer ignores a generation that it has. A list that is on
// is stopped and drained before.
func (x *execution) rollOut() {
	x.begin("applying the generation to the shards")
	x.goal = x.sale.Generation()
	x.shards = make([]shard, x.sale.Shards())
	x.core.Check(x.checkLists(x.sale.Planned(x.goal)))
	alive := x.findOwner()
	for open := x.allShards(); ; x.core.Sleep(pollOwner) {
		var waiting, own []int
		// A head is written together with its entry, so its generation is true, though it may
		// be out of date.
		for j, head := range x.readHeads(open) {
			switch i := open[j]; {
			case head != nil && head.Generation >= x.goal:
				x.shards[i].head = head
				x.rolledOut(i)
			case head != nil && head.Epoch > 0 && alive && x.core.Now.Mono < x.seenAt+x.ttl():
				waiting = append(waiting, i)
			default:
				own = append(own, i)
			}
		}
		x.core.Each(len(own), func(j int) { x.bringShard(own[j]) })
		if open = waiting; len(open) == 0 {
			return
		}
	}
}

// rolledOut reports that a shard has the goal.
func (x *execution) rolledOut(i int) {
	if x.plan.Kind == planner.KindDestroy {
		x.doing(planner.ShardAddress(i), "close", "")
		return
	}
	x.finished(planner.ShardAddress(i), "")
	if x.sale.Planned(x.goal).GetSettings().GetPhase() != pb.Phase_OPEN {
		x.finished(planner.ListAddress(i), "") // it is off: a shard that is open turns it on later
	}
}

// bringShard appends to a shard's log up to the goal.
func (x *execution) bringShard(i int) {
	for e := x.readShard(i); ; {
		state := x.shards[i].state
		switch {
		case e == ledger.Gone:
			x.lost(i)
			e = x.readShard(i)
		case e == ledger.Again:
			e = x.createAgain(i)
		case state.Generation >= x.goal:
			x.shards[i].head = new(state.Head())
			if x.plan.Kind != planner.KindDestroy && x.shards[i].rebuild == nil {
				x.shards[i].forget()
			}
			x.rolledOut(i)
			return
		case state.Next() > 0:
			x.stopList(i)
			if e = ledger.CaughtUp; x.shards[i].state.Generation < x.goal { // else another process has appended it
				e = x.appendNext(i)
			}
		case x.sale.Applied() > 0:
			x.lost(i)
			e = x.readShard(i)
		default:
			x.recheck()
			if x.sale.Applied() > 0 { // another process has created it
				e = x.readShard(i)
			} else {
				e = x.appendNext(i)
			}
		}
	}
}

// createAgain repeats a create that is not stored, after a recheck: a blind repetition could
// restore a log that was deleted meanwhile.
func (x *execution) createAgain(i int) ledger.Event {
	x.core.Sleep(againPause)
	x.recheck()
	if x.sale.Applied() > 0 {
		x.shardLog(i).Writer.Abandon()
		return x.readShard(i)
	}
	return x.shardLog(i).Resend()
}

// appendNext appends the next generation of a shard.
func (x *execution) appendNext(i int) ledger.Event {
	state := x.shards[i].state
	draft := state.Draft(x.Writer, x.timeUs())
	if err := draft.Generation(x.sale.ShardGeneration(state.Generation+1, i)); err != nil {
		x.core.Fail(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, planner.ShardAddress(i), err))
	}
	return x.appendDraft(i, draft)
}

// stopList stops and drains a shard's list before a generation is appended to the shard's log:
// only then does the log have all grabs. A shard that is not open has no list
// that is on, and a shard without a fill never had one.
func (x *execution) stopList(i int) {
	s := x.shards[i].state
	open := func(s *ledger.State) bool { return s.Phase == ledger.PhaseOpen && s.Generation < x.goal }
	if !x.onLists() || s.Fill == 0 || !open(s) || x.shards[i].rebuild != nil && x.shards[i].rebuild.Stopped(s) {
		return
	}
	x.bring(i, lists.Stopped, func(s *ledger.State) bool { return !open(s) })
}
