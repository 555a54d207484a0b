// Package lists is the Redis engine. The available units of a shard are in a list on a node, a script on the
// node grants them to users, and Machine appends the grabs to the shard's log.
//
// A shard's list is a copy: the log decides who has which unit, and the node is faster. All data of a shard
// on a node belongs to one fill, which the log counts (ledger's Rebuild), and to one run of the server. A
// node that restarts, is emptied, is replaced or fails over to a replica has another run id, or no marker of
// the fill. It grants nothing until the list is rebuilt from the log.
//
// The grabs that the log may lack are in the shard's stream. Machine drains the grabs and rebuilds the list.
// The executor and the planner both run it.
//
// The design follows 利用redis + lua解决抢红包高并发的问题 (a post of 2016): packets made ahead, a list of those
// unclaimed, a map of users who have one, one script, and a writer that moves the claims into the database.
// Fill, marker and token are new here: each removes a way to lose a packet or to grant it twice.
package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"salectl/backends/ledger"
)

// List names the list of one shard of one run of a sale.
type List struct {
	UID   string
	Shard int
}

// Node stores lists. Each method but Settings and Forget is one atomic step of the node, and is sent at most
// once. All methods are safe for concurrent use. After an error other than those below, the step may have
// been done or not. A fs.ErrPermission means that the node does not permit the step.
type Node interface {
	// Name returns the node's address.
	Name() string

	// RunID returns the id that the server has drawn at its start.
	RunID(ctx context.Context) (string, error)

	// Grab grants the first unit of the list to each user of each batch who has none. It records the units
	// granted now in an entry of the list's stream for each batch.
	Grab(ctx context.Context, batches []Batch) ([]Given, error)

	// Stop takes the token of a fill and turns the list off. The list grants nothing from then on, and calls
	// under an earlier token are refused. ErrOtherRun: the server is of another run. ErrToken: the same or a
	// later token was taken.
	Stop(ctx context.Context, l List, fill uint64, runID string) error

	// Read returns the entries of the stream behind the position after ("": from the first), the oldest
	// first, with about max grabs in all; none: there are no more. With a fill, it first deletes the entries
	// up to and including the position drained ("": none); ErrFill: the list is not on under that fill.
	// With fill 0 it only reads, in every state of the list.
	Read(ctx context.Context, l List, fill uint64, after, drained string, max int) ([]Entry, error)

	// Put adds units, and the users of units given, to a list that is off and has the token of the fill.
	// ErrToken, ErrOtherRun: it is not off, or has another. ErrLength: the list has other lengths than the
	// part; the caller begins with a First part.
	Put(ctx context.Context, l List, fill uint64, runID string, p Part) error

	// Start turns the list on, under the token and the run id. The list grants between OpensAt and ClosesAt, by
	// the time of each batch. Start deletes the entries of the stream up to and including the position Drained
	// ("": none). It returns ErrToken, ErrOtherRun and ErrLength as Put does.
	Start(ctx context.Context, l List, fill uint64, runID string, s Start) error

	// Take removes up to n units from the end of a list that is on under the fill. They are in the log alone
	// from then on. ErrFill: the list is not.
	Take(ctx context.Context, l List, fill uint64, n int) (ledger.Units, error)

	// Add appends units to the end of a list that is on under the fill. ErrFill: the list is not.
	Add(ctx context.Context, l List, fill uint64, units ledger.Units) error

	// Inspect returns the state of a list, and changes nothing.
	Inspect(ctx context.Context, l List) (State, error)

	// Forget deletes all data of a list. A list that does not exist is no error.
	Forget(ctx context.Context, l List) error

	// Settings returns how the server persists its data.
	Settings(ctx context.Context) (Settings, error)
}

// Reasons why a node refuses a step. It has done nothing.
var (
	ErrFill     = errors.New("the list is not of this fill, or off")
	ErrToken    = errors.New("another token was taken")
	ErrOtherRun = errors.New("the server has restarted")
	ErrLength   = errors.New("the list has another length than expected")
)

// Batch requests units of one list, for distinct users.
type Batch struct {
	List List
	Fill uint64
	// At is the time of the grabs, in microseconds since 1970, by a clock that the caller has verified. It
	// decides whether the list is open. The clock of the node decides nothing: it may be wrong.
	At int64
	// Users and Keys have one element for each request. The key distinguishes requests of one user.
	Users, Keys []string
}

// Given is the result of a Batch.
type Given struct {
	// Why is the reason why the list grants nothing now: ErrFill, ErrNotOpen or ErrClosed; nil: it grants.
	Why error
	// OpensAt is the time from which the list grants, in microseconds since 1970. It is set with ErrNotOpen.
	OpensAt int64
	// Units has the unit of each user, including units given while the list was open. It is nil with ErrFill.
	Units []Unit
	// Entry is the number of the stream's entry that records the units given now; 0: none was
	// given. The entries of a fill are numbered from 1, without gaps.
	Entry uint64
}

// Reasons why a list that is on grants nothing.
var (
	ErrNotOpen = errors.New("the list is not open yet")
	ErrClosed  = errors.New("the list is closed")
)

// Unit is the unit of a user of a Batch. The zero Unit: the user has none, because the list is empty.
type Unit struct {
	Number int64
	// Before reports whether an earlier request of the user got the unit. Key and At are the key and the
	// time of that request, in microseconds since 1970.
	Before bool
	Key    string
	At     int64
}

// Entry is one entry of a stream: the grabs of one Batch.
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
	// First marks the first part: the units and users of before are deleted, or with Keep the units alone.
	First, Keep bool
	// Units and Users are the numbers of each that the list must have before this part.
	Units, Users int64
	// Add are the units to grant, the lowest first.
	Add ledger.Units
	// Taken are the units given, with their users.
	Taken []ledger.Grab
}

// Start has the conditions under which a list is turned on, and its hours.
type Start struct {
	Units, Users      int64 // numbers that it must have
	OpensAt, ClosesAt int64 // in microseconds since 1970; 0: at once, never
	Drained           string
}

// State is the state of a list.
type State struct {
	Exists  bool   // the node has data of it
	On      bool   // it grants, under Fill and in the server's present run
	Fill    uint64 // under which it is on, or last was
	Token   uint64 // the last one taken
	Units   int64  // left to grant
	Users   int64  // who have been given one
	Entries int64  // of the stream

	// Whole reports whether the list was turned on in the server's present run, and its users have changed
	// by grabs alone since.
	Whole bool
}

// Settings are the persistence settings of a server.
type Settings struct {
	// AOF reports whether it writes an append-only file. Fsync is when that is synced: always, everysec or
	// no; "" if the server does not report it.
	AOF   bool
	Fsync string
	// Snapshots reports whether it saves snapshots without a command.
	Snapshots bool
}

// Call is a call of a Node that the caller of a Machine makes.
type Call struct {
	Kind    CallKind
	List    List
	Fill    uint64
	RunID   string
	After   string
	Drained string
	Max     int
	Part    Part
	Start   Start
	Units   ledger.Units
}

// CallKind is the kind of a Call.
type CallKind int

// The kinds of calls.
const (
	RunIDCall CallKind = iota + 1
	StopCall
	ReadCall
	PutCall
	StartCall
	TakeCall
	AddCall
	InspectCall
)

func (k CallKind) String() string {
	return [...]string{"", "run id", "stop", "read", "put", "start", "take", "add", "inspect"}[k]
}

// Reply is the result of a Call.
type Reply struct {
	RunID   string
	Entries []Entry
	Units   ledger.Units // taken from the list
	State   State
	Err     error
}

// Do makes the call.
func (c *Call) Do(ctx context.Context, node Node) (r Reply) {
	switch c.Kind {
	case RunIDCall:
		r.RunID, r.Err = node.RunID(ctx)
	case StopCall:
		r.Err = node.Stop(ctx, c.List, c.Fill, c.RunID)
	case ReadCall:
		r.Entries, r.Err = node.Read(ctx, c.List, c.Fill, c.After, c.Drained, c.Max)
	case PutCall:
		r.Err = node.Put(ctx, c.List, c.Fill, c.RunID, c.Part)
	case StartCall:
		r.Err = node.Start(ctx, c.List, c.Fill, c.RunID, c.Start)
	case TakeCall:
		r.Units, r.Err = node.Take(ctx, c.List, c.Fill, c.Max)
	case AddCall:
		r.Err = node.Add(ctx, c.List, c.Fill, c.Units)
	case InspectCall:
		r.State, r.Err = node.Inspect(ctx, c.List)
	}
	return r
}
