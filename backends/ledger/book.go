package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// book is an account of one shard for an audit, kept from its commits alone and
// by other means than the reducer: sets of units, entered and taken out. It
// folds the commits too, so that the two can be compared; it goes on where the
// reducer refuses, so that what came of it is seen.
type book struct {
	chain
	shard   int
	shards  int // of the sale
	state   *State
	damage  error    // the log could not be read to its end
	refused error    // what the reducer did not take
	faults  []string // what does not add up

	generations []*pb.Generation
	limit       int64 // per user, in force
	dealt       int64 // units added
	users       map[name]account
	over        map[string]int64  // units of users when they were beyond the limit
	requests    map[name]struct{} // but for each user's first
	away        map[string]int    // users who have claims here, to the shard that is their home
	fill        uint64            // of the shard's list, 0: it has none
	held        map[place]*pb.Claim
	free        Units
	sold        Units
	removed     Units
	twice       []Range // came to where some of them were already
	peers       map[int]*exchange
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

type place struct {
	slot  uint64
	index uint32
}

// exchange is what was sent to and received from one other shard: the units of
// each transfer, in order.
type exchange struct {
	sent, received []Units
	acked          int // of sent
}

func newBook(log string, shard, shards int) *book {
	return &book{
		chain: newChain(log), shard: shard, shards: shards, state: NewState(log),
		users: make(map[name]account), over: make(map[string]int64), requests: make(map[name]struct{}), away: make(map[string]int),
		held: make(map[place]*pb.Claim), peers: make(map[int]*exchange),
	}
}

// read books the log to its end.
func (b *book) read(ctx context.Context, logs Logs) error {
	w, err := Load(ctx, logs, b.log, b)
	switch {
	case errors.Is(err, ErrCorrupt):
		b.damage = err
		return nil
	case err != nil || b.next == 0:
		return err
	}
	head, _ := ParseHead(w.head) // the Writer has read it, and checked that it is that of the last slot
	if b.refused == nil && !head.tells(b.state.Head()) {
		b.faults = append(b.faults, fmt.Sprintf("the head says %+v, its slots add up to %+v", head.Totals, b.state.Totals))
	}
	return nil
}

// readOn books further slots, no more than until enough says so.
func (b *book) readOn(ctx context.Context, logs Logs, enough func() bool) error {
	if b.damage != nil {
		return nil
	}
	err := loadUntil(ctx, logs, b.log, b, enough)
	if errors.Is(err, ErrCorrupt) {
		b.damage, err = err, nil
	}
	return err
}

// Next returns the slot after the last one booked.
func (b *book) Next() uint64 { return b.next }

// Root returns the hash of the last slot booked.
func (b *book) Root() Hash { return b.hash }

// Fold books a slot, and folds it as long as the reducer agrees.
func (b *book) Fold(entry []byte) error {
	commit, err := b.decode(entry)
	if err != nil {
		return err
	}
	for i, op := range commit.GetOps() {
		b.enter(place{b.next, uint32(i)}, op)
	}
	hash := sum(entry)
	if b.refused == nil {
		b.refused = b.state.Apply(commit, hash, len(entry))
	}
	b.advance(commit, hash)
	return nil
}

func (b *book) enter(at place, op *pb.Op) {
	switch op := op.GetOp().(type) {
	case *pb.Op_Claim:
		b.claim(at, op.Claim)
	case *pb.Op_Settle:
		b.settle(op.Settle)
	case *pb.Op_Rebuild:
		b.fill = op.Rebuild.GetFill()
	case *pb.Op_Generation:
		b.generation(op.Generation)
	case *pb.Op_Out:
		x := b.peer(int(op.Out.GetTo()))
		x.sent = append(x.sent, b.move(op.Out.GetUnits(), func(r Range) { b.take(&b.free, r) }))
	case *pb.Op_In:
		x := b.peer(int(op.In.GetFrom()))
		if op.In.GetK() <= uint64(len(x.received)) {
			return // said twice, counts once
		}
		x.received = append(x.received, b.move(op.In.GetUnits(), func(r Range) { b.put(&b.free, r) }))
	case *pb.Op_Ack:
		x := b.peer(int(op.Ack.GetTo()))
		x.acked = max(x.acked, int(op.Ack.GetK()))
	}
}

// move does to each range what a transfer does on this side, and returns the
// units of the transfer.
func (b *book) move(ranges []*pb.Range, do func(Range)) (units Units) {
	for _, r := range ranges {
		do(Range{r.GetFirst(), r.GetCount()})
		b.put(&units, Range{r.GetFirst(), r.GetCount()})
	}
	return units
}

func (b *book) claim(at place, op *pb.Claim) {
	user := nameOf(op.GetUser())
	has, known := b.users[user]
	switch id := nameOf(op.GetUser(), string(op.GetKey())); {
	case !known:
		has.first = id[0]
	case has.first == id[0]:
		return // said twice, counts once
	default:
		if _, again := b.requests[id]; again {
			return
		}
		b.requests[id] = struct{}{}
	}
	if home := spec.HomeShard(op.GetUser(), b.shards); home != b.shard {
		b.away[op.GetUser()] = home
	}
	if op.GetFill() != b.fill {
		b.faults = append(b.faults, fmt.Sprintf("slot %d: a claim of fill %d at fill %d", b.next, op.GetFill(), b.fill))
	}
	has.units += int64(len(op.GetUnits()))
	b.users[user] = has
	if has.units > b.limit {
		b.over[op.GetUser()] = has.units
	}
	for _, unit := range op.GetUnits() {
		b.take(&b.free, Range{unit, 1})
		if op.GetHeldUntilUs() == 0 {
			b.put(&b.sold, Range{unit, 1})
		}
	}
	if op.GetHeldUntilUs() != 0 {
		b.held[at] = op
	}
}

func (b *book) settle(op *pb.Settle) {
	at := place{op.GetSlot(), op.GetIndex()}
	claim := b.held[at]
	if claim == nil {
		return // settled before, or never held
	}
	delete(b.held, at)
	to := &b.sold
	if op.GetHow() != pb.Settle_CONFIRM {
		to = &b.free
		user := nameOf(claim.GetUser())
		has := b.users[user]
		has.units -= int64(len(claim.GetUnits()))
		b.users[user] = has
	}
	for _, unit := range claim.GetUnits() {
		b.put(to, Range{unit, 1})
	}
}

func (b *book) generation(op *pb.Generation) {
	if op.GetNumber() <= uint64(len(b.generations)) {
		return
	}
	b.generations = append(b.generations, op)
	b.limit = op.GetSettings().GetPerUserLimit()
	for _, r := range op.GetAdd() {
		b.dealt += r.GetCount()
		b.put(&b.free, Range{r.GetFirst(), r.GetCount()})
	}
	// What a removal takes is for the reducer to choose: the highest units.
	for left := op.GetRemove(); left > 0 && len(b.free) > 0; {
		last := b.free[len(b.free)-1]
		n := min(left, last.Count)
		gone := Range{last.end() - n, n}
		b.take(&b.free, gone)
		b.put(&b.removed, gone)
		left -= n
	}
}

func (b *book) put(to *Units, r Range) {
	switch err := to.Add(r); {
	case err == nil:
	case !r.valid():
		b.faults = append(b.faults, fmt.Sprintf("slot %d: %v", b.next, err))
	default:
		b.twice = append(b.twice, r)
	}
}

func (b *book) take(from *Units, r Range) {
	if err := from.Remove(r); err != nil {
		b.faults = append(b.faults, fmt.Sprintf("slot %d: %v", b.next, err))
	}
}

func (b *book) peer(shard int) *exchange {
	x := b.peers[shard]
	if x == nil {
		x = new(exchange)
		b.peers[shard] = x
	}
	return x
}

func (b *book) heldUnits() (n int64) {
	for _, c := range b.held {
		n += int64(len(c.GetUnits()))
	}
	return n
}

// inFlight counts as the reducer does: sent and not acknowledged, whether or
// not the other side has received it.
func (b *book) inFlight() (n int64) {
	for _, x := range b.peers {
		for _, units := range x.sent[min(x.acked, len(x.sent)):] {
			n += units.Count()
		}
	}
	return n
}
