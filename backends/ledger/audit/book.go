package audit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"salectl/backends/ledger"
	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// Reducer is the account of a shard that the program itself keeps and decides by: *ledger.State.
// An audit applies the same commits to it, and compares it with a Book. It relies on a Reducer
// only for data that is checked otherwise: draw.Verifier recomputes the order of a draw from
// the claims.
type Reducer interface {
	Apply(c *pb.Commit, hash ledger.Hash, size int) error
	Head() ledger.Head
	Claims() int
	Claim(i int) ledger.Claim
	DrawShard() ledger.DrawShard
}

// Book is an account of one shard for an audit. It is derived from the commits alone, and by other
// means than the reducer: sets of units that ops add to and remove from. It applies the commits to
// the reducer too, so that the two can be compared. It continues where the reducer refuses a
// commit, so that the consequences are visible.
type Book struct {
	*ledger.Tail
	slot    uint64 // slot being booked
	shard   int
	shards  int // of the sale
	reducer Reducer
	damage  error    // reason why the log could not be read to its end
	refused error    // reason why the reducer refused a commit
	faults  []string // inconsistencies found by the book itself

	fill uint64 // of the shard's list; 0: it has none

	generations []*pb.Generation
	settings    *pb.Settings // in force
	peers       exchanges

	userAccounts
	claimRecords
	unitSets
	labels  []draw.Digest // of the entries of a draw
	entries *draw.Tree    // of the entries, as recorded in the log at the close
}

// userAccounts are the users of a Book, with what counts towards their limits.
type userAccounts struct {
	users    map[name]uint32
	accounts chunked.List[account]
	over     map[string]int64  // units of users when they exceeded the limit
	unpaid   map[uint32]int64  // claims that were cancelled or have expired, by account
	requests map[name]struct{} // all but the first request of each user
}

// claimRecords are the claims of a Book, in the order of the log.
type claimRecords struct {
	slots          []uint32 // number of claims before each slot
	claims         chunked.List[bookClaim]
	scattered      map[uint32][]int64       // units of claims whose numbers are not consecutive
	claimHistories map[uint32]claimHistory  // of claims that were held or refunded
	owed           map[bookPayment]struct{} // all that are owed back in claimHistories
	outcomes       ledger.Outcomes
	ended          []endedHold // holds that have ended
}

// unitSets are the places of a Book's units. A unit that was added twice to a set is in twice.
type unitSets struct {
	dealt   int64 // units added
	free    ledger.Units
	held    ledger.Units
	sold    ledger.Units
	removed ledger.Units
	dropped ledger.Units   // those of removed that generations have named
	twice   []ledger.Range // ranges added to a set that had some of their units
}

// name is the hash of a user, or of a user and a key: there are millions, whose texts would take
// more memory than the reducer. Two of them collide by chance once in 10²⁵ sales of this size.
// Nobody can provoke a collision, since the seeds are random in each process.
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

// account is the account of a user.
type account struct {
	units int64  // held and sold
	first uint64 // hash of the user's first request: most have no other
}

// place is the position of an op in the log.
type place struct {
	slot  uint64
	index uint32
}

// exchange has the units of each transfer sent to and received from one other shard,
// in order.
type exchange struct {
	sent, received []ledger.Units
	acked          int // number of sent transfers that were acknowledged
}

// exchanges are the exchanges of a shard with each other shard.
type exchanges map[int]*exchange

func (e exchanges) with(shard int) *exchange {
	x := e[shard]
	if x == nil {
		x = new(exchange)
		e[shard] = x
	}
	return x
}

// inFlight returns the number of units sent and not acknowledged, received or not, as
// the reducer counts them.
func (e exchanges) inFlight() (n int64) {
	for _, x := range e {
		for _, units := range x.sent[min(x.acked, len(x.sent)):] {
			n += units.Count()
		}
	}
	return n
}

func newBook(log string, shard, shards int, reducer Reducer) *Book {
	return &Book{
		Tail: ledger.NewTail(log), shard: shard, shards: shards, reducer: reducer,
		peers: make(exchanges),
		userAccounts: userAccounts{
			users: make(map[name]uint32), over: make(map[string]int64), unpaid: make(map[uint32]int64), requests: make(map[name]struct{}),
		},
		claimRecords: claimRecords{
			scattered: make(map[uint32][]int64), claimHistories: make(map[uint32]claimHistory), owed: make(map[bookPayment]struct{}),
		},
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
	head, _ := ledger.ParseHead(w.Head()) // the Writer has parsed it, and checked that it is that of the last slot
	if is := b.reducer.Head(); b.refused == nil && head != is {
		b.faults = append(b.faults, fmt.Sprintf("the head has %+v, its slots add up to %+v", head.Totals, is.Totals))
	}
	return nil
}

// readOn books further slots until enough returns true.
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

// covers reports whether the book has all that precedes what another has: what the other received
// was sent, and what it has seen acknowledged was received. An award follows the reveal of a draw,
// which follows the entries of every shard.
func (b *Book) covers(other *Book) bool {
	awarded := other.entries != nil && len(other.sold)+len(other.held)+int(other.outcomes.Lapsed()) > 0
	if awarded && b.entries == nil {
		return false
	}
	x := other.peers[b.shard]
	return x == nil || len(x.received) <= len(b.peers.with(other.shard).sent) &&
		x.acked <= len(b.peers.with(other.shard).received)
}

// Compared reports whether the reducer has applied the whole log, so that its state can be
// compared.
func (b *Book) Compared() bool { return b.damage == nil && b.refused == nil }

// move calls do for each range of a transfer, and returns the units of the transfer.
func (b *Book) move(ranges []*pb.Range, do func(ledger.Range)) (units ledger.Units) {
	for _, r := range ranges {
		do(ledger.Range{First: r.GetFirst(), Count: r.GetCount()})
		b.put(&units, ledger.Range{First: r.GetFirst(), Count: r.GetCount()})
	}
	return units
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

// fault records an inconsistency in the slot being booked.
func (b *Book) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Sprintf("slot %d: ", b.slot)+fmt.Sprintf(format, args...))
}

// carry moves the units of a claim from one set to another.
func (b *Book) carry(n uint32, from, to *ledger.Units) {
	for _, unit := range b.units(n) {
		b.take(from, ledger.Range{First: unit, Count: 1})
		b.put(to, ledger.Range{First: unit, Count: 1})
	}
}
