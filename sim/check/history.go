// Package check judges what happened in a simulated sale: the slots that were
// stored, what the clients asked and were told, and what the operators did. It
// recomputes everything from the stored bytes and shares no code with the
// ledger, the executor or the planner, so that a fault in theirs is not
// repeated here. Only the wire format (package ledgerpb) is common.
package check

import (
	"time"

	"salectl/api"
)

// History is all that a run leaves to be judged. Whoever runs the world fills
// it through its methods, which give every entry its place in the one order of
// the world. It is not safe for concurrent use.
type History struct {
	Sale string // metadata.name
	Deal Deal   // nil: no unit is worth anything

	Events       []Event            // what clients and operators asked and were told, in order
	Logs         map[string][]Entry // by name: every slot that was ever stored, in order, also of logs deleted since
	Deletes      []Delete           // every deletion that took effect, in order
	Exports      []Export           // every export that was completely written, in order
	Leases       []Lease            // who had the leases when, in order of their begin
	Doubts       []Doubt            // when nothing is promised of leases, in order of their begin
	Grants       []Grant            // every unit that a node gave from a list, in order
	Losses       []Loss             // of what nodes had in lists, in order
	Restarts     []Restart          // of lock nodes, in order
	ListReadings []ListReading      // of lists that gave, in order
	Requests     []Received         // every claim that a process received, in order
	Users        *Users             // nil: the sale has no rules
	Beacon       []byte             // the value of the round that the sale declares, if it is a draw that does
	Final        Final

	Begin time.Time     // what a right clock showed when the world began; zero: nothing is asked of hours
	Slack time.Duration // how far the clock of a process that decides may be off the lock nodes'
	Skews []Skew        // how far these were off, in order

	Audits      []Audit      // of the ledger while the sale went on, in order of their end
	LiveExports []LiveExport // begun while the sale went on, in order of their end

	UnitFiles *UnitFiles // nil: no unit is declared by a file

	Feeds []Feed // what those were told who follow the ledger, in order of their begin

	Plans []Plan // that commands have made, in order

	Reloads []Reloaded // each time that a process has read its folder of sale files, in order

	Calm    []Calm   // when nothing but planned work and Strikes befell the processes, in order
	Strikes []Strike // in order
	Unmoved []string // planned work that did not come to its end

	Isolations []Isolation // in order

	Service *Service // nil: the sale declares no payment service
	observed

	Readings []Reading // of metrics, in order

	seq  uint64
	ops  int
	last map[holder]int // the index of its lease
}

// Place is when something happened.
type Place struct {
	Seq uint64        // order in the world, from 1; no two things share one
	At  time.Duration // virtual time, the world's own and no process's; may repeat
}

// Entry is a slot that became durable, whether or not its writer received the result.
type Entry struct {
	Place
	Sent  time.Duration // when the append was sent
	Slot  uint64
	Bytes []byte // as stored; nobody may change them
	Head  []byte // of the log, as it was stored with the slot; nil: not to be judged
}

// Delete removed the slots of a log up to UpTo, and its head.
type Delete struct {
	Place
	Log  string
	UpTo uint64
}

// Export is a file that destroy wrote.
type Export struct {
	Place
	Bytes []byte
}

// Audit is an audit of the ledger while the sale went on.
type Audit struct {
	Place          // when it ended
	Began uint64   // by History.Count
	UID   string   // of the run; as all below only of one that is Done
	Slots []uint64 // of each shard, that it read
	Found []byte   // as JSON
	How   Ended
	Err   string

	Lagged bool // reads were answered from the past for a while
}

// LiveExport is an export that was written while the sale went on.
type LiveExport struct {
	Place           // when it ended
	Began    uint64 // by History.Count
	Lagged   bool   // reads were answered from the past for a while
	Redacted bool
	Bytes    []byte
	How      Ended
	Err      string
}

// Ended is how a command ended that reads the ledger.
type Ended uint8

// The ends of such commands.
const (
	Done    Ended = iota + 1
	NoSale        // it found no sale, or one that is destroyed
	NotRead       // the store could not be read, or not all of what must be there
	Corrupt       // it found a log damaged
)

// Lease is a time in which a process had the lease of a shard, as it reckons
// itself, until it runs out or is given back. Whether it used it, or was
// paused or killed meanwhile, does not matter: nobody else may have it.
type Lease struct {
	Process  string // one run of an executor
	UID      string // of the run of the sale
	Shard    int
	From, To time.Duration
}

// Doubt is a time in which two processes may have the leases, since the clock of
// a lock node was set: it may let go of what it promised before its time.
type Doubt struct{ From, To time.Duration }

// Grant is a unit that a node gave, from the list of a shard, to a user who by the
// node's reckoning had none. Whether anybody heard of it does not matter.
type Grant struct {
	Place
	Node      int
	UID       string // of the run of the sale
	Shard     int
	User, Key string
	Unit      int64
	TimeUs    int64 // by the node's clock
}

// Loss is that a node lost what it was told about its lists since a time: it came
// back with an older memory or none, or its lists were deleted while it ran.
type Loss struct {
	Place
	Node  int
	Since uint64 // by History.Count; 0: all
}

// Restart is the return of a lock node that had crashed. It lacks some of what it had stored, or what
// was written to the other nodes meanwhile.
type Restart struct {
	Place
	Node string // its name
}

// ListReading is a state of a list that gave.
type ListReading struct {
	Place
	Node  int
	UID   string
	Shard int
	Fill  uint64
	Units int64 // in the list
}

// Skew is how far the clocks of the lock nodes are off from a time on: as much as the
// best majority of them at most.
type Skew struct{ At, Off time.Duration }

// Calm is a time in which no fault befalls a world but Strikes: each process can answer for
// each shard when it begins. To is 0 while it lasts.
type Calm struct{ From, To time.Duration }

// Strike is a time within a Calm that begins when a process is killed, or when a vote reaches
// a node that its process has long given up, and ends when what that took is to have an owner
// again.
type Strike struct{ From, To time.Duration }

// Isolation is a time in which a process reaches none of the others, nor they it, since no
// link leads one way at least, while most of all reach each other, some that may own shards
// among them. All of them reach the lock nodes and the store, and nothing else befalls them but
// Strikes.
type Isolation struct {
	Process  string // one run of an executor
	From, To time.Duration
	TTL      time.Duration
}

// Received is a claim that a process has received, with its answer, whether or not the answer
// arrived.
type Received struct {
	Op      int
	Process string      // one run of an executor
	Place               // when it was taken in
	Ended   uint64      // Seq of its answer; 0: there was none
	Outcome api.Outcome // of the answer
}

// Feed is what a consumer that follows the ledger has made of it, from its begin to its end, by
// as many processes as it took: one goes on at the position that the one before has left.
type Feed struct {
	Place            // when it began
	Now      bool    // at the end of what there was then
	Payloads bool    // events have the payloads of units
	Batches  []Batch // in order
	Ended    Place   // zero: it has not
	How      How
	Err      string
}

// Batch is a batch of events, one a line of JSON, the last one a position, which became durable
// together.
type Batch struct {
	Place
	Lines [][]byte
}

// How is how a feed ended.
type How uint8

// The ends of feeds.
const (
	FeedEnded   How = iota + 1 // the sale is destroyed, and everything was told
	FeedGone                   // the rest is deleted
	FeedNoSale                 // there is no sale to be followed
	FeedStopped                // by the consumer
	FeedFailed
)

// Reloaded is that a process has read its folder of sale files, once more.
type Reloaded struct {
	Place
	Process string // one run of it
	Files   Files
	Could   bool // the sale was applied, and the store could be reached
	Serves  bool // before
	Begins  bool // it began to serve it
	After   bool // it serves the sale after it
	Lacks   bool // it says then that it does not serve a sale that is declared
}

// Files is what a folder has.
type Files uint8

// What a folder has: nothing, the sale's file, or a file that cannot be read.
const (
	NoFile Files = iota
	SaleFile
	BrokenFile
)

// Kind is what an event tells.
type Kind uint8

// The kinds of events. Each operation is invoked once and returns at most once.
// A claim or read reaches at most one process, and at most once, as HTTP has it:
// a client that asks again, or elsewhere, begins another operation.
const (
	ClaimInvoked Kind = iota + 1
	ClaimReturned
	ReadInvoked // of a user's claims
	ReadReturned
	CommandInvoked // of an operator
	CommandReturned
	SettleInvoked // of a claim that was accepted
	SettleReturned
)

// Event is one end of an operation.
type Event struct {
	Place
	Kind Kind
	Op   int // the operation, as History.Op numbered it; both ends carry it

	// Of ClaimInvoked and ReadInvoked.
	Process  int // the executor that was asked
	User     string
	Key      string // "": a keyless request; the executor mints a key
	Quantity int64
	Units    []int64 // asked for by their numbers; nil: any
	Adjacent bool    // the units are to lie side by side

	// Of SettleInvoked.
	Claim   string      // its id
	How     api.Outcome // that says it is done: sold, held, cancelled or refunded
	Payment string      // of a confirm

	// Of CommandInvoked.
	Command string // apply, pause, resume, close, destroy, draw close or reveal
	Stock   int64  // that an apply declares
	Phase   string // that an apply declares, "": none
	Writer  string // as commits name the process

	// Of ClaimReturned, ReadReturned and SettleReturned. A read has no outcome if it was answered.
	Answer Answer

	// Of CommandReturned: "" is success. A command whose process was killed never
	// returns.
	Err string
}

// Answer is what a client was told.
type Answer struct {
	Outcome  api.Outcome // or Lost
	Claim    Claim       // of sold and held, and of what became of a claim
	Replayed bool        // it is the answer to an earlier request of the same key
	Claims   []Claim
	Count    int // of the user's claims, with limit_reached: Claims are the newest of them
	// RefundDue says that a payment bought nothing.
	RefundDue bool
	// RetryAfter is when asking again may help; 0: it will not, or at once.
	RetryAfter time.Duration
	// Away says that the process spoke as one that does not serve, by what it had read
	// of the sale's log.
	Away bool
}

// Lost is the outcome of an operation whose reply did not come before the client
// gave up: whether it was carried out is unknown.
const Lost api.Outcome = "lost"

// Claim is a claim as a client was told of it.
type Claim struct {
	ID        string // <shard>-<slot>-<index>, or <shard>-u<unit> if a list gave it
	User      string
	Units     []int64
	Requested int64  // quantity of the request, if fewer were granted
	State     string // sold or held
}

// Final is how the world stands at its end.
type Final struct {
	// Rested says that the faults stopped, that at least one executor and a
	// majority of the lock nodes then ran undisturbed, and that nothing was under
	// way any more. Without it nothing is asked of progress.
	Rested bool
	// Demanded says that clients then went on to ask, each user anew and one unit
	// at a time, until a claim was refused for good.
	Demanded bool
	// Down is when the processes were told to go down, by History.Count: nobody
	// drains what a list gives after that.
	Down uint64
	// Vanished are the operations whose client or process is gone, so that they
	// need not return.
	Vanished map[int]bool
	// Keys are what is left on the lock nodes and does not expire by itself, in
	// any order, and the lists that are left.
	Keys []string
}

// Op returns a number for a new operation, from 0.
func (h *History) Op() int {
	h.ops++
	return h.ops - 1
}

// Record adds an event at a virtual time.
func (h *History) Record(at time.Duration, e Event) {
	e.Place = h.place(at)
	h.Events = append(h.Events, e)
}

// Stored adds a slot that became durable, with the head that came with it, and when its append
// was sent. The bytes are kept, not copied.
func (h *History) Stored(at, sent time.Duration, log string, slot uint64, bytes, head []byte) {
	if h.Logs == nil {
		h.Logs = make(map[string][]Entry)
	}
	h.Logs[log] = append(h.Logs[log], Entry{h.place(at), sent, slot, bytes, head})
}

// Deleted adds a deletion that removed something.
func (h *History) Deleted(at time.Duration, log string, upTo uint64) {
	h.Deletes = append(h.Deletes, Delete{h.place(at), log, upTo})
}

// Exported adds an export that was completely written.
func (h *History) Exported(at time.Duration, bytes []byte) {
	h.Exports = append(h.Exports, Export{h.place(at), bytes})
}

// Audited adds an audit that has ended.
func (h *History) Audited(at time.Duration, a Audit) {
	a.Place = h.place(at)
	h.Audits = append(h.Audits, a)
}

// ExportedLive adds a live export that has ended.
func (h *History) ExportedLive(at time.Duration, x LiveExport) {
	x.Place = h.place(at)
	h.LiveExports = append(h.LiveExports, x)
}

// Holds says that a process has the lease of a shard of a run under a token, until some time at
// least.
func (h *History) Holds(at time.Duration, process, uid string, shard int, token string, until time.Duration) {
	if h.last == nil {
		h.last = make(map[holder]int)
	}
	by := holder{process, shard, token}
	if i, ok := h.last[by]; ok && h.Leases[i].UID == uid && h.Leases[i].To >= at {
		h.Leases[i].To = max(h.Leases[i].To, until)
		return
	}
	h.last[by] = len(h.Leases)
	h.Leases = append(h.Leases, Lease{process, uid, shard, at, until})
}

// holder is a process, a shard whose lease it has, and the token under which it won the lease.
type holder struct {
	process string
	shard   int
	token   string
}

// Freed says that a lock node heard from a process that it gives back the lease of a shard that
// it has under a token. A release may arrive long after it was sent, when the process has won
// the lease again under another token: the nodes keep that promise, and the lease goes on.
func (h *History) Freed(at time.Duration, process string, shard int, token string) {
	if i, ok := h.last[holder{process, shard, token}]; ok {
		h.Leases[i].To = min(h.Leases[i].To, at)
	}
}

// Doubted says that the clock of a lock node was set, and when at the latest all
// that it promised before has run out.
func (h *History) Doubted(at, until time.Duration) { h.Doubts = append(h.Doubts, Doubt{at, until}) }

// Steady says that a Calm begins, Unsteady that it ends.
func (h *History) Steady(at time.Duration) { h.Calm = append(h.Calm, Calm{From: at}) }

// Unsteady ends the last Calm.
func (h *History) Unsteady(at time.Duration) { h.Calm[len(h.Calm)-1].To = at }

// Struck adds a Strike.
func (h *History) Struck(at, until time.Duration) { h.Strikes = append(h.Strikes, Strike{at, until}) }

// Isolated adds an Isolation, and returns what to call when it ends.
func (h *History) Isolated(at, ttl time.Duration, process string) (ended func(at time.Duration)) {
	n := len(h.Isolations)
	h.Isolations = append(h.Isolations, Isolation{Process: process, From: at, TTL: ttl})
	return func(at time.Duration) { h.Isolations[n].To = at }
}

// Stuck adds planned work that did not come to its end.
func (h *History) Stuck(what string) { h.Unmoved = append(h.Unmoved, what) }

// Skewed adds how far the lock nodes' clocks are off from now on.
func (h *History) Skewed(at, off time.Duration) { h.Skews = append(h.Skews, Skew{at, off}) }

// Granted adds a unit that a node gave.
func (h *History) Granted(at time.Duration, node int, uid string, shard int, user, key string, unit, timeUs int64) {
	h.Grants = append(h.Grants, Grant{h.place(at), node, uid, shard, user, key, unit, timeUs})
}

// Lost adds that a node lost what it was told since a time.
func (h *History) Lost(at time.Duration, node int, since uint64) {
	h.Losses = append(h.Losses, Loss{h.place(at), node, since})
}

// RestartNode adds a Restart.
func (h *History) RestartNode(at time.Duration, node string) {
	h.Restarts = append(h.Restarts, Restart{h.place(at), node})
}

// ListRead adds the state of a list that gave.
func (h *History) ListRead(at time.Duration, node int, uid string, shard int, fill uint64, units int64) {
	h.ListReadings = append(h.ListReadings, ListReading{h.place(at), node, uid, shard, fill, units})
}

// RequestReceived adds a claim that a process has received, and returns the function to call with
// the outcome of the answer.
func (h *History) RequestReceived(at time.Duration, op int, process string) (ended func(api.Outcome)) {
	n := len(h.Requests)
	h.Requests = append(h.Requests, Received{Op: op, Process: process, Place: h.place(at)})
	return func(outcome api.Outcome) {
		h.seq++
		h.Requests[n].Ended, h.Requests[n].Outcome = h.seq, outcome
	}
}

// Followed adds a feed, and returns its number.
func (h *History) Followed(at time.Duration, now bool) int {
	h.Feeds = append(h.Feeds, Feed{Place: h.place(at), Now: now})
	return len(h.Feeds) - 1
}

// Fed adds a batch to a feed.
func (h *History) Fed(at time.Duration, feed int, lines [][]byte) {
	f := &h.Feeds[feed]
	f.Batches = append(f.Batches, Batch{h.place(at), lines})
}

// Unfollowed ends a feed.
func (h *History) Unfollowed(at time.Duration, feed int, how How, err string) {
	f := &h.Feeds[feed]
	f.Ended, f.How, f.Err = h.place(at), how, err
}

// Reloaded adds that a process has read its folder.
func (h *History) Reloaded(at time.Duration, r Reloaded) {
	r.Place = h.place(at)
	h.Reloads = append(h.Reloads, r)
}

// Planned adds a plan that a command has made, in JSON, and the file that it was made of.
func (h *History) Planned(at time.Duration, op int, plan []byte, file *File) {
	h.Plans = append(h.Plans, Plan{h.place(at), op, plan, file})
}

// Count is how much has happened so far: the Seq of the newest Place.
func (h *History) Count() uint64 { return h.seq }

func (h *History) place(at time.Duration) Place {
	h.seq++
	return Place{h.seq, at}
}
