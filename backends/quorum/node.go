// Package quorum grants leases by majority vote of independent lock nodes.
//
// A lease is a key that more than half of the nodes have promised to one token until a time. It
// depends on clocks: if clocks or schedulers misbehave badly enough, two processes can believe
// that they hold one lease. So leases do not protect stock; the compare-and-set of package
// ledger does. A lease keeps processes from working against each other.
//
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016: SETNX on N
// Redis, won with more than half), 一种实现redis分布锁高可用的方法及其系统 (2021:
// begin time, total time against the validity, what remains of it), and the
// Redlock algorithm in the documentation of Redis.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Node is one lock server. Its methods are safe for concurrent use and return soon after ctx
// ends, or by its deadline. After an error other than ErrUnsent it is unknown whether the node
// executed the call. Repeating a call is always safe, but useless after fs.ErrPermission, which
// the node returns for what it does not permit.
//
// A node stores a marker for each sale: the node's own run id, and the node time from which it
// votes. If the marker is missing or has another run id, the node may have lost promises: it
// restarted empty or from old data, failed over, or was flushed. It then writes a marker that
// votes MaxTTL from now, when all its promises have expired, and abstains until then.
type Node interface {
	// Name returns the node's address as given in the sale's file.
	Name() string

	// Info returns the node's run id, time and fitness.
	Info(ctx context.Context) (Info, error)

	// Mark writes the sale's marker. With a run id, the node votes at once, but only if that is
	// still its run id (else ErrOtherRun). The caller must have read the run id while the sale
	// could not have leases. Without a run id, Mark replaces an absent or foreign marker by one
	// that abstains, and leaves a good one unchanged.
	Mark(ctx context.Context, marker, runID string) error

	// Vote handles all requests of a ballot in one step.
	Vote(ctx context.Context, b Ballot) (BallotReply, error)

	// Release frees each lease that still has the request's token and, if the request has a note, still
	// has that note. It returns the number of freed leases. It removes the request's waiter from
	// the key's list. For each freed lease it also removes the first waiter, notifies its
	// Watch, and may refuse the key to others for a moment. If the request names a Next, that
	// waiter takes the place of the first, listed or not: it is notified, and for HandOver no
	// ballot of another waiter gets the key.
	Release(ctx context.Context, requests []LeaseRequest) (int, error)

	// Watch calls freed when it has begun to watch, and then whenever Release frees the key
	// while the waiter is first on its list or named as Next. It returns when ctx or the
	// connection ends, and ErrCannotWatch from a node that cannot notify. It does not report
	// what happens between two calls of Watch, or leases that expire, so callers must poll as
	// well.
	Watch(ctx context.Context, key, waiter string, freed func()) error

	// List returns the leases whose keys begin with prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Holding, error)

	// ReadMarker returns the state of the sale's marker. It writes nothing.
	ReadMarker(ctx context.Context, marker string) (Marker, error)

	// Forget removes the sale's marker. Removing an absent marker is no error.
	Forget(ctx context.Context, marker string) error

	// Announce adds a member to a registry for a ttl, at most MaxTTL, and returns all members,
	// m included, in any order. A ttl of 0 removes the member. A node that lost its memory returns
	// fewer members for a while, without notice. Announce returns ErrRegistryFull if the registry
	// has MaxMembers others.
	Announce(ctx context.Context, registry string, m Member, ttl time.Duration) ([]Member, error)
}

// The bounds of a lease's ttl, and the default of a sale.
const (
	MinTTL     = 2 * time.Second
	DefaultTTL = 3 * time.Second
	MaxTTL     = 10 * time.Second
)

// HandOver is how long a node keeps a freed key for the waiter that Release names as Next.
const HandOver = 500 * time.Millisecond

// Info describes a node.
type Info struct {
	RunID string    // changes whenever the node may have lost its memory
	Time  time.Time // by the node's own clock
	// Carried reports that Time is not the time of the host's clock: that clock was set while
	// no time server controlled it, and is not trusted.
	Carried bool
	// Unfit is the reason why the node must not be relied on in its present configuration, such
	// as an eviction policy that drops leases: whole sentences, with the remedy. "": none.
	Unfit string
}

// Marker is the state of a sale's marker on a node.
type Marker struct {
	Good      bool      // it exists and has the node's run id
	VotesFrom time.Time // of a good one, by the node's clock: the node abstains before
}

// LeaseRequest is a request about one lease: to acquire, renew or release it.
type LeaseRequest struct {
	Key   string
	Token string // random, without spaces; identifies the holder
	Note  string // for readers: the holder's address and number of renewals
	Renew bool   // extend the lease if the node still has it under this token; never acquire it

	// Waiter is the ID under which the requester is added to the key's list if another has the
	// key, ahead of all with a shorter waiting time. It stays listed for some seconds after the
	// last request, until the key is granted to it, or until Release names it as Next or removes
	// it. "" does not wait. Waited is the waiting time, to which a priority may have been added.
	// Below 0 the requester is not listed, and Waiter only identifies it.
	Waiter string
	Waited time.Duration

	// QueryWaiters, with Renew, makes the node report in NoWaiters whether the key's list is empty.
	QueryWaiters bool

	// Next, for Release, is the waiter to hand a freed lease over to. This is not guaranteed: a
	// node that lost its memory does not have it.
	Next string
}

// Ballot is the argument of one Vote.
type Ballot struct {
	Marker   string
	TTL      time.Duration
	Requests []LeaseRequest
}

// BallotReply is a node's answer to a ballot.
type BallotReply struct {
	// Yes reports, for each request, whether the key now belongs to the token for a ttl. Granting
	// is idempotent by token: repeating a request after a lost reply grants it again.
	Yes []bool
	// Holders has, for each request, the present holder if Yes is false; the zero Holding if there
	// is none.
	Holders []Holding
	// Abstained reports that the node lost its memory and does not vote before VotesFrom; then
	// every Yes is false.
	Abstained bool
	VotesFrom time.Time
	// NoWaiters is nil if the node has lost its lists. Otherwise it reports, for each request,
	// whether it was granted, had QueryWaiters set, and found the key's list empty.
	NoWaiters []bool
	Time      time.Time // the node's time of the vote
	Repaired  int       // keys without an expiry, or with one too far ahead, that got a new one
}

// Holding is one lease as stored on one node.
type Holding struct {
	Key   string
	Token string
	Note  string
	Left  time.Duration // time until the node forgets it
}

// The errors of Node's methods that callers distinguish.
var (
	ErrOtherRun    = errors.New("the lock node has restarted since its run id was read") // it no longer has that run id
	ErrUnsent      = errors.New("the lock node was not reached")                         // so it did nothing, unlike after any other error
	ErrCannotWatch = errors.New("the lock node cannot notify of freed keys")
)

// Member is a process in a registry of a node: it has announced itself, and its ttl has not passed
// since.
type Member struct {
	ID   string        // chosen by the process when it starts; without spaces
	Note string        // information about the process, opaque to the node
	Left time.Duration // until the node forgets it
}

// Limits of a registry: its number of members, and the size of their fields.
const (
	MaxMembers = 1000
	MaxID      = 128     // bytes
	MaxNote    = 1 << 10 // bytes
)

// ErrRegistryFull is returned by Announce for a member beyond MaxMembers.
var ErrRegistryFull = errors.New("the registry is full with 1,000 members; dead members expire within their ttl")

// Check returns an error if the node must not accept the member for a ttl.
func (m Member) Check(ttl time.Duration) error {
	switch {
	case m.ID == "" || strings.Contains(m.ID, " ") || len(m.ID) > MaxID:
		return fmt.Errorf("%q is no member's id: it is empty, has a space in it or is longer than %d bytes", m.ID, MaxID)
	case len(m.Note) > MaxNote:
		return fmt.Errorf("the note of member %s has %d bytes; it may have %d", m.ID, len(m.Note), MaxNote)
	case ttl < 0 || ttl > MaxTTL:
		return fmt.Errorf("the ttl of member %s is 0, which removes it, to %v, not %v", m.ID, MaxTTL, ttl)
	}
	return nil
}

// Note is the public information that a holder stores beside its token: its address, a decimal
// number that grows with each ballot, and the ttl in milliseconds, separated by spaces. A
// reader that sees an unchanged number for long, by its own clock, sees a holder that does not
// renew.
type Note struct {
	Address string // without spaces
	Beats   uint64
	TTL     time.Duration // whole milliseconds
}

func (n Note) String() string {
	return n.Address + " " + strconv.FormatUint(n.Beats, 10) + " " + strconv.FormatInt(n.TTL.Milliseconds(), 10)
}

// ParseNote parses a note; it returns false if it has another form.
func ParseNote(s string) (Note, bool) {
	parts := strings.Split(s, " ")
	if len(parts) != 3 {
		return Note{}, false
	}
	beats, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Note{}, false
	}
	ttl, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil || ttl < 0 {
		return Note{}, false
	}
	return Note{Address: parts[0], Beats: beats, TTL: time.Duration(ttl) * time.Millisecond}, true
}
