// Package lists is the Redis engine: how the units of a shard come to lie in a
// list on a node, how users are given them there, and how what they were given
// comes into the shard's log.
//
// A shard's list is a copy. The log decides who has what; the node only is
// faster. So everything a node has of a shard belongs to one fill, which the log
// counts (ledger's Rebuild), and to one run of the server. A node that restarts,
// is emptied, is replaced or fails over to a replica has another run id, or no
// marker of the fill, and gives nothing until the list is rebuilt from the log.
//
// What a node has given and the log does not have yet stands in the shard's
// stream. Machine drains it, and rebuilds the list; it is a step machine that
// the executor and the planner both run.
//
// After 利用redis + lua解决抢红包高并发的问题 (a post of 2016): packets made ahead, a
// list of those unclaimed, a map of users who have one, one script, and a writer
// that moves what was claimed into the database. Fill, marker and token are new
// here: each removes a way to lose a packet or to give it twice.
package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"salectl/backends/ledger"
)

// List names the list of one shard of one run of a sale.
type List struct {
	UID   string
	Shard int
}

// Node keeps lists. Each method is one atomic step of the node (Settings and
// Forget aside), and is sent at most once. All are safe for concurrent use. An
// error other than those below says nothing about whether the step was done, and a
// fs.ErrPermission that the node does not permit it.
type Node interface {
	// Name is the node's address.
	Name() string

	// RunID is the id that the server has drawn at its start.
	RunID(ctx context.Context) (string, error)

	// Grab gives a unit to each user of each batch who has none yet: the first of
	// the list. It records what it gave in the list's stream.
	Grab(ctx context.Context, batches []Batch) ([]Given, error)

	// Stop takes the token of a fill and turns the list off: from here on it gives
	// nothing, and whoever had an earlier token can do nothing any more.
	// ErrOtherRun: the server is not of this run. ErrToken: the same or a later
	// token was taken.
	Stop(ctx context.Context, l List, fill uint64, runID string) error

	// Read returns entries of the stream after a place ("": from the first), the
	// oldest first, as many as have about max grabs; none: there are no more. With
	// a fill, it first deletes the entries up to and including the place drained
	// ("": none), and ErrFill says that the list does not give under that fill.
	// With fill 0 it only reads, whatever the list is.
	Read(ctx context.Context, l List, fill uint64, after, drained string, max int) ([]Entry, error)

	// Put adds units, and who was given what, to a list that is off and whose token
	// is this fill's. ErrToken, ErrOtherRun: it is not. ErrLength: the list has
	// other lengths than the part says; begin with a First part.
	Put(ctx context.Context, l List, fill uint64, runID string, p Part) error

	// Start turns the list on, under the token and the run id: from here on it
	// gives, from opens until closes by the time of each batch. It deletes the entries of the stream up to and
	// including the place drained ("" for none). ErrToken, ErrOtherRun, ErrLength
	// as Put has them.
	Start(ctx context.Context, l List, fill uint64, runID string, s Start) error

	// Take takes up to n units out of the end of a list that gives under this fill.
	// They are in the log alone from then on. ErrFill: it does not.
	Take(ctx context.Context, l List, fill uint64, n int) (ledger.Units, error)

	// Add puts units at the end of a list that gives under this fill. ErrFill: it
	// does not.
	Add(ctx context.Context, l List, fill uint64, units ledger.Units) error

	// Inspect says how a list is, without changing anything.
	Inspect(ctx context.Context, l List) (State, error)

	// Forget deletes all that the node has of a list. What is not there is no error.
	Forget(ctx context.Context, l List) error

	// Settings says how the server keeps what it is told.
	Settings(ctx context.Context) (Settings, error)
}

// What a node refuses, having done nothing.
var (
	ErrFill     = errors.New("the list is not of this fill, or off")
	ErrToken    = errors.New("another token was taken")
	ErrOtherRun = errors.New("the server has restarted")
	ErrLength   = errors.New("the list has another length than expected")
)

// Batch asks for units of one list, for users of which none is named twice.
type Batch struct {
	List List
	Fill uint64
	// At is when the caller gives, in microseconds since 1970, by a clock that can be
	// believed: the list's hours are held against it, and it is the time of what is
	// given. A node's own clock decides nothing: it may be the one that is wrong.
	At int64
	// Users and Keys are one request each: who asks, and what tells the request
	// from others of the same user.
	Users, Keys []string
}

// Given is what a Batch was given.
type Given struct {
	// Why is why the list gives nothing now: ErrFill, ErrNotOpen or ErrClosed; nil: it gives.
	Why error
	// At is the batch's.
	At int64
	// OpensAt is when the list begins to give, in microseconds since 1970. It is set
	// beside ErrNotOpen.
	OpensAt int64
	// Units has one for each user: what the user has now, also from when the list was
	// open. It is nil beside ErrFill.
	Units []Unit
	// Entry is the number of the stream's entry that records the units given now; 0: none was
	// given. The entries of a fill are numbered from 1, without gaps.
	Entry uint64
}

// Why a list that is on gives nothing.
var (
	ErrNotOpen = errors.New("the list is not open yet")
	ErrClosed  = errors.New("the list is closed")
)

// Unit is what a user of a Batch has. The zero Unit: nothing, for the list is
// empty.
type Unit struct {
	Number int64
	// Before says that the user was given it by an earlier request, whose key and
	// time (microseconds since 1970) are Key and At.
	Before bool
	Key    string
	At     int64
}

// Entry is one entry of a stream: what one Batch was given.
type Entry struct {
	ID    string // EntryID of its fill and number
	Fill  uint64
	Grabs []ledger.Grab
}

// EntryID returns the position of an entry in the stream, by its fill and its number in it. Positions are
// in the order of the entries.
func EntryID(fill, number uint64) string { return fmt.Sprintf("%d-%d", fill, number) }

// ParseEntryID returns the fill and the number of a position; both are 0 for "", the position before all entries.
func ParseEntryID(id string) (fill, number uint64, err error) {
	if id == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(id, "-")
	fill, err1 := strconv.ParseUint(first, 10, 64)
	number, err2 := strconv.ParseUint(second, 10, 64)
	if err := cmp.Or(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("%q is no position of a stream: %w", id, err)
	}
	return fill, number, nil
}

// Part is a part of a list that is being filled.
type Part struct {
	// First says that this is the first part: what was there is deleted before. Keep
	// then leaves the users.
	First, Keep bool
	// Units and Users are how many of each the list must have before this part.
	Units, Users int64
	// Add are units to be given, the lowest first.
	Add ledger.Units
	// Taken are units that were given, with their users.
	Taken []ledger.Grab
}

// Start is how a list is turned on.
type Start struct {
	Units, Users      int64     // that it must have
	OpensAt, ClosesAt time.Time // zero: at once, never
	Drained           string
}

// State is how a list is.
type State struct {
	Exists  bool   // the node knows of it
	On      bool   // it gives, under Fill and in the server's present run
	Fill    uint64 // under which it gives, or last gave
	Token   uint64 // the last that was taken
	Units   int64  // left to be given
	Users   int64  // who have been given one
	Entries int64  // of the stream

	// Whole says that in the server's present run the list was turned on, and that
	// since then nobody was added to its users but by grabs, and none was deleted.
	Whole bool
}

// Settings are how a server keeps what it is told.
type Settings struct {
	// AOF reports whether it writes an append-only file, Fsync when that is synced:
	// always, everysec, no; "" if it does not tell.
	AOF   bool
	Fsync string
	// Snapshots reports whether it saves snapshots by itself.
	Snapshots bool
}
