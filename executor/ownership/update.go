package ownership

import (
	"slices"

	"salectl/executor/shard"
)

// PeerUpdate is what one process of a sale sends another without a request. An update may be lost:
// what matters is sent again.
type PeerUpdate struct {
	Run            string          // the uid of the run that it is about
	State          *string         `json:",omitempty"` // of the process, as in Process
	Owned          *Owned          `json:",omitempty"` // nil: as before
	Reports        []shard.Report  `json:",omitempty"` // of shards that it owns, and that have changed
	Requested      []ShardRequest  `json:",omitempty"` // shards that the receiver owns, and that are assigned to the sender
	Accepted       []int           `json:",omitempty"` // requested shards that the receiver may follow, until they are granted
	Granted        []int           `json:",omitempty"` // requested shards whose leases were released to the receiver
	Messages       []shard.Message `json:",omitempty"` // between shards
	ProofRequest   uint64          `json:",omitempty"` // not 0: the number of a request for reports of all shards that the receiver owns
	ProofReply     uint64          `json:",omitempty"` // not 0: the number of the request that this replies to, with Reports of all shards that the sender owns
	UnitsMayReturn bool            `json:",omitempty"` // with ProofReply: units may be returned soon, so the reply proves nothing
	Traffic        *Traffic        `json:",omitempty"` // of the process; nil: it is not known
}

// Parts divides an update into n messages or more, to be received in order. It returns one if the
// update cannot be divided: all that is left in it is small, as a sale has few shards, and a transfer
// few ranges of units.
func (t *PeerUpdate) Parts(n int) (parts []*PeerUpdate) {
	first, rest := *t, PeerUpdate{Run: t.Run}
	switch {
	case len(t.Reports) > 0 && (t.State != nil || t.Owned != nil):
		first.Reports, rest.Reports = nil, t.Reports
		return []*PeerUpdate{&first, &rest}
	case len(t.Reports) > 1: // each part answers for its shards; see collect
		for some := range slices.Chunk(t.Reports, (len(t.Reports)+n-1)/n) {
			part := *t
			part.Reports = some
			parts = append(parts, &part)
		}
		return parts
	case t.State != nil && t.Owned != nil:
		first.Owned, rest.Owned = nil, t.Owned
		return []*PeerUpdate{&first, &rest}
	}
	return []*PeerUpdate{t}
}

// Traffic is the recent rate of requests from clients.
type Traffic struct {
	Came   float64 // claims and settlements a second
	Passed float64 // those that peers have answered, a second: each once, however often it was passed on
}

// Owned is all shards that a process owns, with the epochs of their logs.
type Owned struct {
	Shards []int
	Epochs []uint64
}

// ShardRequest requests a shard.
type ShardRequest struct {
	Shard    int
	CaughtUp bool // the shard's log has been read to its end
}
