// Package quorum grants leases by majority vote of independent lock nodes.
//
// A lease is a key that more than half of the nodes have promised to one token
// until a time. It is worth what clocks are worth: two processes can believe
// in one lease when clocks or schedulers misbehave badly enough. So nothing
// here guards stock: the compare-and-set of package ledger does. A lease keeps
// processes out of each other's way.
//
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016: SETNX on N
// Redis, won with more than half), 一种实现redis分布锁高可用的方法及其系统 (2021:
// begin time, total time against the validity, what remains of it), and the
// Redlock algorithm in the documentation of Redis.
package quorum

import (
	"context"
	"errors"
	"time"
)

// Node is one lock server. All methods are safe for concurrent use and return
// soon after ctx ends, or by its deadline. An error other than ErrUnsent means
// that nobody knows whether the node did what was asked; asking again is always
// safe. It is in vain after a fs.ErrPermission: the node does not permit it.
//
// A node keeps a marker for each sale: the node's own run id, and the node time
// from which it votes. A node whose marker is missing or bears another run id
// may have lost promises that it gave (restarted empty or from old data, failed
// over, flushed). It then writes a marker that begins to vote MaxTTL from now,
// when whatever it promised has run out, and abstains until then.
type Node interface {
	// Name is the node's address as the sale's file gives it.
	Name() string

	// Info says who the node is and what time it has.
	Info(ctx context.Context) (Info, error)

	// Mark writes the sale's marker. With a run id, the node votes at once, and
	// only if that is still its run id (else ErrOtherRun): the caller read it
	// when the sale could not have had leases. Without one, an absent or foreign
	// marker is mended in the abstaining form and a good one is left alone.
	Mark(ctx context.Context, marker, runID string) error

	// Vote asks for every lease of a ballot in one step.
	Vote(ctx context.Context, b Ballot) (BallotReply, error)

	// Release frees each lease that still has the ask's token and, where the ask
	// has a note, still has that note: exactly what was seen. It returns how many
	// had. It takes the ask's waiter off the key's list; of each lease freed it
	// takes off the first as well, tells that one's Watch, and may refuse the key
	// to others for a moment. Where the ask names a Next, that one takes the
	// place of the first, listed or not: it is told, and for HandOver no ballot of
	// another waiter gets the key.
	Release(ctx context.Context, asks []Ask) (int, error)

	// Watch calls freed when it has begun to watch, and then whenever Release
	// frees the key and the waiter was first on its list or named as Next. It returns when ctx or
	// the connection ends; a node that has no way to tell returns ErrCannotWatch.
	// What happens in between two calls of Watch, or runs out by itself, is not
	// told: poll as well.
	Watch(ctx context.Context, key, waiter string, freed func()) error

	// List returns the leases whose keys begin with prefix, in order of keys.
	List(ctx context.Context, prefix string) ([]Holding, error)

	// ReadMarker says how the sale's marker stands. It writes nothing.
	ReadMarker(ctx context.Context, marker string) (Marker, error)

	// Forget removes the sale's marker. Forgetting what is not there is no error.
	Forget(ctx context.Context, marker string) error

	// Meet writes that a member is in a room for a ttl, MaxTTL at most, and returns
	// all that are, itself among them, in any order. A ttl of 0 takes it away. A node
	// that lost its memory knows fewer for a while, and says so to nobody.
	// ErrRoomFull: there are MaxMembers others.
	Meet(ctx context.Context, room string, m Member, ttl time.Duration) ([]Member, error)
}

// The bounds of a lease's ttl, and what a sale gets that names none.
const (
	MinTTL     = 2 * time.Second
	DefaultTTL = 3 * time.Second
	MaxTTL     = 10 * time.Second
)

// HandOver is for how long a node keeps a freed key for the waiter that Release
// names as Next.
const HandOver = 500 * time.Millisecond

// Info is what a node says of itself.
type Info struct {
	RunID string    // changes whenever the node may have lost its memory
	Time  time.Time // by the node's own clock
	// Carried says that Time is not what the clock of the node's host shows: that was
	// set while no time server keeps it right, and is not believed.
	Carried bool
	// Unfit says why the node cannot be relied on as it is set up, in whole
	// sentences with the remedy, such as an eviction policy that drops promises.
	// Empty: nothing speaks against it.
	Unfit string
}

// Marker is a sale's marker as its node has it.
type Marker struct {
	Good      bool      // it is there and bears the node's run id
	VotesFrom time.Time // of a good one, by the node's clock: before that the node abstains
}

// Ask is one lease that somebody wants, keeps or gives back.
type Ask struct {
	Key   string
	Token string // random, without spaces: whoever has the same token is the same holder
	Note  string // for readers: where the holder answers, how often it has renewed
	Renew bool   // extend if the node still has it under this token; never take it anew

	// Waiter puts the asker on the key's list if another has the key, ahead of all
	// who have waited less. It stays for some seconds after the last ask, or
	// until the key is granted to it or Release names it next or takes it off.
	// An empty Waiter does not wait. Waited is how long
	// the asker has waited; a priority may have been added to it. Below 0: the
	// asker is not put on the list, and Waiter only says for whom it asks.
	Waiter string
	Waited time.Duration

	// Tell is of a Renew: the node is to say in Alone whether anybody is on the key's list.
	Tell bool

	// Next is of Release: the waiter to whom a lease that is freed goes next. That
	// is a courtesy, and no promise: a node that lost its memory does not know.
	Next string
}

// Ballot is what one Vote asks of a node.
type Ballot struct {
	Marker string
	TTL    time.Duration
	Asks   []Ask
}

// BallotReply is a node's answer to a ballot.
type BallotReply struct {
	// Yes has an element for each ask: the key now is the token's for a ttl.
	// Granting is idempotent by token: a lost reply asked again is a yes.
	Yes []bool
	// Holders has an element for each ask: who has it where Yes is false, and
	// the zero Holding where nobody has.
	Holders []Holding
	// Abstained says that the node lost its memory and does not vote before
	// VotesFrom; every Yes is false then.
	Abstained bool
	VotesFrom time.Time
	// Alone is nil where the node does not know, and else has an element for each
	// ask: it is a yes, was to be told with it, and nobody is on the key's list.
	Alone    []bool
	Time     time.Time // the node's clock when it voted
	Repaired int       // keys that had no end, or too far an end, and were given one
}

// Holding is one lease as one node has it.
type Holding struct {
	Key   string
	Token string
	Note  string
	Left  time.Duration // until the node forgets it
}

// What calls of a Node may come to.
var (
	ErrOtherRun    = errors.New("the lock node has restarted since it was asked") // it is not the one whose run id the caller had read
	ErrUnsent      = errors.New("the lock node was not reached")                  // so that it did nothing, unlike after any other error
	ErrCannotWatch = errors.New("the lock node cannot tell when a key is freed")
)
