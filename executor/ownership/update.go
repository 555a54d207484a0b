package ownership

import (
	"slices"

	"salectl/executor/shard"
)

// PeerUpdate is a message between two processes of a sale that needs no request. Updates may be
// lost: senders repeat what matters.
type PeerUpdate struct {
	Run            string          // uid of the run
	State          *string         `json:",omitempty"` // of the process, as in Process
	Owned          *Owned          `json:",omitempty"` // nil: unchanged
	Reports        []shard.Report  `json:",omitempty"` // of changed shards that the sender owns
	Requested      []ShardRequest  `json:",omitempty"` // shards of the receiver that are assigned to the sender
	Accepted       []int           `json:",omitempty"` // requested shards that the receiver may follow until they are granted
	Granted        []int           `json:",omitempty"` // requested shards whose leases were released to the receiver
	Messages       []shard.Message `json:",omitempty"` // between shards
	ProofRequest   uint64          `json:",omitempty"` // not 0: number of a request for reports of all shards of the receiver
	ProofReply     uint64          `json:",omitempty"` // not 0: number of the answered request; Reports has all shards of the sender
	UnitsMayReturn bool            `json:",omitempty"` // with ProofReply: units may return soon, so the reply proves nothing
	Traffic        *Traffic        `json:",omitempty"` // of the process; nil: unknown
}

// Parts divides an update into n messages or more, to be received in order. It returns one if the update
// is indivisible. Such an update is small, as a sale has few shards, and a transfer few ranges of units.
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
	Came   float64 // claims and settlements per second
	Passed float64 // those answered by peers, per second: each once, however often it was forwarded
}

// Owned lists all shards that a process owns, with the epochs of their logs.
type Owned struct {
	Shards []int
	Epochs []uint64
}

// ShardRequest requests a shard.
type ShardRequest struct {
	Shard    int
	CaughtUp bool // the shard's log has been read to its end
}
