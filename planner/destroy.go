package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// teardown is the end of a sale: close, drain, seal, export, note that in the
// sale's log, and only then delete. A run that finds the note only deletes: what
// it would export may be half deleted already.
type teardown struct {
	*work
	alive     bool // somebody serves the sale
	rehearsal bool // no export, and the sale's own log goes too
}

func (t *teardown) start() {
	t.overtaken = t.erase // another destroy has exported, and deletes by now
	t.askNodes(func() { t.enter(t.close, t.erase) })
}

// close brings every shard to the generation that is closed for good. From then
// on no shard accepts a claim or sends units away.
func (t *teardown) close() {
	goal := t.sale.Generation()
	t.result.Generation = goal
	t.drive(goal, func() {
		if t.sale.Applied() == 0 {
			// It never was on every shard, so nobody served it, and nobody may
			// begin to now.
			t.drain()
			return
		}
		t.noteApplied(goal, t.sale.Unmarked(), func() {
			t.findOwner(func(alive bool) {
				t.alive = alive
				t.drain()
			})
		})
	})
}

// drain reads every shard to its end, and goes on when no units are on their way
// between shards and none are held. An owner does that itself, and gets a ttl.
func (t *teardown) drain() {
	t.readAll(func() {
		open, until := t.unsettled()
		switch {
		case !open:
			t.seal()
		case t.alive && t.now.Mono < t.seenAt+t.ttl():
			t.after(pollOwner, t.drain)
		default:
			t.settle(until)
		}
	})
}

// readAll reads every shard's log, at least to its close.
func (t *teardown) readAll(then func()) {
	t.each(t.allShards(), t.readShard, then)
}

// readShard reads a shard's log again until it shows the close. Every transfer
// out of a shard comes before that, so one whose read lags is not yet known to
// have none: sealed by it, units would be lost on their way.
func (t *teardown) readShard(i int, done func()) {
	began := t.now.Mono
	var look func()
	look = func() {
		t.shard(i).read(func(e ledger.Event) {
			switch s := t.states[i]; {
			case e == ledger.Gone || s.Next() == 0:
				t.lost(i, look)
			case s.Phase == ledger.PhaseClosed || s.Sealed():
				done()
			case t.now.Mono-began > maxLag:
				t.end(fmt.Errorf("%w: log %s could not be read to its close for %v, it answers from the past",
					ErrStore, t.shard(i).w.Log(), maxLag))
			default:
				t.after(lagPause, look)
			}
		})
	}
	look()
}

// unsettled says whether there are transfers or holds, and when the next hold ends by
// the wall clock, in microseconds since 1970; 0 if none does.
func (t *teardown) unsettled() (open bool, until int64) {
	for _, s := range t.states {
		open = open || len(s.Open()) > 0 || s.Held > 0
		for _, hold := range s.Holds() {
			if until == 0 || hold.HeldUntilUs < until {
				until = hold.HeldUntilUs
			}
		}
	}
	return open, until
}

// settle appends to every shard what it can: the receipt of units sent to it,
// the end of transfers that were received, the end of holds that are due. Then
// it looks again: each receipt allows an end, and holds become due.
func (t *teardown) settle(until int64) {
	appended := false
	t.each(t.allShards(), func(i int, done func()) {
		draft := t.states[i].Draft(t.writer, t.now.Wall.UnixMicro())
		if err := t.receive(i, draft); err != nil {
			t.end(err)
			return
		}
		for _, out := range t.states[i].Open() {
			if t.states[out.To].Received(i) >= out.K {
				draft.Ack(out.To, out.K)
			}
		}
		for _, hold := range t.states[i].Holds() {
			draft.Expire(hold)
		}
		if draft.Ops() == 0 {
			done()
			return
		}
		appended = true
		t.appendDraft(i, draft, func(e ledger.Event) {
			if e == ledger.Gone {
				t.lost(i, func() { t.readShard(i, done) })
				return
			}
			done()
		})
	}, func() {
		if appended {
			t.drain()
			return
		}
		wait := time.Duration(until-t.now.Wall.UnixMicro()) * time.Microsecond
		t.doing(saleAddress(t.plan.Sale), "wait", fmt.Sprintf("for holds that end in %v at the earliest", wait.Round(time.Second)))
		t.after(min(max(wait, pollOwner), lastPause), t.drain)
	})
}

// receive takes in what other shards have sent and this one has not yet.
func (t *teardown) receive(to int, draft *ledger.Draft) error {
	for from, s := range t.states {
		for _, out := range s.Open() {
			if out.To != to {
				continue
			}
			if err := draft.In(from, out.K, out.Units); err != nil {
				return fmt.Errorf("shard %d: %w", to, err)
			}
		}
	}
	return nil
}

// seal ends every shard's log. All are closed and drained, so nothing can be
// sent to a sealed shard any more. Where somebody else was faster, all is looked
// at again.
func (t *teardown) seal() {
	t.each(t.allShards(), t.sealShard, func() {
		if slices.ContainsFunc(t.states, func(s *ledger.State) bool { return !s.Sealed() }) {
			t.drain()
			return
		}
		t.export(1)
	})
}

func (t *teardown) sealShard(i int, done func()) {
	s := t.states[i]
	look := func() {
		if s.Sealed() {
			t.doing(shardAddress(i), "seal", "")
		}
		done()
	}
	if s.Sealed() {
		look()
		return
	}
	draft := s.Draft(t.writer, t.now.Wall.UnixMicro())
	draft.Seal()
	t.appendDraft(i, draft, func(e ledger.Event) {
		if e == ledger.Gone {
			t.lost(i, done)
			return
		}
		look()
	})
}

// exportTries is how often an export may fail: it reads the logs once more.
const exportTries = 4

// export writes the ledger to a file and notes what it holds.
func (t *teardown) export(try int) {
	if t.rehearsal {
		t.noteSealed(nil)
		return
	}
	job := &Export{sale: t.plan.Sale, uid: t.plan.UID, shards: t.states}
	t.call(call{kind: callExport, export: job}, func(r reply) {
		switch {
		case errors.Is(r.err, ledger.ErrGone):
			t.exportGone(try, r.err)
		case r.err == nil:
			t.changed = true
			t.result.Export = r.path
			t.doing(saleAddress(t.plan.Sale), "export", r.path)
			t.noteSealed(r.digest)
		case try == exportTries || errors.Is(r.err, ErrRefused) || errors.Is(r.err, ledger.ErrCorrupt):
			t.end(r.err)
		default:
			t.after(firstPause<<try, func() { t.export(try + 1) })
		}
	})
}

// exportGone goes on after an export that found a log gone. Another destroy may
// have exported before it and be deleting by now: the sale's log says so, and
// then there is only that to do. While it does not, the read may have lagged.
func (t *teardown) exportGone(try int, cause error) {
	look := func() {
		switch {
		case t.sale.UID() != t.plan.UID:
			t.stale("was destroyed meanwhile, and begun anew")
		case !t.sale.Live():
			t.erase()
		case try == exportTries:
			t.end(cause)
		default:
			t.after(firstPause<<try, func() { t.export(try + 1) })
		}
	}
	t.log.read(func(e ledger.Event) {
		if e == ledger.Gone {
			t.reopenSale(look)
			return
		}
		look()
	})
}

// noteSealed says in the sale's log what was sealed and exported. From here on
// the run's logs may be deleted.
func (t *teardown) noteSealed(digest []byte) {
	left, err := refund(t.sale, t.states)
	if err != nil {
		t.end(err)
		return
	}
	sealed := &pb.Sealed{ExportDigest: digest, Refund: left}
	for _, s := range t.states {
		root := s.Root()
		sealed.Roots = append(sealed.Roots, root[:])
		sealed.Slots = append(sealed.Slots, s.Next())
		sealed.Claims += int64(s.Claims())
		sealed.UnitsSold += s.Sold
	}
	t.note(t.isSealed(sealed), &pb.Op{Op: &pb.Op_Sealed{Sealed: sealed}}, t.erase)
}

// isSealed says whether the sale's log has the note. Somebody else may have
// written it, about the same bytes: an export does not depend on its author.
func (t *teardown) isSealed(mine *pb.Sealed) func() bool {
	return func() bool {
		has := t.sale.Sealed()
		switch {
		case t.sale.UID() != t.plan.UID:
			t.stale("was destroyed meanwhile, and begun anew")
		case len(has.GetExportDigest()) > 0 && string(has.GetExportDigest()) != string(mine.GetExportDigest()):
			t.end(fmt.Errorf("%w: the sale was sealed with another export than this one", ledger.ErrCorrupt))
		}
		return has != nil
	}
}

// allShards lists the shards.
func (w *work) allShards() []int {
	shards := make([]int, w.sale.Shards())
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// erase removes everything of the run but the sale's own log. It only ever runs
// when that log says that the run is sealed.
func (t *teardown) erase() {
	t.result.ExportDigest = t.sale.Sealed().GetExportDigest()
	t.result.Generation = t.sale.Generation()
	t.result.Refund = RefundOf(t.sale)
	t.sweep(func() {
		t.forgetLists(func() {
			t.insist(call{kind: callHeads, logs: shardLogs(t.sale)}, func(r reply) {
				t.changed = t.changed || slices.ContainsFunc(r.heads, func(head []byte) bool { return head != nil })
				t.eraseShards()
			})
		})
	})
}

// eraseShards deletes to where the logs were sealed, whether they have a head or
// not: that read may lag.
func (t *teardown) eraseShards() {
	slots := t.sale.Sealed().GetSlots()
	t.each(t.allShards(), func(i int, done func()) {
		log := spec.ShardLog(t.plan.UID, i, len(slots))
		t.insist(call{kind: callDelete, log: log, upTo: max(slots[i], 1) - 1}, func(reply) { done() })
	}, t.eraseLate)
}

// eraseLate removes what is there all the same: the first slot of a shard, by a
// create that was sent before the run was sealed and came in after the delete.
func (t *teardown) eraseLate() {
	logs := shardLogs(t.sale)
	t.insist(call{kind: callHeads, logs: logs}, func(r reply) {
		var left []int
		last := make([]uint64, len(logs))
		for i, stored := range r.heads {
			head, err := parseHead(stored)
			if err != nil {
				t.end(fmt.Errorf("%w: %s: %w", ledger.ErrCorrupt, shardAddress(i), err))
				return
			}
			if head != nil {
				left, last[i] = append(left, i), head.Slot
			} else {
				t.finished(shardAddress(i), "")
			}
		}
		if len(left) == 0 {
			t.noteDestroyed()
			return
		}
		t.changed = true
		t.each(left, func(i int, done func()) {
			t.insist(call{kind: callDelete, log: logs[i], upTo: last[i]}, func(reply) { done() })
		}, func() { t.after(pollOwner, t.eraseLate) })
	})
}

func (t *teardown) noteDestroyed() {
	t.note(func() bool {
		if t.sale.UID() != t.plan.UID {
			t.stale("was begun anew meanwhile")
		}
		return t.sale.Destroyed()
	}, &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}}, func() {
		if !t.rehearsal {
			t.finished(saleAddress(t.plan.Sale), "")
			t.end(nil)
			return
		}
		t.changed = true
		t.insist(call{kind: callDelete, log: spec.SaleLog(t.plan.Sale), upTo: t.sale.Next() - 1}, func(reply) {
			t.finished(saleAddress(t.plan.Sale), "")
			t.end(nil)
		})
	})
}
