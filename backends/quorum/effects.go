package quorum

import (
	"context"
	"time"
)

// Effects is what the caller of a Group or a Roster must do after an input.
type Effects struct {
	Calls  []Call        // calls to make now; each gets one Reply
	Events []Event       // in order of occurrence
	Wake   time.Duration // monotonic time of the next Tick; 0: none needed
}

// EventKind is the kind of an Event.
type EventKind int

// The events of keys.
const (
	Won     EventKind = iota + 1 // Keys are held
	Refused                      // Keys were refused, for the reason Cause; the group retries
	Losing                       // Keys are lost, and not wanted any more; Cause is the reason
	Freed                        // after Release or a loss: no node has Keys for this group
)

func (k EventKind) String() string {
	return [...]string{"none", "won", "refused", "losing", "freed"}[k]
}

// Event is a change of keys, for the user of the lease.
type Event struct {
	Kind  EventKind
	Keys  []string
	Cause *Failure // for Refused and Losing
}

// Call is a request to one node: a ballot, an announcement or a release.
type Call struct {
	Node     int // index into Config.Nodes
	Seq      uint64
	Vote     *Ballot       // nil: no ballot
	Announce *Announcement // nil: no announcement
	Release  []LeaseRequest
	Timeout  time.Duration // time limit for the answer
}

// Announcement has the arguments of one Node.Announce.
type Announcement struct {
	Registry string
	Member   Member        // Left is ignored
	TTL      time.Duration // 0: the member leaves
}

// Do makes the call.
func (c Call) Do(ctx context.Context, n Node) Reply {
	r := Reply{Node: c.Node, Seq: c.Seq}
	switch {
	case c.Vote != nil:
		r.Ballot, r.Err = n.Vote(ctx, *c.Vote)
	case c.Announce != nil:
		r.Members, r.Err = n.Announce(ctx, c.Announce.Registry, c.Announce.Member, c.Announce.TTL)
	default:
		_, r.Err = n.Release(ctx, c.Release)
	}
	return r
}

// Reply answers the call of the same node and number. Every call must get one reply, and soon:
// when a call times out, its reply has an error.
type Reply struct {
	Node    int
	Seq     uint64
	Ballot  BallotReply // of a vote
	Members []Member    // of an announcement
	Err     error       // with it, the call's effect on the node is unknown, now and later
}
