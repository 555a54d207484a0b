package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/spec"
)

// heard observes the replies of the lock nodes during the wait for a lock and its use, and
// informs people: of each failing node once, not at every attempt, and once of a delay because
// nodes abstain.
type heard struct {
	nodes []quorum.Node // observed nodes, to be used instead of the original ones
	say   func(string)
	// denied is closed when so many nodes deny permission that the others are no majority:
	// further waiting is useless.
	denied chan struct{}

	// mu guards the fields below: the nodes reply concurrently.
	mu      sync.Mutex
	asked   []quorum.NodeInfo // identified nodes, in the order of their replies
	last    []lastWord
	delayed bool // a delay by abstaining nodes was reported
}

// lastWord is the last reply of a node.
type lastWord struct {
	err       error
	told      bool // the failure was reported
	holder    quorum.Holding
	votesFrom time.Time // zero unless the node abstains
}

func newHeard(nodes []quorum.Node, say func(string)) *heard {
	h := &heard{say: say, denied: make(chan struct{}), last: make([]lastWord, len(nodes))}
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
func (n *heardNode) Release(ctx context.Context, asks []quorum.Ask) (int, error) {
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

func (h *heard) vote(at int, count quorum.BallotReply, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(err, context.Canceled) {
		return
	}
	last := &h.last[at]
	denied := errors.Is(err, fs.ErrPermission)
	again := denied && errors.Is(last.err, fs.ErrPermission)
	last.err, last.holder, last.votesFrom = err, quorum.Holding{}, time.Time{}
	switch {
	case denied && !again:
		h.deny() // a single one is reported at its next failure, several by the end of the wait
	case err != nil:
		h.failed(at, err)
	case count.Abstained:
		last.votesFrom = count.VotesFrom
	case !count.Yes[0]:
		last.holder = count.Holders[0]
	}
	h.delay()
}

// deny ends the wait if too many nodes deny permission.
func (h *heard) deny() {
	if h.isDenied() {
		return
	}
	errs := make([]error, len(h.last))
	for i, last := range h.last {
		errs[i] = last.err
	}
	if quorum.NotPermitted(errs) {
		close(h.denied)
	}
}

func (h *heard) isDenied() bool {
	select {
	case <-h.denied:
		return true
	default:
		return false
	}
}

// failed reports the failure of a node once.
func (h *heard) failed(at int, err error) {
	if err == nil || h.last[at].told || errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrPermission) && h.isDenied() {
		return
	}
	h.last[at].told = true
	h.say(nodeClause(h.nodes[at].Name(), err))
}

// delay reports that without abstaining nodes there is no majority.
func (h *heard) delay() {
	out, abstain := 0, 0
	for _, last := range h.last {
		if !last.votesFrom.IsZero() {
			abstain++
		}
		if !last.votesFrom.IsZero() || last.err != nil {
			out++
		}
	}
	if h.delayed || abstain == 0 || 2*out < len(h.last) {
		return
	}
	h.delayed = true
	h.say(fmt.Sprintf("lock nodes that are new to named locks, or lost their memory, vote after %s: until then there is no majority", quorum.MaxTTL))
}

// refusal returns the error of a lock that was not acquired, after the last attempt.
func (h *heard) refusal(lock string, wait time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	within := ""
	if wait > 0 {
		within = fmt.Sprintf(" within %s", wait)
	}
	what := fmt.Sprintf("could not acquire the lock %s%s", lock, within)
	var said []string
	holders := map[string]int{}
	most := ""
	for i, last := range h.last {
		name := h.nodes[i].Name()
		switch {
		case last.err != nil:
			said = append(said, nodeClause(name, last.err))
		case !last.votesFrom.IsZero():
			said = append(said, fmt.Sprintf("lock node %s abstains until %s", name, last.votesFrom.UTC().Format(time.RFC3339)))
		case last.holder.Token != "":
			who := holderName(last.holder)
			holders[who]++
			if holders[who] > holders[most] {
				most = who
			}
		}
	}
	if most != "" {
		said = append([]string{fmt.Sprintf("held by %s on %d of %s", most, holders[most], spec.Count(len(h.last), "lock node"))}, said...)
	}
	if len(said) == 0 {
		return fmt.Errorf("%s: too few lock nodes granted it", what)
	}
	return fmt.Errorf("%s: %s", what, strings.Join(said, "; "))
}
