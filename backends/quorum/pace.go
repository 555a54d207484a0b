package quorum

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// notListed is the LeaseRequest.Waited of a waiter that nodes must not list: see Config.Listed.
const notListed = time.Duration(-1)

// pace has the times of renewals and retries, and the tokens, of all keys of a Group.
type pace struct {
	tokens tokens
	single bool          // each key has its own times
	every  time.Duration // from one renewal to the next
	phase  time.Duration // of the renewals, random in each process
	jitter func() float64
	tries  []time.Duration // future times of retries, on the time base of aged
}

func newPace(cfg Config) pace {
	p := pace{single: cfg.Listed, every: timesOf(cfg.TTL).renew, jitter: cfg.Jitter}
	if !p.single {
		p.phase = time.Duration(p.jitter() * float64(p.every))
	}
	p.tokens.prefix = cfg.Token() + "."
	return p
}

// renewal returns the next time at which all held keys are renewed. The first renewal of a key
// comes early, and so needs no call of its own.
func (p *pace) renewal(aged time.Duration) time.Duration {
	if p.single {
		return aged + p.every
	}
	return aged + p.every - (aged+p.every-p.phase)%p.every
}

// pause returns a delay of least to most. It ends with another key's retry if possible;
// otherwise it is random, and other keys may join it. So the calls of keys that were refused or
// not renewed at different times become one.
func (p *pace) pause(aged, least, most time.Duration) time.Duration {
	p.tries = slices.DeleteFunc(p.tries, func(at time.Duration) bool { return at <= aged })
	joins := func(at time.Duration) bool { return !p.single && at >= aged+least && at <= aged+most }
	if at := p.renewal(aged); joins(at) {
		return at - aged
	}
	if i := slices.IndexFunc(p.tries, joins); i >= 0 {
		return p.tries[i] - aged
	}
	d := least + time.Duration(p.jitter()*float64(most-least))
	p.tries = append(p.tries, aged+d)
	return d
}

// tokens issues the tokens of a Group: a random prefix, and a number.
type tokens struct {
	prefix string
	count  uint64
}

// next returns a new token.
func (t *tokens) next() string {
	t.count++
	return t.prefix + strconv.FormatUint(t.count, 36)
}

func (t *tokens) issued(token string) bool { return strings.HasPrefix(token, t.prefix) }

// A lock that is held for a millisecond need not be known to all nodes, only to a majority. So
// a first try queries only a majority. It queries the others when one of these refuses or is
// late, or when the lock is held for longer. That saves a third of the calls with three nodes,
// and two fifths with five. All processes prefer the same nodes for a key, and so do not split
// the votes.

// LateNodes records which nodes recently answered a try late. Groups may share one; it is
// safe for concurrent use.
type LateNodes struct{ late []atomic.Bool }

// NewLateNodes returns a LateNodes for some number of nodes, none of them late.
func NewLateNodes(nodes int) *LateNodes { return &LateNodes{late: make([]atomic.Bool, nodes)} }

// narrow restricts a first try to a majority of the nodes, preferring free ones that were not
// late.
func (k *key) narrow() {
	g := k.g
	if g.cfg.Hedge == 0 || k.refusals > 0 || g.watched {
		return
	}
	k.round.wide = false
	missing := g.majority()
	for i := range k.nodes {
		n := &k.nodes[i]
		n.first = missing > 0 && g.nodes[i].call == nil && !g.cfg.LateNodes.late[i].Load()
		if n.first {
			missing--
		}
	}
	for i := range k.nodes {
		if n := &k.nodes[i]; missing > 0 && !n.first {
			n.first = true
			missing--
		}
	}
}

// widen makes the try query the remaining nodes too, and records the late ones.
func (k *key) widen() {
	k.round.wide = true
	for i := range k.nodes {
		if n := &k.nodes[i]; n.first && n.answered != k.round.id {
			k.g.cfg.LateNodes.late[i].Store(true)
		}
	}
}
