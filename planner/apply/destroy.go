package apply

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/backends/lists"
	"salectl/internal/files"
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
	digest    []byte        // of the export; nil for a rehearsal
	drawSteps int           // draw steps in the sale's log at the time of the export
}

func (t *teardown) run() {
	t.x.overtaken = t.erase // another destroy has exported and is deleting
	t.x.readNodes()
	t.x.enter() // appends a Planned that closes the sale
	t.close()
	t.drain()
	t.seal()
	t.export()
	t.noteSealed()
	t.erase()
}

// close brings every shard to the closed generation. After that no shard accepts a claim or
// sends units.
func (t *teardown) close() {
	t.x.result.Generation = t.x.sale.Generation()
	t.x.rollOut()
	if t.x.sale.Applied() == 0 {
		return // It never was on every shard, so no process served it, and none may begin to.
	}
	t.x.unmarked = t.x.sale.Unmarked()
	t.x.noteApplied()
	t.alive = t.x.findOwner()
}

// drain reads every shard to its end, and returns when no transfer and no hold is open. An
// owner completes them itself and gets a ttl for that.
func (t *teardown) drain() {
	for {
		t.x.begin("ending transfers and holds")
		t.x.core.Each(t.x.sale.Shards(), t.readClosed)
		open, until := t.unsettled()
		switch {
		case !open:
			return
		case t.alive && t.x.core.Now.Mono < t.x.seenAt+t.x.ttl():
			t.x.core.Sleep(pollOwner)
		default:
			t.endTransfers(until)
		}
	}
}

// readClosed repeats the read of a shard's log until it shows the close. Every transfer out of
// a shard precedes the close, so a lagging read does not prove that there is none. Sealing on
// such a read would lose units in transit.
func (t *teardown) readClosed(i int) {
	began := t.x.core.Now.Mono
	for {
		e := t.x.readShard(i)
		switch s := t.x.shards[i].state; {
		case e == ledger.Gone || s.Next() == 0:
			t.x.lost(i)
		case s.Phase == ledger.PhaseClosed || s.Sealed():
			return
		case t.x.core.Now.Mono-began > machine.MaxLag:
			t.x.core.Fail(&planner.StoreError{Err: fmt.Errorf("log %s could not be read to its close for %v, it answers with old data", t.x.shardLog(i).Writer.Log(), machine.MaxLag)})
		default:
			t.x.core.Sleep(lagPause)
		}
	}
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

// endTransfers appends to each shard the receipts of units sent to it, the ends of its
// transfers, and the ends of holds: those that are due, or all of them. If nothing can be
// appended, it waits until the next hold ends.
func (t *teardown) endTransfers(until int64) {
	appended := false
	t.x.core.Each(t.x.sale.Shards(), func(i int) {
		draft := t.x.shards[i].state.Draft(t.x.Writer, t.x.core.Now.Wall.UnixMicro())
		t.x.core.Check(t.receive(i, draft))
		for _, out := range t.x.shards[i].state.Open() {
			if out.To >= len(t.x.shards) {
				t.x.core.Fail(fmt.Errorf("%w: shard %d has sent units to shard %d, and there are %d", ledger.ErrCorrupt, i, out.To, len(t.x.shards)))
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
			return
		}
		appended = true
		if t.x.appendDraft(i, draft) == ledger.Gone {
			t.x.lost(i)
			t.readClosed(i)
		}
	})
	if !appended {
		wait := time.Duration(until-t.x.core.Now.Wall.UnixMicro()) * time.Microsecond
		t.reportHolds(t.x.core.Now.Wall)
		t.x.core.Sleep(min(max(wait, pollOwner), machine.LastPause))
	}
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
func (t *teardown) seal() {
	for {
		t.x.begin("sealing the shards")
		t.x.core.Each(t.x.sale.Shards(), t.sealShard)
		if !slices.ContainsFunc(t.x.shards, func(s shard) bool { return !s.state.Sealed() }) {
			return
		}
		t.drain()
	}
}

func (t *teardown) sealShard(i int) {
	s := t.x.shards[i].state
	if !s.Sealed() {
		draft := s.Draft(t.x.Writer, t.x.core.Now.Wall.UnixMicro())
		draft.Seal()
		if t.x.appendDraft(i, draft) == ledger.Gone {
			t.x.lost(i)
			return
		}
	}
	if s.Sealed() {
		t.x.doing(planner.ShardAddress(i), "seal", "")
	}
}

// exportTries is the number of attempts at an export. Each reads the logs again.
const exportTries = 4

// export writes the ledger to a file, except that of a rehearsal.
func (t *teardown) export() {
	if t.x.rehearsal {
		return
	}
	type exported struct {
		path   string
		digest []byte
	}
	for try := 1; ; try++ {
		t.x.begin("exporting")
		sale := export.Sale{Name: t.x.plan.Sale, Log: t.x.sale, Shards: t.x.states()}
		t.drawSteps = t.x.sale.DrawSteps()
		e, err := machine.OnStore(t.x.core, "export", 0, func(ctx context.Context, logs ledger.Logs) (e exported, err error) {
			sale.Logs, sale.Payloads = logs, payload.NewReaderOfSale(logs, sale.Log, t.x.Key)
			e.path, e.digest, err = t.x.exporter(ctx, sale)
			return e, err
		})
		gone := errors.Is(err, ledger.ErrGone)
		if gone {
			t.checkSealed()
		}
		switch {
		case err == nil:
			t.x.core.Changed = true
			t.x.result.Export, t.x.result.Manifest = e.path, files.ManifestPath(e.path)
			t.x.doing(planner.SaleAddress(t.x.plan.Sale), "export", e.path)
			t.digest = e.digest
			if t.x.Linger > 0 {
				t.x.core.Sleep(t.x.Linger)
			}
			return
		case try == exportTries, !gone && (errors.Is(err, planner.ErrRefused) || errors.Is(err, ledger.ErrCorrupt)):
			t.x.core.Fail(err)
		}
		t.x.core.Sleep(machine.FirstPause << try)
	}
}

// checkSealed reads the sale's log after an export that found a log gone. Another destroy may
// have exported earlier and be deleting; then the sale's log has Sealed, and only the deletion
// is left. Otherwise the read may have lagged.
func (t *teardown) checkSealed() {
	t.x.readSale()
	switch {
	case t.x.sale.UID() != t.x.plan.UID:
		t.x.stale("was destroyed meanwhile, and a new run was started")
	case !t.x.sale.Live():
		t.x.core.Become(t.erase)
	}
}

// noteSealed appends Sealed to the sale's log. After that the run's logs may be deleted.
func (t *teardown) noteSealed() {
	states := t.x.states()
	left, err := planner.Untaken(t.x.sale, states)
	t.x.core.Check(err)
	sealed := &pb.Sealed{ExportDigest: t.digest, Refund: left}
	for _, s := range states {
		root := s.Root()
		sealed.Roots = append(sealed.Roots, root[:])
		sealed.Slots = append(sealed.Slots, s.Next())
		sealed.Claims += int64(s.Claims())
		sealed.UnitsSold += s.Sold
	}
	t.x.begin("appending Sealed")
	// Another process may have appended Sealed for the same bytes: an export does not depend on
	// its author.
	t.x.note(&pb.Op{Op: &pb.Op_Sealed{Sealed: sealed}}, func() bool {
		has := t.x.sale.Sealed()
		switch digest := has.GetExportDigest(); {
		case t.x.sale.UID() != t.x.plan.UID:
			t.x.stale("was destroyed meanwhile, and a new run was started")
		case !t.x.rehearsal && t.x.sale.DrawSteps() != t.drawSteps:
			t.x.stale("has published more of its draw since it was exported")
		case len(digest) > 0 && string(digest) != string(t.digest):
			t.x.core.Fail(fmt.Errorf("%w: the sale was sealed with another export than this one", ledger.ErrCorrupt))
		}
		return has != nil
	})
}

// erase removes everything of the run except the sale's own log. It runs only when that log
// has Sealed.
func (t *teardown) erase() {
	t.x.result.ExportDigest = hex.EncodeToString(t.x.sale.Sealed().GetExportDigest())
	t.x.result.Generation = t.x.sale.Generation()
	t.x.result.Refund = planner.RefundOf(t.x.sale)
	t.x.sweep()
	t.forgetLists()
	t.eraseShards()
	t.eraseUnits()
	t.eraseLate()
	t.noteDestroyed()
	t.eraseSale()
	t.x.finished(planner.SaleAddress(t.x.plan.Sale), "")
}

// eraseShards deletes the logs up to the slots at which they were sealed, even those without a
// head: that read may lag.
func (t *teardown) eraseShards() {
	t.x.begin("deleting the shards' logs")
	logs := t.x.sale.ShardLogs()
	heads := t.x.core.ReadHeads(logs)
	t.x.core.Changed = t.x.core.Changed || slices.ContainsFunc(heads, func(head []byte) bool { return head != nil })
	slots := t.x.sale.Sealed().GetSlots()
	t.x.core.Each(len(logs), func(i int) { t.x.core.DeleteLog(logs[i], max(slots[i], 1)-1) })
}

// eraseUnits deletes the log of payloads, and what is appended to it late. The sale had such a
// log, and nothing else records its length. Each read may lag, even the one before the
// deletion. So the log counts as deleted after lagTries reads that do not show it, or twice as
// many if this execution has not deleted it.
func (t *teardown) eraseUnits() {
	log := spec.UnitsLog(t.x.plan.UID)
	for missed := 0; hasPayloads(t.x.sale); {
		stored := t.x.core.ReadHeads([]string{log})[0]
		switch {
		case stored == nil && missed < 2*lagTries:
			t.x.core.Sleep(lagPause)
			missed++
			continue
		case stored == nil:
			return
		}
		head, err := ledger.ParseHead(stored)
		if err != nil {
			t.x.core.Fail(fmt.Errorf("%w: log %s: %w", ledger.ErrCorrupt, log, err))
		}
		t.x.core.Changed = true
		t.x.core.DeleteLog(log, head.Slot)
		missed = lagTries
	}
}

// hasPayloads reports whether the units of a run have payloads.
func hasPayloads(sale *ledger.Sale) bool { return len(sale.Newest().GetUnits()) > 0 }

// eraseLate removes late writes: the first slot of a shard, whose create was sent before the
// run was sealed and arrived after the deletion.
func (t *teardown) eraseLate() {
	for {
		heads := t.x.readHeads(t.x.allShards())
		var left []int
		for i, head := range heads {
			if head != nil {
				left = append(left, i)
			} else {
				t.x.finished(planner.ShardAddress(i), "")
			}
		}
		if len(left) == 0 {
			return
		}
		t.x.core.Changed = true
		t.x.core.Each(len(left), func(j int) {
			t.x.core.DeleteLog(t.x.sale.ShardLogs()[left[j]], heads[left[j]].Slot)
		})
		t.x.core.Sleep(pollOwner)
	}
}

func (t *teardown) noteDestroyed() {
	t.x.begin("appending Destroyed")
	t.x.note(&pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}}, func() bool {
		if t.x.sale.UID() != t.x.plan.UID {
			t.x.stale("had a new run started meanwhile")
		}
		return t.x.sale.Destroyed()
	})
}

// eraseSale deletes the own log of a rehearsal.
func (t *teardown) eraseSale() {
	if t.x.rehearsal {
		t.x.begin("deleting the sale's log")
		t.x.core.Changed = true
		t.x.core.DeleteLog(spec.SaleLog(t.x.plan.Sale), t.x.sale.Next()-1)
	}
}

// reportHolds reports the open holds that a destroy waits for, at most once a minute.
func (t *teardown) reportHolds(now time.Time) {
	first, last, n := planner.HoldTimes(t.x.states())
	in := func(us int64) time.Duration { return time.UnixMicro(us).Sub(now).Round(time.Second) }
	note := fmt.Sprintf("for 1 open hold, which ends in %v", in(last))
	if n > 1 {
		note = fmt.Sprintf("for %d open holds; the first ends in %v, the last in %v", n, in(first), in(last))
	}
	if now := t.x.core.Now.Mono; n > 0 && now >= t.reportAt {
		t.reportAt = now + time.Minute
		t.x.doing(planner.SaleAddress(t.x.plan.Sale), "wait", note)
	}
}

// forgetLists removes the sale's lists from the nodes. After several attempts it skips a node
// that cannot be reached: its keys belong to a run that has ended.
func (t *teardown) forgetLists() {
	t.x.begin("deleting the lists")
	if !t.x.onLists() {
		return
	}
	t.x.core.Each(len(t.x.Lists), func(node int) {
		all := t.forgetFrom(node)
		for i := range t.x.sale.Shards() {
			if all && spec.ListNode(i, len(t.x.Lists)) == node {
				t.x.finished(planner.ListAddress(i), "")
			}
		}
	})
}

// forgetFrom removes the lists from a node, one after the other. It tries all lists
// on each node: an earlier declaration may have named the nodes in another order.
func (t *teardown) forgetFrom(node int) (all bool) {
	for shard, try := 0, 1; shard < t.x.sale.Shards(); {
		forget := func(ctx context.Context, node lists.Node) error { return node.Forget(ctx, t.x.list(shard)) }
		_, err := machine.OnList(t.x.core, node, "forget list", machine.NoValue(forget))
		switch {
		case err == nil:
			shard, try = shard+1, 1
		case try == sweepTries, errors.Is(err, fs.ErrPermission):
			t.x.warn("node %s may still have lists of the sale: %s. They are no longer used;"+
				" run destroy again when the node is up to remove them", t.x.Lists[node], planner.ShortNodeError(err))
			return false
		default:
			t.x.core.Sleep(machine.FirstPause << try)
			try++
		}
	}
	return true
}
