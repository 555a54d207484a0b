package planner

import (
	"fmt"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// drive brings every shard to a generation. Its owner, if there is one, does
// that too and sooner, since nobody else can get an append in beside a busy
// owner: it gets a ttl. Where there is none, or the ttl has passed, the shard's
// log is read to its end and the generations that it lacks are appended, in
// order; the reducer ignores one that it has. A list that gives is stopped and
// drained before.
type drive struct {
	*work
	goal  uint64
	alive bool // somebody serves the sale
	ready []bool
	then  func()
}

// pollOwner is how often it is looked whether an owner has done its part.
const pollOwner = 100 * time.Millisecond

func (w *work) drive(goal uint64, then func()) {
	w.shards = make([]*track, w.sale.Shards())
	w.states = make([]*ledger.State, len(w.shards))
	w.heads = make([]*ledger.Head, len(w.shards))
	w.losses = make([]int, len(w.shards))
	w.machines = make([]*lists.Machine, len(w.shards))
	p, _ := w.sale.Planned(goal)
	if err := w.checkLists(p); err != nil {
		w.end(err)
		return
	}
	d := &drive{work: w, goal: goal, ready: make([]bool, len(w.shards)), then: then}
	if w.sale.Applied() == 0 {
		d.look() // nobody serves it yet
		return
	}
	w.findOwner(func(alive bool) {
		d.alive = alive
		d.look()
	})
}

// look reads the heads of all shards that are not ready, and appends where it
// must. A head is written together with its entry, so what it says of the
// generation is true, if perhaps no longer all.
func (d *drive) look() {
	var open []int
	var logs []string
	for i, name := range shardLogs(d.sale) {
		if !d.ready[i] {
			open, logs = append(open, i), append(logs, name)
		}
	}
	d.insist(call{kind: callHeads, logs: logs}, func(r reply) {
		var own []int
		waiting := false
		for j, i := range open {
			head, err := parseHead(r.heads[j])
			switch {
			case err != nil:
				d.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(i), err))
				return
			case head != nil && head.Generation >= d.goal:
				d.heads[i] = head
				d.finish(i)
			case head != nil && head.Epoch > 0 && d.alive && d.now.Mono < d.seenAt+d.ttl():
				waiting = true
			default:
				own = append(own, i)
			}
		}
		d.each(own, d.append, func() {
			if waiting {
				d.after(pollOwner, d.look)
				return
			}
			d.then()
		})
	})
}

func parseHead(stored []byte) (*ledger.Head, error) {
	if stored == nil {
		return nil, nil
	}
	head, err := ledger.ParseHead(stored)
	return &head, err
}

func (d *drive) finish(i int) {
	d.ready[i] = true
	if d.plan.Kind == KindDestroy {
		d.doing(shardAddress(i), "close", "")
		return
	}
	d.finished(shardAddress(i), "")
	if p, _ := d.sale.Planned(d.goal); p.GetSettings().GetPhase() != pb.Phase_OPEN {
		d.finished(listAddress(i), "") // it is off: a shard that is open gets its list later
	}
}

// shard returns the track of a shard's log, of which nothing may be known yet.
func (w *work) shard(i int) *track {
	if w.shards[i] == nil {
		log := spec.ShardLog(w.plan.UID, i, len(w.shards))
		state := ledger.NewState(log)
		w.states[i] = state
		w.shards[i] = &track{core: &w.core, w: ledger.NewWriter(log, state), apply: func(e *ledger.Entry) error {
			return state.Apply(e.Commit, e.Hash, len(e.Bytes))
		}}
	}
	return w.shards[i]
}

// append brings one shard to the goal.
func (d *drive) append(i int, done func()) {
	var event func(ledger.Event)
	read := func() { d.shard(i).read(event) }
	event = func(e ledger.Event) {
		state := d.states[i]
		switch {
		case e == ledger.Gone:
			d.lost(i, read)
		case e == ledger.Again:
			d.createAgain(i, read, event)
		case state.Generation >= d.goal:
			head := state.Head()
			d.heads[i] = &head
			if d.plan.Kind != KindDestroy && d.machines[i] == nil {
				d.shards[i], d.states[i] = nil, nil // a log may be large, and nobody asks for it again
			}
			d.finish(i)
			done()
		case state.Next() > 0:
			d.stopList(i, func() {
				if d.states[i].Generation >= d.goal { // somebody else has appended it
					event(ledger.CaughtUp)
					return
				}
				d.next(i, event)
			})
		case d.sale.Applied() > 0:
			d.lost(i, read)
		default:
			d.recheck(func() {
				if d.sale.Applied() > 0 { // somebody else has created it
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
func (d *drive) createAgain(i int, read func(), event func(ledger.Event)) {
	d.after(againPause, func() {
		d.recheck(func() {
			if d.sale.Applied() > 0 {
				d.shard(i).w.Abandon()
				read()
				return
			}
			d.shard(i).resend(event)
		})
	})
}

// next appends the generation that a shard is to take next.
func (d *drive) next(i int, event func(ledger.Event)) {
	state := d.states[i]
	draft := state.Draft(d.writer, d.timeUs())
	if err := draft.Generation(d.sale.ShardGeneration(state.Generation+1, i)); err != nil {
		d.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(i), err))
		return
	}
	d.appendDraft(i, draft, event)
}

// appendDraft appends to a shard's log.
func (w *work) appendDraft(i int, draft *ledger.Draft, event func(ledger.Event)) {
	entry, err := draft.Encode()
	if err != nil {
		w.end(err)
		return
	}
	w.shard(i).append(entry, event)
}

// lost deals with a shard that must have a log, and of which a read said that it
// has none. Reads may lag, so it is read again from its begin; one that stays
// away while the sale is live is a broken invariant.
func (w *work) lost(i int, again func()) {
	if w.losses[i]++; w.losses[i] < missingTries {
		w.shards[i] = nil
		w.after(missingPause, again)
		return
	}
	w.recheck(func() {
		w.end(noLog(shardAddress(i)))
	})
}
