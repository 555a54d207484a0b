package ledger

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// book is an account of one shard for an audit, kept from its commits alone and
// by other means than the reducer: sets of units, entered and taken out. It
// folds the commits too, so that the two can be compared.
type book struct {
	shard  int
	state  *State
	damage error    // the log could not be folded to its end
	faults []string // units entered twice or taken from where they were not

	generations []*pb.Generation
	limit       int64            // per user, in force
	dealt       int64            // units added
	users       map[string]int64 // units, held and sold
	over        map[string]int64 // units of users when they were beyond the limit
	requests    map[request]bool
	held        map[place]*pb.Claim
	free        Units
	sold        Units
	removed     Units
	peers       map[int]*exchange
}

type place struct {
	slot  uint64
	index uint32
}

// exchange is what was sent to and received from one other shard.
type exchange struct {
	out, acked, in uint64
	units          Units // of transfer out
}

func newBook(log string, shard int) *book {
	return &book{
		shard: shard, state: NewState(log),
		users: make(map[string]int64), over: make(map[string]int64), requests: make(map[request]bool),
		held: make(map[place]*pb.Claim), peers: make(map[int]*exchange),
	}
}

// read books what the log has beyond what was read.
func (b *book) read(ctx context.Context, logs Logs) error {
	if b.damage != nil {
		return nil
	}
	_, err := Load(ctx, logs, b.state.log, b)
	if errors.Is(err, ErrCorrupt) {
		b.damage, err = err, nil
	}
	return err
}

// Next returns the slot after the last one booked.
func (b *book) Next() uint64 { return b.state.Next() }

// Root returns the hash of the last slot booked.
func (b *book) Root() Hash { return b.state.Root() }

// Fold books a slot and folds it.
func (b *book) Fold(entry []byte) error {
	commit := new(pb.Commit)
	if err := proto.Unmarshal(entry, commit); err != nil {
		return b.state.corrupt("does not decode: %v", err)
	}
	for i, op := range commit.GetOps() {
		b.enter(place{b.state.Next(), uint32(i)}, op)
	}
	return b.state.Fold(entry)
}

func (b *book) enter(at place, op *pb.Op) {
	switch op := op.GetOp().(type) {
	case *pb.Op_Claim:
		b.claim(at, op.Claim)
	case *pb.Op_Settle:
		b.settle(op.Settle)
	case *pb.Op_Generation:
		b.generation(op.Generation)
	case *pb.Op_Out:
		x := b.peer(int(op.Out.GetTo()))
		x.out, x.units = op.Out.GetK(), nil
		for _, r := range op.Out.GetUnits() {
			b.take(&b.free, Range{r.GetFirst(), r.GetCount()})
			b.put(&x.units, Range{r.GetFirst(), r.GetCount()})
		}
	case *pb.Op_In:
		x := b.peer(int(op.In.GetFrom()))
		if op.In.GetK() <= x.in {
			return
		}
		x.in = op.In.GetK()
		for _, r := range op.In.GetUnits() {
			b.put(&b.free, Range{r.GetFirst(), r.GetCount()})
		}
	case *pb.Op_Ack:
		x := b.peer(int(op.Ack.GetTo()))
		x.acked = max(x.acked, op.Ack.GetK())
	}
}

func (b *book) claim(at place, op *pb.Claim) {
	id := request{op.GetUser(), string(op.GetKey())}
	if b.requests[id] {
		return // said twice, counts once
	}
	b.requests[id] = true
	b.users[op.GetUser()] += int64(len(op.GetUnits()))
	if units := b.users[op.GetUser()]; units > b.limit {
		b.over[op.GetUser()] = units
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
		b.users[claim.GetUser()] -= int64(len(claim.GetUnits()))
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
	if err := to.Add(r); err != nil {
		b.faults = append(b.faults, err.Error())
	}
}

func (b *book) take(from *Units, r Range) {
	if err := from.Remove(r); err != nil {
		b.faults = append(b.faults, fmt.Sprintf("taken: %v", err))
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
		if x.acked < x.out {
			n += x.units.Count()
		}
	}
	return n
}
