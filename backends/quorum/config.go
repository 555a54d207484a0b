package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config configures a Group. It must not change afterwards.
type Config struct {
	Nodes     []string      // names of the nodes; Call.Node is an index into it
	Marker    string        // key of the sale's marker, which shows a node that it lost its memory (see Node)
	TTL       time.Duration // MinTTL to MaxTTL
	Address   string        // address of the holder, for its notes; without spaces
	Waiter    string        // ID by which others hand keys over to this group, and nodes list it; "": neither
	Hedge     time.Duration // how long a first try queries only a majority of the nodes; 0: it queries all at once
	LateNodes *LateNodes    // nodes to leave out of that majority; nil: the group keeps its own record

	// Listed makes nodes list Waiter after a refusal, and renews and retries each key
	// separately. Otherwise the group polls, for all keys at once: notifications would take a call
	// of Watch for each key, and leaving the lists a release for each key won.
	Listed bool

	// Token returns a new random text without spaces, with which the tokens of a group begin.
	Token func() string
	// Jitter returns random numbers in [0, 1). They spread the retries of groups that were
	// refused together.
	Jitter func() float64
}

// check returns an error if the Config is invalid.
func (c Config) check() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("a lease needs at least one lock node")
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		// A node that lost its memory abstains for MaxTTL: a longer lease could outlast that.
		return fmt.Errorf("the ttl of a lease is %v to %v, not %v", MinTTL, MaxTTL, c.TTL)
	case strings.Contains(c.Address, " "):
		return fmt.Errorf("the address %q has a space in it", c.Address)
	case c.Token == nil || c.Jitter == nil:
		return errors.New("a lease needs sources of tokens and of jitter")
	}
	for i, name := range c.Nodes {
		if slices.Contains(c.Nodes[:i], name) {
			return fmt.Errorf("lock node %s is named twice: it would have two votes", name)
		}
	}
	return nil
}

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
