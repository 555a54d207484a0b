package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// teardown ends a sale: it closes, drains, seals and exports it, appends Sealed to the sale's
// log, and only then deletes. A run that finds Sealed only deletes: the logs that it would
// export may be half deleted.
type teardown struct {
	x         *execution
	alive     bool          // a process serves the sale
	reportAt  time.Duration // monotonic: time of the next report about open holds
	digest    []byte        // of the export
	drawSteps int           // draw steps in the sale's log at the time of the export
}

func (t *teardown) start() {
	t.x.overtaken = t.erase // another destroy has exported and is deleting
	t.x.core.Steps(
		t.x.askNodes,
		t.x.enter, // appends a Planned that closes the sale
		t.close,
		t.drain,
		t.seal,
		t.export,
		t.noteSealed,
		func(func()) { t.erase() })
}

// close brings every shard to the closed generation. After that no shard accepts a claim or
// sends units.
func (t *teardown) close(then func()) {
	t.x.result.Generation = t.x.sale.Generation()
	t.x.rollOut(func() {
		if t.x.sale.Applied() == 0 {
			// It never was on every shard, so no process served it, and none may begin to.
			then()
			return
		}
		t.x.unmarked = t.x.sale.Unmarked()
		t.x.noteApplied(func() {
			t.x.findOwner(func(alive bool) {
				t.alive = alive
				then()
			})
		})
	})
}

// drain reads every shard to its end, and continues when no transfer and no hold is open. An
// owner completes them itself and gets a ttl for that.
func (t *teardown) drain(then func()) {
	t.x.begin(settlingTransfers)
	again := func() { t.drain(then) }
	t.x.core.Each(t.x.allShards(), t.readShard, func() {
		open, until := t.unsettled()
		switch {
		case !open:
			then()
		case t.alive && t.x.core.Now.Mono < t.x.seenAt+t.x.ttl():
			t.x.core.After(pollOwner, again)
		default:
			t.endTransfers(until, again)
		}
	})
}

// readShard repeats the read of a shard's log until it shows the close. Every transfer out of
// a shard precedes the close, so a lagging read does not prove that there is none. Sealing on
// such a read would lose units in transit.
func (t *teardown) readShard(i int, done func()) {
	began := t.x.core.Now.Mono
	var look func()
	look = func() {
		t.x.shardLog(i).Read(func(e ledger.Event) {
			switch s := t.x.shards[i].state; {
			case e == ledger.Gone || s.Next() == 0:
				t.x.lost(i, look)
			case s.Phase == ledger.PhaseClosed || s.Sealed():
				done()
			case t.x.core.Now.Mono-began > machine.MaxLag:
				t.x.core.End(fmt.Errorf("%w: log %s could not be read to its close for %v, it answers from the past",
					planner.ErrStore, t.x.shardLog(i).Writer.Log(), machine.MaxLag))
			default:
				t.x.core.After(lagPause, look)
			}
		})
	}
	look()
}

// unsettled reports whether transfers or holds are open, and when the next hold ends by the
// wall clock, in microseconds since 1970; 0 if there is none.
func (t *teardown) unsettled() (open bool, until int64) {
	states := t.x.states()
	for _, s := range states {
		open = open || len(s.Open()) > 0 || s.Held > 0
	}
	until, _, _ = planner.HoldTimes(states)
	return open, until
}

// endTransfers appends to each shard the receipts of units sent to it, the ends transfers, and the ends of holds: those that are due, or all of them. Then it drains again,
func (t *teardown) endTransfers(until int64, again func()) {
	appended := false
	t.x.core.Each(t.x.allShards(), func(i int, done func()) {
		draft := t.x.shards[i].state.Draft(t.x.Writer, t.x.core.Now.Wall.UnixMicro())
		if err := t.receive(i, draft); err != nil {
			t.x.core.End(err)
			return
		}
		for _, out := range t.x.shards[i].state.Open() {
			if out.To >= len(t.x.shards) {
				t.x.core.End(fmt.Errorf("%w: shard %d has sent units to shard %d, and there are %d", ledger.ErrCorrupt, i, out.To, len(t.x.shards)))
				return
			}
			if t.x.shards[out.To].state.Received(i) >= out.K {
				draft.Ack(out.To, out.K)
			}
		}
		for _, hold := range t.x.shards[i].state.Holds() {
			if v := draft.Expire(hold); v.Kind == ledger.SettleHeld && t.x.CancelHolds {
				draft.Cancel(hold, t.x.Who, "the sale is destroyed")
			}
		}
		if draft.Ops() == 0 {
			done()
			return
		}
		appended = true
		t.x.appendDraft(i, draft, func(e ledger.Event) {
			if e == ledger.Gone {
				t.x.lost(i, func() { t.readShard(i, done) })
				return
			}
			done()
		})
	}, func() {
		if appended {
			again()
			return
		}
		wait := time.Duration(until-t.x.core.Now.Wall.UnixMicro()) * time.Microsecond
		t.reportHolds(t.x.core.Now.Wall)
		t.x.core.After(min(max(wait, pollOwner), machine.LastPause), again)
	})
}

// receive drafts the receipt of units that other shards have sent and this one lacks.
func (t *teardown) receive(to int, draft *ledger.Draft) error {
	for from := range t.x.shards {
		for _, out := range t.x.shards[from].state.Open() {
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

// seal ends every shard's log. All are closed and drained, so nothing can be sent to a sealed
// shard. If another writer was faster, all shards are read again.
func (t *teardown) seal(then func()) {
	t.x.begin(sealingShards)
	t.x.core.Each(t.x.allShards(), t.sealShard, func() {
		if slices.ContainsFunc(t.x.shards, func(s shard) bool { return !s.state.Sealed() }) {
			t.drain(func() { t.seal(then) })
			return
		}
		then()
	})
}

func (t *teardown) sealShard(i int, done func()) {
	s := t.x.shards[i].state
	look := func() {
		if s.Sealed() {
			t.x.doing(planner.ShardAddress(i), "seal", "")
		}
		done()
	}
	if s.Sealed() {
		look()
		return
	}
	draft := s.Draft(t.x.Writer, t.x.core.Now.Wall.UnixMicro())
	draft.Seal()
	t.x.appendDraft(i, draft, func(e ledger.Event) {
		if e == ledger.Gone {
			t.x.lost(i, done)
			return
		}
		look()
	})
}

// exportTries is the number of attempts at an export. Each reads the logs again.
const exportTries = 4

// export writes the ledger to a file, except that of a rehearsal.
func (t *teardown) export(then func()) {
	if t.x.rehearsal {
		then()
		return
	}
	t.tryExport(1, then)
}

func (t *teardown) tryExport(try int, then func()) {
	t.x.begin(exporting)
	job := &Export{sale: t.x.plan.Sale, uid: t.x.plan.UID, log: t.x.sale, shards: t.x.states(), key: t.x.Key, added: t.x.sale.Added()}
	job.payloads = hasPayloads(t.x.sale)
	t.drawSteps = t.x.sale.DrawSteps()
	type exported struct {
		path   string
		digest []byte
	}
	export := func(ctx context.Context, logs ledger.Logs) (e exported, err error) {
		e.path, e.digest, err = t.x.exporter(ctx, logs, job)
		return e, err
	}
	machine.OnStore(t.x.core, "export", 0, export, func(e exported, err error) {
		switch {
		case errors.Is(err, ledger.ErrGone):
			t.exportGone(try, err, then)
		case err == nil:
			t.x.core.Changed = true
			t.x.result.Export = e.path
			t.x.doing(planner.SaleAddress(t.x.plan.Sale), "export", e.path)
			t.digest = e.digest
			then()
		case try == exportTries || errors.Is(err, planner.ErrRefused) || errors.Is(err, ledger.ErrCorrupt):
			t.x.core.End(err)
		default:
			t.x.core.After(machine.FirstPause<<try, func() { t.tryExport(try+1, then) })
		}
	})
}

// exportGone continues after an export that found a log gone. Another destroy may have
// exported earlier and be deleting; then the sale's log has Sealed, and only the deletion is
// left. Otherwise the read may have lagged.
func (t *teardown) exportGone(try int, cause error, then func()) {
	t.x.readSale(func() {
		switch {
		case t.x.sale.UID() != t.x.plan.UID:
			t.x.stale("was destroyed meanwhile, and begun anew")
		case !t.x.sale.Live():
			t.erase()
		case try == exportTries:
			t.x.core.End(cause)
		default:
			t.x.core.After(machine.FirstPause<<try, func() { t.tryExport(try+1, then) })
		}
	})
}

// noteSealed appends Sealed to the sale's log. After that the run's logs may be deleted.
func (t *teardown) noteSealed(then func()) {
	states := t.x.states()
	left, err := planner.Untaken(t.x.sale, states)
	if err != nil {
		t.x.core.End(err)
		return
	}
	sealed := &pb.Sealed{ExportDigest: t.digest, Refund: left}
	for _, s := range states {
		root := s.Root()
		sealed.Roots = append(sealed.Roots, root[:])
		sealed.Slots = append(sealed.Slots, s.Next())
		sealed.Claims += int64(s.Claims())
		sealed.UnitsSold += s.Sold
	}
	t.x.begin(notingSealed)
	t.x.note(t.isSealed(sealed), &pb.Op{Op: &pb.Op_Sealed{Sealed: sealed}}, then)
}

// isSealed returns a function that reports whether the sale's log has Sealed. Another process
// may have appended it for the same bytes: an export does not depend on its author.
func (t *teardown) isSealed(mine *pb.Sealed) func() (bool, error) {
	return func() (bool, error) {
		has := t.x.sale.Sealed()
		switch {
		case t.x.sale.UID() != t.x.plan.UID:
			return false, planner.Stale("was destroyed meanwhile, and begun anew")
		case !t.x.rehearsal && t.x.sale.DrawSteps() != t.drawSteps:
			return false, planner.Stale("was drawn further since it was exported")
		case len(has.GetExportDigest()) > 0 && string(has.GetExportDigest()) != string(mine.GetExportDigest()):
			return false, fmt.Errorf("%w: the sale was sealed with another export than this one", ledger.ErrCorrupt)
		}
		return has != nil, nil
	}
}

// erase removes everything of the run except the sale's own log. It runs only when that log
// has Sealed.
func (t *teardown) erase() {
	t.x.result.ExportDigest = t.x.sale.Sealed().GetExportDigest()
	t.x.result.Generation = t.x.sale.Generation()
	t.x.result.Refund = planner.RefundOf(t.x.sale)
	t.x.core.Steps(
		t.x.sweep,
		t.forgetLists,
		t.eraseShards,
		func(then func()) { t.eraseUnits(0, then) },
		t.eraseLate,
		t.noteDestroyed,
		t.eraseSale,
		func(func()) {
			t.x.finished(planner.SaleAddress(t.x.plan.Sale), "")
			t.x.core.End(nil)
		})
}

// eraseShards deletes the logs up to the slots at which they were sealed, even those without a
// head: that read may lag.
func (t *teardown) eraseShards(then func()) {
	t.x.begin(deletingLogs)
	t.x.core.ReadHeads(planner.ShardLogs(t.x.sale), func(heads [][]byte) {
		t.x.core.Changed = t.x.core.Changed || slices.ContainsFunc(heads, func(head []byte) bool { return head != nil })
		slots := t.x.sale.Sealed().GetSlots()
		t.x.core.Each(t.x.allShards(), func(i int, done func()) {
			log := spec.ShardLog(t.x.plan.UID, i, len(slots))
			t.x.core.DeleteLog(log, max(slots[i], 1)-1, done)
		}, then)
	})
}

// eraseUnits deletes the log of payloads, and what is appended to it late. The sale had such a
// log, and nothing else records its length. Each read may lag, even the one before the
// deletion. So the log counts as deleted after lagTries reads that do not show it, or twice as
// many if this execution has not deleted it. missed is the number of these reads.
func (t *teardown) eraseUnits(missed int, then func()) {
	if !hasPayloads(t.x.sale) {
		then()
		return
	}
	log := spec.UnitsLog(t.x.plan.UID)
	t.x.core.ReadHeads([]string{log}, func(heads [][]byte) {
		switch {
		case heads[0] == nil && missed < 2*lagTries:
			t.x.core.After(lagPause, func() { t.eraseUnits(missed+1, then) })
			return
		case heads[0] == nil:
			then()
			return
		}
		head, err := ledger.ParseHead(heads[0])
		if err != nil {
			t.x.core.End(fmt.Errorf("%w: log %s: %w", ledger.ErrCorrupt, log, err))
			return
		}
		t.x.core.Changed = true
		t.x.core.DeleteLog(log, head.Slot, func() { t.eraseUnits(lagTries, then) })
	})
}

// hasPayloads reports whether the units of a run have payloads.
func hasPayloads(sale *ledger.Sale) bool { return len(sale.Newest().GetUnits()) > 0 }

// eraseLate removes late writes: the first slot of a shard, whose create was sent before the
// run was sealed and arrived after the deletion.
func (t *teardown) eraseLate(then func()) {
	t.x.readHeads(t.x.allShards(), func(heads []*ledger.Head) {
		var left []int
		for i, head := range heads {
			if head != nil {
				left = append(left, i)
			} else {
				t.x.finished(planner.ShardAddress(i), "")
			}
		}
		if len(left) == 0 {
			then()
			return
		}
		t.x.core.Changed = true
		t.x.core.Each(left, func(i int, done func()) {
			t.x.core.DeleteLog(planner.ShardLogs(t.x.sale)[i], heads[i].Slot, done)
		}, func() { t.x.core.After(pollOwner, func() { t.eraseLate(then) }) })
	})
}

func (t *teardown) noteDestroyed(then func()) {
	t.x.begin(notingDestroyed)
	t.x.note(func() (bool, error) {
		if t.x.sale.UID() != t.x.plan.UID {
			return false, planner.Stale("was begun anew meanwhile")
		}
		return t.x.sale.Destroyed(), nil
	}, &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}}, then)
}

// eraseSale deletes the own log of a rehearsal.
func (t *teardown) eraseSale(then func()) {
	if !t.x.rehearsal {
		then()
		return
	}
	t.x.begin(deletingSale)
	t.x.core.Changed = true
	t.x.core.DeleteLog(spec.SaleLog(t.x.plan.Sale), t.x.sale.Next()-1, then)
}

// reportHolds reports the open holds that a destroy waits for, at most once a minute.
func (t *teardown) reportHolds(now time.Time) {
	first, last, n := planner.HoldTimes(t.x.states())
	in := func(us int64) time.Duration { return time.UnixMicro(us).Sub(now).Round(time.Second) }
	note := fmt.Sprintf("for a hold that ends in %v", in(last))
	if n > 1 {
		note = fmt.Sprintf("for %d holds, of which the first ends in %v and the last in %v", n, in(first), in(last))
	}
	if now := t.x.core.Now.Mono; n > 0 && now >= t.reportAt {
		t.reportAt = now + time.Minute
		t.x.doing(planner.SaleAddress(t.x.plan.Sale), "wait", note)
	}
}

// forgetLists removes the sale's lists from the nodes. After several attempts it skips a node
// that cannot be reached: its keys belong to a run that has ended.
func (t *teardown) forgetLists(then func()) {
	t.x.begin(forgettingLists)
	if !t.x.onLists() {
		then()
		return
	}
	t.x.core.All(len(t.x.Lists), func(node int, done func()) {
		t.forgetFrom(node, 0, 1, func(all bool) {
			for i := range t.x.allShards() {
				if all && spec.ListNode(i, len(t.x.Lists)) == node {
					t.x.finished(planner.ListAddress(i), "")
				}
			}
			done()
		})
	}, then)
}

// forgetFrom removes the lists from a shard on, one after the other. Each node is asked for
// all lists: an earlier declaration may have named the nodes in another order.
func (t *teardown) forgetFrom(node, shard, try int, then func(all bool)) {
	if shard == t.x.sale.Shards() {
		then(true)
		return
	}
	list := t.x.list(shard)
	forget := func(ctx context.Context, node lists.Node) error { return node.Forget(ctx, list) }
	machine.OnList(t.x.core, node, "forget list", machine.NoValue(forget), func(_ any, err error) {
		switch {
		case err == nil:
			t.forgetFrom(node, shard+1, 1, then)
		case try == sweepTries, errors.Is(err, fs.ErrPermission):
			t.x.warn("node %s may still have lists of the sale: %s. They are never asked for again;"+
				" destroy, run again when the node is up, removes them", t.x.Lists[node], planner.ShortNodeError(t.x.Lists[node], err))
			then(false)
		default:
			t.x.core.After(machine.FirstPause<<try, func() { t.forgetFrom(node, shard, try+1, then) })
		}
	})
}
