package ownership

import (
	"slices"

	"salectl/executor/shard"
)

// PeerUpdate is what one process of a sale sends another without a request. An update may be lost:
// what matters is sent again.
type PeerUpdate struct {
	Run      string          // the uid of the run that it is about
	State    *string         `json:",omitempty"` // of the process, as in member, where it has changed
	Owns     *Owns           `json:",omitempty"` // nil: as it was
	Reports  []shard.Report  `json:",omitempty"` // of shards that it owns, and that have changed
	Wants    []Want          `json:",omitempty"` // shards that the other owns, and it should
	Agrees   []int           `json:",omitempty"` // shards that the other may follow, to be given them
	Gives    []int           `json:",omitempty"` // shards whose leases were freed for the other
	Moves    []shard.Message `json:",omitempty"` // between shards
	Collect  uint64          `json:",omitempty"` // not 0: a request for reports of all shards that the other owns
	Collects uint64          `json:",omitempty"` // not 0: the reply to that, with all shards it owns in Reports
	Returns  bool            `json:",omitempty"` // with Collects: units may come back soon, so that nothing is promised
	Traffic  *Traffic        `json:",omitempty"` // of the process; nil: it is not known
}

// Parts divides an update into n messages or more, to be received in order. It returns one if the
// update cannot be divided: all that is left in it is small, as a sale has few shards, and a transfer
// few ranges of units.
func (t *PeerUpdate) Parts(n int) (parts []*PeerUpdate) {
	first, rest := *t, PeerUpdate{Run: t.Run}
	switch {
	case len(t.Reports) > 0 && (t.State != nil || t.Owns != nil):
		first.Reports, rest.Reports = nil, t.Reports
		return []*PeerUpdate{&first, &rest}
	case len(t.Reports) > 1: // each part answers for its shards; see collect
		for some := range slices.Chunk(t.Reports, (len(t.Reports)+n-1)/n) {
			part := *t
			part.Reports = some
			parts = append(parts, &part)
		}
		return parts
	case t.State != nil && t.Owns != nil:
		first.Owns, rest.Owns = nil, t.Owns
		return []*PeerUpdate{&first, &rest}
	}
	return []*PeerUpdate{t}
}

// Traffic is the recent rate of requests from clients.
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
