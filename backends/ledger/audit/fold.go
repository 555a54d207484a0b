package audit

import (
	"crypto/sha256"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Fold books the entry of the next slot, and applies it to the reducer unless that refused one before.
func (b *Book) Fold(entry []byte) error { return b.FoldRedacted(entry, sha256.Sum256(entry)) }

// FoldRedacted is like Fold, for an entry that may be redacted. hash is that of the stored bytes.
func (b *Book) FoldRedacted(entry []byte, hash ledger.Hash) error {
	slot := b.Next()
	commit, err := b.TakeRedacted(entry, hash)
	if err != nil {
		return err
	}
	b.slot = slot
	b.slots = append(b.slots, uint32(b.claims.Len()))
	for i, op := range commit.GetOps() {
		b.apply(commit, place{slot, uint32(i)}, op)
	}
	if b.refused == nil {
		b.refused = b.reducer.Apply(commit, hash, len(entry))
	}
	return nil
}

func (b *Book) apply(c *pb.Commit, at place, op *pb.Op) {
	switch op := op.GetOp().(type) {
	case *pb.Op_Claim:
		b.claim(c, at, op.Claim)
	case *pb.Op_Settle:
		b.settle(c, op.Settle)
	case *pb.Op_Entries:
		b.closeEntries(op.Entries)
	case *pb.Op_Rebuild:
		b.fill = op.Rebuild.GetFill()
	case *pb.Op_Generation:
		b.generation(op.Generation)
	case *pb.Op_Out:
		x := b.peers.with(int(op.Out.GetTo()))
		x.sent = append(x.sent, b.move(op.Out.GetUnits(), func(r ledger.Range) { b.take(&b.free, r) }))
	case *pb.Op_In:
		x := b.peers.with(int(op.In.GetFrom()))
		if op.In.GetK() <= uint64(len(x.received)) {
			return // repeated: counts once
		}
		x.received = append(x.received, b.move(op.In.GetUnits(), func(r ledger.Range) { b.put(&b.free, r) }))
	case *pb.Op_Ack:
		x := b.peers.with(int(op.Ack.GetTo()))
		x.acked = max(x.acked, int(op.Ack.GetK()))
	}
}

func (b *Book) claim(c *pb.Commit, at place, op *pb.Claim) {
	user, id := nameOf(op.GetUser()), nameOf(op.GetUser(), string(op.GetKey()))
	n, known := b.users[user]
	if !known {
		n = b.accounts.Add(account{first: id[0]})
		b.users[user] = n
		if home := spec.HomeShard(op.GetUser(), b.shards); home != b.shard {
			b.fault("user %q has claims on shard %d, the home shard is %d", op.GetUser(), b.shard, home)
		}
	} else if b.accounts.At(n).first == id[0] {
		return // repeated: counts once
	} else {
		if _, again := b.requests[id]; again {
			return
		}
		b.requests[id] = struct{}{}
	}
	if op.GetFill() != b.fill {
		b.fault("a claim of fill %d at fill %d", op.GetFill(), b.fill)
	}
	if b.settings.GetDraw() != op.GetEntry() {
		b.fault("a claim that is an entry (%v) in a sale that is a draw (%v)", op.GetEntry(), b.settings.GetDraw())
	}
	claim := b.enroll(at, n, op)
	if op.GetEntry() {
		b.addEntry(known, op)
		return
	}
	has := b.accounts.At(n)
	has.units += int64(len(op.GetUnits()))
	if has.units > b.settings.GetPerUserLimit() {
		b.over[op.GetUser()] = has.units
	}
	if most := b.settings.GetPayment().GetUnpaidPerUser(); most > 0 && b.unpaid[n] >= most {
		b.fault("a claim of a user who has %d claims that were cancelled or have expired, of %d at most", b.unpaid[n], most)
	}
	b.part(op, has.units)
	if len(op.GetUnits()) == 0 {
		b.fault("a claim of nothing")
	}
	var history claimHistory
	if b.assign("a claim", c, claim, &history, op); history.until != 0 {
		b.claimHistories[claim] = history
	}
}

// part checks a claim of fewer units than requested: none that the user might have had is
// left. units is the number that the user has with it.
func (b *Book) part(op *pb.Claim, units int64) {
	if op.GetRequested() == 0 {
		return
	}
	left := min(b.settings.GetPerUserLimit()-units, b.free.Count()-int64(len(op.GetUnits())))
	if !b.settings.GetPartial() || int64(op.GetRequested()) <= int64(len(op.GetUnits())) || op.GetFill() != 0 || left > 0 {
		b.fault("a claim of %d units of %d requested, in a sale whose partial is %v, where %d more could be given",
			len(op.GetUnits()), op.GetRequested(), b.settings.GetPartial(), left)
	}
}

func (b *Book) generation(op *pb.Generation) {
	if op.GetNumber() <= uint64(len(b.generations)) {
		return
	}
	b.generations = append(b.generations, op)
	b.settings = op.GetSettings()
	for _, r := range op.GetAdd() {
		b.dealt += r.GetCount()
		b.put(&b.free, ledger.Range{First: r.GetFirst(), Count: r.GetCount()})
	}
	eachUnit(op.GetRestore(), func(unit ledger.Range) {
		if b.dropped.Remove(unit) == nil {
			b.take(&b.removed, unit)
			b.put(&b.free, unit)
		}
	})
	eachUnit(op.GetDrop(), func(unit ledger.Range) {
		if b.free.Remove(unit) == nil {
			b.put(&b.removed, unit)
			b.put(&b.dropped, unit)
		}
	})
	// A removal takes the highest units, as in the reducer.
	for left := op.GetRemove(); left > 0 && len(b.free) > 0; {
		last := b.free[len(b.free)-1]
		n := min(left, last.Count)
		gone := ledger.Range{First: last.End() - n, Count: n}
		b.take(&b.free, gone)
		b.put(&b.removed, gone)
		left -= n
	}
}

// eachUnit calls each for the units of ranges, one by one.
func eachUnit(ranges []*pb.Range, each func(unit ledger.Range)) {
	for _, r := range ranges {
		for unit := r.GetFirst(); unit < r.GetFirst()+r.GetCount(); unit++ {
			each(ledger.Range{First: unit, Count: 1})
		}
	}
}
