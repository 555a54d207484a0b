package ownership

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor/shard"
)

// updates sends and receives the updates of peers.
type updates struct {
	*process
	peers      *peers
	handover   *handover
	roster     *roster
	collection collection
	sentAt     time.Duration // monotonic: time of the last update to peers
	allAt      time.Duration // monotonic: time of the next update with all reports
	wake       time.Duration // monotonic
}

// receive processes an update of a peer. It ignores updates about another run of the sale, which
// has other units and logs under the same shard numbers.
func (u *updates) receive(now clock.Now, from string, t *PeerUpdate) {
	p := u.peers.all[from]
	if p == nil || u.stage != serving || t.Run != u.uid {
		return
	}
	p.lastSeen = now.Mono
	if p.up {
		p.reached = now.Mono
	}
	if t.Traffic != nil {
		p.traffic = t.Traffic
	}
	if t.State != nil && *t.State != p.State {
		p.reported, p.reportedAt, p.State = t.State, now.Mono, *t.State
		u.roster.setState(from, *t.State)
	}
	if t.Owned != nil {
		u.peers.forgetOwned(from)
		for i, epoch := range t.Owned {
			if i < 0 || i >= len(u.peers.holder) {
				continue
			}
			p.owns[i] = epoch
			if other := u.peers.all[u.peers.holder[i]]; other == nil || other.owns[i] <= p.owns[i] {
				u.peers.holder[i] = from
			}
		}
	}
	for _, r := range t.Reports {
		if r.Shard >= 0 && r.Shard < len(u.peers.holder) {
			u.collection.totals.Receive(r)
		}
	}
	for _, w := range t.Requested {
		u.handover.requested(now, from, w)
	}
	for _, i := range t.Accepted {
		u.handover.accepted(now, i)
	}
	for _, i := range t.Granted {
		u.handover.granted(now, from, i)
	}
	for _, m := range t.Messages {
		if m.Valid(len(u.peers.holder)) {
			u.out.Messages = append(u.out.Messages, m)
		}
	}
	if t.ProofRequest != 0 {
		promised := u.collection.totals.PromiseNoReturn(now)
		u.send(from, &PeerUpdate{ProofReply: t.ProofRequest, UnitsMayReturn: !promised, Reports: u.collection.sureReports(now)})
	}
	if t.ProofReply != 0 && !t.UnitsMayReturn {
		u.collection.collect(t.ProofReply, t.Reports)
	}
}

// broadcast sends peers the changes, or a beat if there are none.
func (u *updates) broadcast(now clock.Now) {
	_ = u.roster.announce(now) // without error: the roster exists
	if len(u.peers.all) == 0 {
		u.wake = 0
		return
	}
	changed := u.peers.changedAt != 0 || u.collection.totals.Changed() && now.Mono >= u.sentAt+UpdateEvery
	if changed || now.Mono >= u.sentAt+beatEvery {
		u.collection.totals.Reported()
		state := u.note().State
		owns := u.collection.owns()
		all := now.Mono >= u.allAt // a peer to which this process was unknown has dropped its updates
		if all {
			u.allAt = now.Mono + allEvery
		}
		for _, id := range u.peers.ids() {
			p := u.peers.all[id]
			if all {
				clear(p.sent)
			}
			if p.up {
				u.send(id, &PeerUpdate{State: &state, Owned: owns, Reports: u.collection.totals.Reports(p.sent), Traffic: u.traffic})
			}
		}
		u.peers.changedAt, u.sentAt = 0, now.Mono
	}
	u.collection.proveSoldOut(now)
	u.wake = u.sentAt + beatEvery
	if u.collection.totals.Changed() {
		u.wake = u.sentAt + UpdateEvery
	}
	for _, p := range u.peers.all {
		if silent := p.lastSeen + silentAfter; p.up && now.Mono < silent {
			u.wake = min(u.wake, silent)
		}
	}
}

// PeerUpdate is a message between two processes of a sale that needs no request. Updates may be
// lost: senders repeat what matters.
type PeerUpdate struct {
	Run            string          // uid of the run
	State          *string         `json:",omitempty"` // of the process, as in Process
	Owned          map[int]uint64  `json:",omitzero"`  // epochs of the logs of all shards that the process owns; nil: unchanged
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

// ShardRequest requests a shard.
type ShardRequest struct {
	Shard    int
	CaughtUp bool // the shard's log has been read to its end
}
