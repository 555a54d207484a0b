package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// heard observes the replies of the lock nodes during the wait for a lock and its use, and
// informs people: of each failing node once, not at every attempt, and once of a delay because
// nodes abstain.
type heard struct {
	nodes []quorum.Node // observed nodes, to be used instead of the original ones
	say   func(string)

	// mu guards the fields below: the nodes reply concurrently.
	mu      sync.Mutex
	asked   []quorum.NodeInfo // identified nodes, in the order of their replies
	last    []lastWord
	delayed bool // a delay by abstaining nodes was reported
}

// lastWord is the last reply of a node.
type lastWord struct {
	err      error
	told     bool // the failure was reported
	abstains bool
}

func newHeard(nodes []quorum.Node, say func(string)) *heard {
	h := &heard{say: say, last: make([]lastWord, len(nodes))}
	for i, n := range nodes {
		h.nodes = append(h.nodes, &heardNode{Node: n, heard: h, at: i})
	}
	return h
}

// heardNode is an observed lock node.
type heardNode struct {
	quorum.Node
	heard *heard
	at    int

	// marked and known are used only by Vote, which a lease never calls concurrently; Vote
	// also writes fault, under mu.
	marked bool
	known  bool  // the node was identified
	fault  error // why the node has no vote
}

// unfitNode is the error of an unfit node, which has no vote.
type unfitNode struct{ quorum.Fault }

func (u unfitNode) Error() string { return u.String() }

func (unfitNode) Is(target error) bool { return target == fs.ErrPermission }

// judge identifies the node once and returns why it has no vote.
func (n *heardNode) judge(ctx context.Context) error {
	if n.known {
		return n.fault
	}
	asked := quorum.QueryInfo(ctx, n.Node, clock.System())
	if asked.Err != nil {
		return nil // the vote will report it
	}
	n.known = true
	n.heard.mu.Lock()
	defer n.heard.mu.Unlock()
	n.heard.asked = append(n.heard.asked, asked)
	for _, f := range quorum.Judge(n.heard.asked) {
		if f.Node == asked.Name && !f.Clock {
			n.fault = unfitNode{f}
		}
	}
	return n.fault
}

// nodeClause describes the error of a lock node, with its name.
func nodeClause(name string, err error) string {
	if unfit, is := errors.AsType[unfitNode](err); is {
		return strings.TrimSuffix(unfit.String(), ".")
	}
	return fmt.Sprintf("lock node %s: %s", name, NodeWords(name, err))
}

// Vote implements quorum.Node. A node that abstains has just received a marker that expires
// when unused. Mark makes it permanent; otherwise the first lock after each idle period would
// wait.
func (n *heardNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if err := n.judge(ctx); err != nil {
		n.heard.vote(n.at, quorum.BallotReply{}, err)
		return quorum.BallotReply{}, err
	}
	count, err := n.Node.Vote(ctx, b)
	if err == nil && count.Abstained && !n.marked {
		n.marked = n.Node.Mark(ctx, b.Marker, "") == nil
	}
	n.heard.vote(n.at, count, err)
	return count, err
}

// Release implements quorum.Node.
func (n *heardNode) Release(ctx context.Context, asks []quorum.LeaseRequest) (int, error) {
	n.heard.mu.Lock()
	fault := n.fault
	n.heard.mu.Unlock()
	if fault != nil {
		return 0, nil // the node has never received a vote
	}
	freed, err := n.Node.Release(ctx, asks)
	n.heard.mu.Lock()
	defer n.heard.mu.Unlock()
	n.heard.failed(n.at, err)
	return freed, err
}

// vote records the reply to a ballot. A first denial is reported at the next failure of its
// node: the refusal of the lock names several.
func (h *heard) vote(at int, count quorum.BallotReply, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		return
	}
	last := &h.last[at]
	before := last.err
	last.err, last.abstains = err, count.Abstained
	if !errors.Is(err, fs.ErrPermission) || errors.Is(before, fs.ErrPermission) {
		h.failed(at, err)
	}
	h.delay()
}

// failed reports the failure of a node once, unless so many nodes deny permission that the lock
// is refused.
func (h *heard) failed(at int, err error) {
	if err == nil || h.last[at].told || errors.Is(err, context.Canceled) {
		return
	}
	errs := make([]error, len(h.last))
	for i, last := range h.last {
		errs[i] = last.err
	}
	if errors.Is(err, fs.ErrPermission) && quorum.NotPermitted(errs) {
		return
	}
	h.last[at].told = true
	h.say(nodeClause(h.nodes[at].Name(), err))
}

// delay reports that without abstaining nodes there is no majority.
func (h *heard) delay() {
	out, abstain := 0, 0
	for _, last := range h.last {
		if last.abstains {
			abstain++
		}
		if last.abstains || last.err != nil {
			out++
		}
	}
	if h.delayed || abstain == 0 || 2*out < len(h.last) {
		return
	}
	h.delayed = true
	h.say(fmt.Sprintf("lock nodes that are new to named locks, or lost their memory, vote after %s: until then there is no majority", quorum.MaxTTL))
}
