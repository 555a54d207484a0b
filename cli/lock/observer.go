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

// observer observes the replies of the lock nodes while a lock is acquired and held. It reports
// each failing node once, not at every attempt, and once a delay because nodes abstain.
type observer struct {
	nodes  []quorum.Node // observed nodes, to be used instead of the original ones
	notify func(string)

	// mu guards the fields below: the nodes reply concurrently.
	mu         sync.Mutex
	identified []quorum.NodeInfo // in the order of their replies
	last       []lastReply
	delayed    bool // a delay by abstaining nodes was reported
}

// lastReply is the last reply of a node.
type lastReply struct {
	err      error
	reported bool // the failure was reported
	abstains bool
}

func newObserver(nodes []quorum.Node, notify func(string)) *observer {
	o := &observer{notify: notify, last: make([]lastReply, len(nodes))}
	for i, n := range nodes {
		o.nodes = append(o.nodes, &observedNode{Node: n, observer: o, at: i})
	}
	return o
}

// observedNode is a lock node with an observer.
type observedNode struct {
	quorum.Node
	observer *observer
	at       int

	// marked and identified are used only by Vote, which a lease never calls concurrently. Vote
	// also writes fault, under mu.
	marked     bool
	identified bool
	fault      error // why the node has no vote
}

// unfitNode is the error of an unfit node, which has no vote.
type unfitNode struct{ quorum.Fault }

func (u unfitNode) Error() string { return u.String() }

func (unfitNode) Is(target error) bool { return target == fs.ErrPermission }

// identify identifies the node once and returns why it has no vote.
func (n *observedNode) identify(ctx context.Context) error {
	if n.identified {
		return n.fault
	}
	info := quorum.QueryInfo(ctx, n.Node, clock.System())
	if info.Err != nil {
		return nil // the vote will report it
	}
	n.identified = true
	o := n.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	o.identified = append(o.identified, info)
	for _, f := range quorum.Judge(o.identified) {
		if f.Node == info.Name && !f.Clock {
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
	return fmt.Sprintf("lock node %s: %s", name, quorum.ErrorText(err))
}

// Vote implements quorum.Node. A node that abstains has just received a marker that expires
// when unused. Mark makes the marker permanent; otherwise the first lock after each idle period
// would wait.
func (n *observedNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if err := n.identify(ctx); err != nil {
		n.observer.record(n.at, quorum.BallotReply{}, err)
		return quorum.BallotReply{}, err
	}
	reply, err := n.Node.Vote(ctx, b)
	if err == nil && reply.Abstained && !n.marked {
		n.marked = n.Node.Mark(ctx, b.Marker, "") == nil
	}
	n.observer.record(n.at, reply, err)
	return reply, err
}

// Release implements quorum.Node.
func (n *observedNode) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	n.observer.mu.Lock()
	fault := n.fault
	n.observer.mu.Unlock()
	if fault != nil {
		return 0, nil // the node has never received a ballot
	}
	released, err := n.Node.Release(ctx, requests)
	n.observer.mu.Lock()
	defer n.observer.mu.Unlock()
	n.observer.reportFailure(n.at, err)
	return released, err
}

// record records the reply to a ballot. A first denial is reported at the next failure of its
// node: the refusal of the lock names several.
func (o *observer) record(at int, reply quorum.BallotReply, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		return
	}
	last := &o.last[at]
	before := last.err
	last.err, last.abstains = err, reply.Abstained
	if !errors.Is(err, fs.ErrPermission) || errors.Is(before, fs.ErrPermission) {
		o.reportFailure(at, err)
	}
	o.reportDelay()
}

// reportFailure reports the failure of a node once, unless so many nodes deny permission that the lock
// is refused.
func (o *observer) reportFailure(at int, err error) {
	if err == nil || o.last[at].reported || errors.Is(err, context.Canceled) {
		return
	}
	errs := make([]error, len(o.last))
	for i, last := range o.last {
		errs[i] = last.err
	}
	if errors.Is(err, fs.ErrPermission) && quorum.NotPermitted(errs) {
		return
	}
	o.last[at].reported = true
	o.notify(nodeClause(o.nodes[at].Name(), err))
}

// reportDelay reports once that there is no majority without the abstaining nodes.
func (o *observer) reportDelay() {
	out, abstain := 0, 0
	for _, last := range o.last {
		if last.abstains {
			abstain++
		}
		if last.abstains || last.err != nil {
			out++
		}
	}
	if o.delayed || abstain == 0 || 2*out < len(o.last) {
		return
	}
	o.delayed = true
	o.notify(fmt.Sprintf("lock nodes that are new to named locks, or lost their memory, vote after %s: until then there is no majority", quorum.MaxTTL))
}
