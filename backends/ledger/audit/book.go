package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"

	"salectl/backends/ledger"
	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// Reducer is the account that the program itself keeps of a shard, and decides by: *ledger.State.
// An audit applies the same commits to it, and compares it with a Book. It judges nothing by a
// Reducer but what is held against the commits otherwise: the order of a draw is worked out from
// the claims by draw.Verifier.
type Reducer interface {
	Apply(c *pb.Commit, hash ledger.Hash, size int) error
	Head() ledger.Head
	Claims() int
	Claim(i int) ledger.Claim
	DrawShard() ledger.DrawShard
}

// Book is an account of one shard for an audit, kept from its commits alone and
// by other means than the reducer: sets of units, entered and taken out. It
// applies the commits to the reducer too, so that the two can be compared; it goes on where the
// reducer refuses, so that what came of it is seen.
type Book struct {
	tail    *ledger.Tail
	slot    uint64 // the one that is entered
	shard   int
	shards  int // of the sale
	reducer Reducer
	damage  error    // the log could not be read to its end
	refused error    // what the reducer did not take
	faults  []string // what does not add up

	generations    []*pb.Generation
	settings       *pb.Settings // in force
	dealt          int64        // units added
	users          map[name]uint32
	accounts       chunked.List[account]
	over           map[string]int64  // units of users when they were beyond the limit
	unpaid         map[uint32]int64  // claims that were cancelled or have expired, by account
	requests       map[name]struct{} // but for each user's first
	away           map[string]int    // users who have claims here, to the shard that is their home
	fill           uint64            // of the shard's list, 0: it has none
	slots          []uint32          // of each: how many claims are before it
	claims         chunked.List[bookClaim]
	first          chunked.List[int64]      // unit of each claim; the others follow it, or see scattered
	scattered      map[uint32][]int64       // the units of claims that do not follow one another
	claimHistories map[uint32]claimHistory  // of claims that were held or refunded
	owed           map[bookPayment]struct{} // of claimHistories
	outcomes       ledger.Outcomes
	labels         []draw.Digest // of the entries of a draw
	entries        *draw.Tree    // what the log says of them at the close
	ended          []endedHold   // of each hold that has ended
	free           ledger.Units
	held           ledger.Units
	sold           ledger.Units
	removed        ledger.Units
	dropped        ledger.Units   // of these, those that generations have named
	twice          []ledger.Range // came to where some of them were already
	peers          map[int]*exchange
}

// name stands for a user, or for a user and a key: there are millions, and their texts
// would take more memory than the reducer does. Two of them have the same name by
// chance once in 10²⁵ sales of this size, and nobody can make it so: the seeds are
// the process's own.
type name [2]uint64

var nameSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func nameOf(texts ...string) (n name) {
	for i, seed := range nameSeeds {
		var h maphash.Hash
		h.SetSeed(seed)
		for _, text := range texts {
			maphash.WriteComparable(&h, text)
		}
		n[i] = h.Sum64()
	}
	return n
}

// account is what a user has.
type account struct {
	units int64  // held and sold
	first uint64 // the user's first request: most have no other
}

// place is where an op stands in the log.
type place struct {
	slot  uint64
	index uint32
}

// exchange is what was sent to and received from one other shard: the units of
// each transfer, in order.
type exchange struct {
	sent, received []ledger.Units
	acked          int // of sent
}

func newBook(log string, shard, shards int, reducer Reducer) *Book {
	return &Book{
		tail: ledger.NewTail(log), shard: shard, shards: shards, reducer: reducer,
		users: make(map[name]uint32), over: make(map[string]int64), unpaid: make(map[uint32]int64), requests: make(map[name]struct{}), away: make(map[string]int),
		scattered: make(map[uint32][]int64), claimHistories: make(map[uint32]claimHistory), owed: make(map[bookPayment]struct{}), peers: make(map[int]*exchange),
	}
}

// read books the log to its end.
func (b *Book) read(ctx context.Context, logs ledger.Logs) error {
	w, err := ledger.Load(ctx, logs, b.Log(), b)
	switch {
	case errors.Is(err, ledger.ErrCorrupt):
		b.damage = err
		return nil
	case err != nil || b.Next() == 0:
		return err
	}
	head, _ := ledger.ParseHead(w.Head()) // the Writer has read it, and checked that it is that of the last slot
	if is := b.reducer.Head(); b.refused == nil && head != is {
		b.faults = append(b.faults, fmt.Sprintf("the head says %+v, its slots add up to %+v", head.Totals, is.Totals))
	}
	return nil
}

// readOn books further slots, no more than until enough says so.
func (b *Book) readOn(ctx context.Context, logs ledger.Logs, enough func() bool) error {
	if b.damage != nil {
		return nil
	}
	err := ledger.LoadUntil(ctx, logs, b.Log(), b, enough)
	if errors.Is(err, ledger.ErrCorrupt) {
		b.damage, err = err, nil
	}
	return err
}

// Log returns the log's name.
func (b *Book) Log() string { return b.tail.Log() }

// Next returns the slot after the last one booked.
func (b *Book) Next() uint64 { return b.tail.Next() }

// Root returns the hash of the last slot booked.
func (b *Book) Root() ledger.Hash { return b.tail.Root() }

// Damage ends the book: what follows cannot be judged, for a reason that the caller reports.
func (b *Book) Damage(err error) { b.damage = err }

// Damaged returns why the log could not be read to its end; nil: it could.
func (b *Book) Damaged() error { return b.damage }

// Compared reports whether the reducer has taken the whole log, so that what it has of the shard
// can be compared.
func (b *Book) Compared() bool { return b.damage == nil && b.refused == nil }

// Fold books a slot, and applies it to the reducer as long as that agrees.
func (b *Book) Fold(entry []byte) error { return b.FoldRedacted(entry, sha256.Sum256(entry)) }

// FoldRedacted is Fold of a slot whose stored bytes have the hash, whatever was redacted since.
func (b *Book) FoldRedacted(entry []byte, hash ledger.Hash) error {
	slot := b.Next()
	commit, err := b.tail.TakeRedacted(entry, hash)
	if err != nil {
		return err
	}
	b.slot = slot
	b.slots = append(b.slots, uint32(b.claims.Len()))
	for i, op := range commit.GetOps() {
		b.enter(commit, place{slot, uint32(i)}, op)
	}
	if b.refused == nil {
		b.refused = b.reducer.Apply(commit, hash, len(entry))
	}
	return nil
}

func (b *Book) enter(c *pb.Commit, at place, op *pb.Op) {
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
		x := b.peer(int(op.Out.GetTo()))
		x.sent = append(x.sent, b.move(op.Out.GetUnits(), func(r ledger.Range) { b.take(&b.free, r) }))
	case *pb.Op_In:
		x := b.peer(int(op.In.GetFrom()))
		if op.In.GetK() <= uint64(len(x.received)) {
			return // said twice, counts once
		}
		x.received = append(x.received, b.move(op.In.GetUnits(), func(r ledger.Range) { b.put(&b.free, r) }))
	case *pb.Op_Ack:
		x := b.peer(int(op.Ack.GetTo()))
		x.acked = max(x.acked, int(op.Ack.GetK()))
	}
}

// move does to each range what a transfer does on this side, and returns the
// units of the transfer.
func (b *Book) move(ranges []*pb.Range, do func(ledger.Range)) (units ledger.Units) {
	for _, r := range ranges {
		do(ledger.Range{First: r.GetFirst(), Count: r.GetCount()})
		b.put(&units, ledger.Range{First: r.GetFirst(), Count: r.GetCount()})
	}
	return units
}

func (b *Book) claim(c *pb.Commit, at place, op *pb.Claim) {
	user, id := nameOf(op.GetUser()), nameOf(op.GetUser(), string(op.GetKey()))
	n, known := b.users[user]
	if !known {
		n = b.accounts.Add(account{first: id[0]})
		b.users[user] = n
	} else if b.accounts.At(n).first == id[0] {
		return // said twice, counts once
	} else {
		if _, again := b.requests[id]; again {
			return
		}
		b.requests[id] = struct{}{}
	}
	if home := spec.HomeShard(op.GetUser(), b.shards); home != b.shard {
		b.away[op.GetUser()] = home
	}
	if op.GetFill() != b.fill {
		b.fault("a claim of fill %d at fill %d", op.GetFill(), b.fill)
	}
	if b.settings.GetDraw() != op.GetEntry() {
		b.fault("a claim that is an entry (%v) in a sale that is a draw (%v)", op.GetEntry(), b.settings.GetDraw())
	}
	if op.GetEntry() {
		b.entry(at, n, known, op)
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
	to := &b.sold
	if b.enroll(c, at, n, op) {
		to = &b.held
	}
	for _, unit := range op.GetUnits() {
		b.take(&b.free, ledger.Range{First: unit, Count: 1})
		b.put(to, ledger.Range{First: unit, Count: 1})
	}
}

// part accounts for a claim of fewer units than were asked for, by a user who has so many
// with it: none that the user might have had is left over.
func (b *Book) part(op *pb.Claim, units int64) {
	if op.GetAsked() == 0 {
		return
	}
	left := min(b.settings.GetPerUserLimit()-units, b.free.Count()-int64(len(op.GetUnits())))
	if !b.settings.GetPartial() || int64(op.GetAsked()) <= int64(len(op.GetUnits())) || op.GetFill() != 0 || left > 0 {
		b.fault("a claim of %d units of the %d asked for, in a sale whose partial is %v, where %d more could be given",
			len(op.GetUnits()), op.GetAsked(), b.settings.GetPartial(), left)
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
	// What a removal takes is for the reducer to choose: the highest units.
	for left := op.GetRemove(); left > 0 && len(b.free) > 0; {
		last := b.free[len(b.free)-1]
		n := min(left, last.Count)
		gone := ledger.Range{First: last.End() - n, Count: n}
		b.take(&b.free, gone)
		b.put(&b.removed, gone)
		left -= n
	}
}

// eachUnit tells of the units of ranges one by one.
func eachUnit(ranges []*pb.Range, each func(unit ledger.Range)) {
	for _, r := range ranges {
		for unit := r.GetFirst(); unit < r.GetFirst()+r.GetCount(); unit++ {
			each(ledger.Range{First: unit, Count: 1})
		}
	}
}

func (b *Book) put(to *ledger.Units, r ledger.Range) {
	switch err := to.Add(r); {
	case err == nil:
	case !r.Valid():
		b.fault("%v", err)
	default:
		b.twice = append(b.twice, r)
	}
}

func (b *Book) take(from *ledger.Units, r ledger.Range) {
	if err := from.Remove(r); err != nil {
		b.fault("%v", err)
	}
}

// fault notes what does not add up in the slot that is entered.
func (b *Book) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf("slot %d: ", b.slot)+fmt.Sprintf(format, args...))
}

func (b *Book) peer(shard int) *exchange {
	x := b.peers[shard]
	if x == nil {
		x = new(exchange)
		b.peers[shard] = x
	}
	return x
}

// inFlight counts as the reducer does: sent and not acknowledged, whether or
// not the other side has received it.
func (b *Book) inFlight() (n int64) {
	for _, x := range b.peers {
		for _, units := range x.sent[min(x.acked, len(x.sent)):] {
			n += units.Count()
		}
	}
	return n
}
