package planner

import (
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// rollout brings every shard to a generation. Its owner, if there is one, does
// that too and sooner, since nobody else can get an append in beside a busy
// owner: it gets a ttl. Where there is none, or the ttl has passed, the shard's
// log is read to its end and the generations that it lacks are appended, in
// order; the reducer ignores one that it has. A list that gives is stopped and
// drained before.
type rollout struct {
	x     *execution
	goal  uint64
	alive bool // somebody serves the sale
	ready []bool
	then  func()
}

// pollOwner is how often it is looked whether an owner has done its part.
const pollOwner = 100 * time.Millisecond

func (x *execution) rollOut(goal uint64, then func()) {
	x.goal = goal
	x.shards = make([]*logDriver, x.sale.Shards())
	x.states = make([]*ledger.State, len(x.shards))
	x.heads = make([]*ledger.Head, len(x.shards))
	x.losses = make([]int, len(x.shards))
	x.machines = make([]*lists.Machine, len(x.shards))
	p, _ := x.sale.Planned(goal)
	if err := x.checkLists(p); err != nil {
		x.core.end(err)
		return
	}
	d := &rollout{x: x, goal: goal, ready: make([]bool, len(x.shards)), then: then}
	x.findOwner(func(alive bool) {
		d.alive = alive
		d.look()
	})
}

// look reads the heads of all shards that are not ready, and appends where it
// must. A head is written together with its entry, so what it says of the
// generation is true, if perhaps no longer all.
func (d *rollout) look() {
	open := slices.DeleteFunc(d.x.allShards(), func(i int) bool { return d.ready[i] })
	d.x.readHeads(open, func(heads []*ledger.Head) {
		var own []int
		waiting := false
		for j, i := range open {
			switch head := heads[j]; {
			case head != nil && head.Generation >= d.goal:
				d.x.heads[i] = head
				d.finish(i)
			case head != nil && head.Epoch > 0 && d.alive && d.x.core.now.Mono < d.x.seenAt+d.x.ttl():
				waiting = true
			default:
				own = append(own, i)
			}
		}
		d.x.core.each(own, d.append, func() {
			if waiting {
				d.x.core.after(pollOwner, d.look)
				return
			}
			d.then()
		})
	})
}

// readHeads reads the heads of shards; nil is the head of one that has no log.
func (x *execution) readHeads(shards []int, then func([]*ledger.Head)) {
	var logs []string
	for _, i := range shards {
		logs = append(logs, spec.ShardLog(x.sale.UID(), i, x.sale.Shards()))
	}
	x.core.retry(call{kind: callHeads, logs: logs}, func(r reply) {
		heads := make([]*ledger.Head, len(shards))
		for j, stored := range r.heads {
			head := newShardActual(stored)
			if head.Err != nil {
				x.core.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(shards[j]), head.Err))
				return
			}
			heads[j] = head.Head
		}
		then(heads)
	})
}

func (d *rollout) finish(i int) {
	d.ready[i] = true
	if d.x.plan.Kind == KindDestroy {
		d.x.doing(shardAddress(i), "close", "")
		return
	}
	d.x.finished(shardAddress(i), "")
	if p, _ := d.x.sale.Planned(d.goal); p.GetSettings().GetPhase() != pb.Phase_OPEN {
		d.x.finished(listAddress(i), "") // it is off: a shard that is open gets its list later
	}
}

// shard returns the track of a shard's log, of which nothing may be known yet.
func (x *execution) shard(i int) *logDriver {
	if x.shards[i] == nil {
		log := spec.ShardLog(x.plan.UID, i, len(x.shards))
		state := ledger.NewState(log)
		x.states[i] = state
		x.shards[i] = &logDriver{core: x.core, w: ledger.NewWriter(log, state), apply: func(e *ledger.Entry) error {
			return state.Apply(e.Commit, e.Hash, len(e.Bytes))
		}}
	}
	return x.shards[i]
}

// append brings one shard to the goal.
func (d *rollout) append(i int, done func()) {
	var event func(ledger.Event)
	read := func() { d.x.shard(i).read(event) }
	event = func(e ledger.Event) {
		state := d.x.states[i]
		switch {
		case e == ledger.Gone:
			d.x.lost(i, read)
		case e == ledger.Again:
			d.createAgain(i, read, event)
		case state.Generation >= d.goal:
			head := state.Head()
			d.x.heads[i] = &head
			if d.x.plan.Kind != KindDestroy && d.x.machines[i] == nil {
				d.x.shards[i], d.x.states[i] = nil, nil // a log may be large, and nobody asks for it again
			}
			d.finish(i)
			done()
		case state.Next() > 0:
			d.stopList(i, func() {
				if d.x.states[i].Generation >= d.goal { // somebody else has appended it
					event(ledger.CaughtUp)
					return
				}
				d.next(i, event)
			})
		case d.x.sale.Applied() > 0:
			d.x.lost(i, read)
		default:
			d.x.recheck(func() {
				if d.x.sale.Applied() > 0 { // somebody else has created it
					read()
					return
				}
				d.next(i, event)
			})
		}
	}
	read()
}

// createAgain sends a create once more that is not stored yet. To do so blindly
// could bring back a log that is deleted by now.
func (d *rollout) createAgain(i int, read func(), event func(ledger.Event)) {
	d.x.core.after(againPause, func() {
		d.x.recheck(func() {
			if d.x.sale.Applied() > 0 {
				d.x.shard(i).w.Abandon()
				read()
				return
			}
			d.x.shard(i).resend(event)
		})
	})
}

// next appends the generation that a shard is to take next.
func (d *rollout) next(i int, event func(ledger.Event)) {
	state := d.x.states[i]
	draft := state.Draft(d.x.writer, d.x.timeUs())
	if err := draft.Generation(d.x.sale.ShardGeneration(state.Generation+1, i)); err != nil {
		d.x.core.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(i), err))
		return
	}
	d.x.appendDraft(i, draft, event)
}

// appendDraft appends to a shard's log.
func (x *execution) appendDraft(i int, draft *ledger.Draft, event func(ledger.Event)) {
	entry, err := draft.Encode()
	if err != nil {
		x.core.end(err)
		return
	}
	x.shard(i).append(entry, event)
}

// lost deals with a shard that must have a log, and of which a read said that it
// has none. Reads may lag, so it is read again from its begin; one that stays
// away while the sale is live is a broken invariant.
func (x *execution) lost(i int, again func()) {
	if x.losses[i]++; x.losses[i] < missingTries {
		x.shards[i] = nil
		x.core.after(missingPause, again)
		return
	}
	x.recheck(func() {
		x.core.end(noLog(x.sale, i))
	})
}
