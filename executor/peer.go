package executor

import (
	"slices"

	"salectl/executor/shard"
)

// Tell is what one process of a sale tells another, unasked. Each may be lost: what counts
// is said again.
type Tell struct {
	Run      string          // the uid of the run that it is about
	Pins     []pin           `json:",omitempty"` // of the process; with State
	State    *string         `json:",omitempty"` // of the process, as memberNote has it, where it has changed
	Owns     *Owns           `json:",omitempty"` // nil: as it was
	Reports  []shard.Report  `json:",omitempty"` // of shards that it owns, and that have changed
	Wants    []Want          `json:",omitempty"` // shards that the other owns, and it should
	Agrees   []int           `json:",omitempty"` // shards that the other may follow, to be given them
	Gives    []int           `json:",omitempty"` // shards whose leases were freed for the other
	Moves    []shard.Message `json:",omitempty"` // between shards
	Collect  uint64          `json:",omitempty"` // not 0: to be told of all shards that the other owns
	Collects uint64          `json:",omitempty"` // not 0: the answer to that, with all it owns in Reports
	Returns  bool            `json:",omitempty"` // with Collects: units may come back soon, so that nothing is promised
	Traffic  *Traffic        `json:",omitempty"` // of the process; nil: it is not known
}

// Parts divides what is to be told at once into some n messages, or more, that are to be heard one
// after the other. It returns one if the parts that it has are not to be divided: each of those is
// small, as a sale has few shards, and a transfer few ranges of units.
func (t *Tell) Parts(n int) (parts []*Tell) {
	first, rest := *t, Tell{Run: t.Run}
	switch {
	case len(t.Reports) > 0 && (t.State != nil || t.Owns != nil):
		first.Reports, rest.Reports = nil, t.Reports
		return []*Tell{&first, &rest}
	case len(t.Reports) > 1: // each part answers for its shards; see collect
		for some := range slices.Chunk(t.Reports, (len(t.Reports)+n-1)/n) {
			part := *t
			part.Reports = some
			parts = append(parts, &part)
		}
		return parts
	case t.State != nil && t.Owns != nil:
		first.Owns, rest.Owns = nil, t.Owns
		return []*Tell{&first, &rest}
	}
	return []*Tell{t}
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
