package quorum

import (
	"context"
	"time"
)

// Effects is what an input asks its shell to do.
type Effects struct {
	Calls  []Call        // to be carried out now, each answered by one Reply
	Events []Event       // in the order they happened
	Wake   time.Duration // Tick when the monotonic clock has come this far; 0: no need
}

// EventKind says what an Event tells.
type EventKind int

// What happens to keys.
const (
	Won     EventKind = iota + 1 // Keys are held now
	Refused                      // Keys could not be acquired; Cause says why, Again whether more tries follow
	Losing                       // Keys, all that were held, are lost, and none is wanted any more; Cause says why
	Freed                        // after Release, a loss, or the last refusal: no node has anything of ours
)

func (k EventKind) String() string {
	return [...]string{"none", "won", "refused", "losing", "freed"}[k]
}

// Event is news for whoever uses the lease.
type Event struct {
	Kind  EventKind
	Keys  []string
	Cause *Failure // of Refused and Losing
	Again bool     // Refused: the machine tries again by itself
}

// Call is something to ask of one node: a ballot, a meeting or a release.
type Call struct {
	Node    int // index into Config.Nodes
	Seq     uint64
	Vote    *Ballot  // nil: no ballot
	Meet    *Meeting // nil: no meeting
	Release []Ask
	Timeout time.Duration // how long to wait for the answer
}

// Meeting is what one Meet tells a node.
type Meeting struct {
	Room   string
	Member Member        // whose Left is of no meaning
	TTL    time.Duration // 0: it leaves
}

// Do makes the call.
func (c Call) Do(ctx context.Context, n Node) Reply {
	r := Reply{Node: c.Node, Seq: c.Seq}
	switch {
	case c.Vote != nil:
		r.Ballot, r.Err = n.Vote(ctx, *c.Vote)
	case c.Meet != nil:
		r.Members, r.Err = n.Meet(ctx, c.Meet.Room, c.Meet.Member, c.Meet.TTL)
	default:
		_, r.Err = n.Release(ctx, c.Release)
	}
	return r
}

// Reply answers the call of the same node and number. Every call gets one, and
// gets it soon: a shell that gives up waiting says so with an error.
type Reply struct {
	Node    int
	Seq     uint64
	Ballot  BallotReply // of a vote
	Members []Member    // of a meeting
	Err     error       // nobody knows what the node did, or will yet do
}
