package executor

import (
	"salectl/executor/shard"
)

// Tell is what one process of a sale tells another, unasked. Each may be lost: what counts
// is said again.
type Tell struct {
	Pins     []pin           // of the process; with State
	State    *string         // of the process, as memberNote has it, where it has changed
	Owns     *Owns           // nil: as it was
	Reports  []shard.Report  // of shards that it owns, and that have changed
	Wants    []Want          // shards that the other owns, and it should
	Agrees   []int           // shards that the other may follow, to be given them
	Gives    []int           // shards whose leases were freed for the other
	Moves    []shard.Message // between shards
	Collect  uint64          // not 0: to be told of all shards that the other owns
	Collects uint64          // not 0: the answer to that, with all it owns in Reports
	Returns  bool            // with Collects: units may come back soon, so that nothing is promised
	Traffic  *Traffic        // of the process; nil: it is not known
}

// Traffic is what a process is asked by clients, lately.
type Traffic struct {
	Came   float64 // claims and settlements a second
	Passed float64 // those that peers have answered, a second: each once, however often it was passed on
}

// Owns is all shards that a process owns, with the epochs of their logs.
type Owns struct {
	Shards []int
	Epochs []uint64
}

// Want asks for a shard.
type Want struct {
	Shard int
	Warm  bool // the shard's log has been read to its end
}

// Link is the way to one peer. Its methods do not wait; what they pass on arrives in
// order, or not at all when the link is cut. false: it is cut, or full.
type Link interface {
	// Ask has the peer decide a request: machine.answered or machine.bounced is called.
	Ask(e shard.Errand) bool
	// Tell has the peer's machine hear something.
	Tell(t *Tell) bool
}

// telling is what is to be told to a peer.
type telling struct {
	to   string
	what *Tell
}
