package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"salectl/backends/clock"
)

// RosterConfig configures a Roster. It must not change afterwards.
type RosterConfig struct {
	Nodes    []string      // names of the nodes; Call.Node is an index into it
	Registry string        // key of the members' registry on the nodes
	ID       string        // of this process, never used by another; without spaces
	TTL      time.Duration // MinTTL to MaxTTL: how long a silent process stays a member
}

// check returns an error if the RosterConfig is invalid.
func (c RosterConfig) check() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("a roster needs at least one lock node")
	case c.Registry == "":
		return errors.New("a roster needs the key of a registry")
	case c.TTL < MinTTL: // Member.Check rejects a longer one than MaxTTL
		return fmt.Errorf("the ttl of a member is %v to %v, not %v", MinTTL, MaxTTL, c.TTL)
	}
	return Member{ID: c.ID}.Check(c.TTL)
}

// Roster registers this process on the lock nodes, and discovers the other members: those that
// any node has. A process that reached a majority of the nodes is discovered by every process
// that reached a majority. Only the choice of shards to try for depends on it: two processes
// may see different members for as long as messages take, or for a ttl when nodes fail.
//
// The note of a process has a number that grows with each change, so that the newest of the
// nodes' copies is used. Like a Group, a Roster does no I/O and is not safe for concurrent
// use. A node has at most one of its announcements under way.
type Roster struct {
	cfg RosterConfig

	timeline

	state  rosterState
	note   string
	number uint64 // of the process's latest information: its note, or that it leaves

	nodes []rosterNode
	seq   uint64 // number of the last call
}

type rosterState int

const (
	rosterSilent  rosterState = iota // never registered
	rosterPresent                    // registered
	rosterLeaving                    // leaving, or has left
)

// rosterNode is the state of one node of a roster.
type rosterNode struct {
	call      *announcement // under way; nil: free
	callAt    time.Duration // time of the next call
	confirmed uint64        // last number that the node has confirmed
	failures  int           // consecutive failures to report the latest number
	until     time.Duration // time at which the node has forgotten this process; 0: never registered

	answered   bool          // the node has answered
	answeredAt time.Duration // send time of the announcement that it answered last
	members    []present     // members in that answer
}

// announcement is a call of Announce under way.
type announcement struct {
	seq    uint64
	sent   time.Duration
	number uint64
}

// present is a member as a node stores it.
type present struct {
	Member        // its note without the number
	number uint64 // of the note
}

// NewRoster returns a roster of a process that is not registered.
func NewRoster(cfg RosterConfig) (*Roster, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Roster{cfg: cfg, nodes: make([]rosterNode, len(cfg.Nodes))}, nil
}

// Present registers this process, with a note of at most 1,000 bytes. A change is sent to the
// nodes at once; the registration is renewed from then on.
func (r *Roster) Present(now clock.Now, note string) Effects {
	r.advance(now)
	if r.state != rosterPresent || r.note != note {
		r.announce(rosterPresent, note)
	}
	return r.effects()
}

// Leave removes the registration of this process; Deregistered reports the end. Until the
// next Present the roster discovers no members.
func (r *Roster) Leave(now clock.Now) Effects {
	r.advance(now)
	if r.state == rosterPresent {
		r.announce(rosterLeaving, "")
	}
	return r.effects()
}

// announce changes the registration, and makes a call to each node due.
func (r *Roster) announce(s rosterState, note string) {
	r.state, r.note = s, note
	r.number++
	for i := range r.nodes {
		r.nodes[i].callAt, r.nodes[i].failures = r.aged, 0
	}
}

// Refresh queries all nodes without delay, because an unknown member has appeared.
func (r *Roster) Refresh(now clock.Now) Effects {
	r.advance(now)
	for i := range r.nodes {
		r.nodes[i].callAt = min(r.nodes[i].callAt, r.aged)
	}
	return r.effects()
}

// Tick advances the time. An early or unneeded Tick does no harm.
func (r *Roster) Tick(now clock.Now) Effects {
	r.advance(now)
	return r.effects()
}

// Reply handles the reply to a call. A duplicate reply is ignored.
func (r *Roster) Reply(now clock.Now, reply Reply) Effects {
	r.advance(now)
	n := &r.nodes[reply.Node]
	c := n.call
	if c == nil || c.seq != reply.Seq {
		return r.effects()
	}
	n.call = nil
	if reply.Err != nil {
		if c.number == r.number {
			n.failures++
		}
		return r.effects()
	}
	n.failures = 0
	members := make([]present, len(reply.Members))
	for i, m := range reply.Members {
		members[i] = presentOf(m)
	}
	n.confirmed, n.answered, n.answeredAt, n.members = c.number, true, c.sent, members
	return r.effects()
}

// presentOf splits the number from a member's note. A note without a number is the oldest.
func presentOf(m Member) present {
	number, note, _ := strings.Cut(m.Note, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		m.Note = note
	}
	return present{m, n}
}

// effects calls the nodes that are free and due, and returns the calls.
func (r *Roster) effects() (out Effects) {
	for i := range r.nodes {
		if r.due(i) && r.aged >= r.nodes[i].callAt {
			out.Calls = append(out.Calls, r.announceTo(i))
		}
	}
	out.Wake = r.mono(r.next())
	return out
}

// due reports whether a node is free and needs a further call, now or later.
func (r *Roster) due(i int) bool {
	n := &r.nodes[i]
	return n.call == nil && (r.state == rosterPresent || !r.left(n))
}

// announceTo begins a call of a node.
func (r *Roster) announceTo(i int) Call {
	n := &r.nodes[i]
	timeout := CallTimeout(r.cfg.TTL)
	r.seq++
	n.call = &announcement{seq: r.seq, sent: r.aged, number: r.number}
	n.callAt = r.aged + r.cfg.TTL/6 // several may fail before the ttl ends
	m := &Announcement{Registry: r.cfg.Registry, Member: Member{ID: r.cfg.ID}}
	if r.state == rosterPresent {
		m.TTL, m.Member.Note = r.cfg.TTL, strconv.FormatUint(r.number, 10)+" "+r.note
		n.until = r.aged + timeout + r.cfg.TTL
	}
	return Call{Node: i, Seq: r.seq, Announce: m, Timeout: timeout}
}

// left reports whether a node has confirmed that this process left, failed to confirm that twice,
// or has forgotten the process.
func (r *Roster) left(n *rosterNode) bool {
	return n.confirmed == r.number || n.failures >= 2 || r.aged >= n.until
}

// Members returns all members that any node has, this process included, sorted by ID. Each
// has its newest note, and the longest time left on any node, less the time since that node was
// queried. sure is false if fewer than a majority of the nodes have answered within the last
// ttl: members may then be missing.
func (r *Roster) Members(now clock.Now) (members []Member, sure bool) {
	aged := r.at(now)
	all := make(map[string]present)
	answered := 0
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.answered {
			continue
		}
		if aged-n.answeredAt <= r.cfg.TTL {
			answered++
		}
		for _, p := range n.members {
			p.Left -= aged - n.answeredAt
			if p.Left <= 0 {
				continue
			}
			known, found := all[p.ID]
			if found && known.number > p.number {
				known, p = p, known
			}
			p.Left = max(p.Left, known.Left)
			all[p.ID] = p
		}
	}
	for p := range maps.Values(all) {
		members = append(members, p.Member)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, answered > len(r.nodes)/2
}

// next returns, on the time base of aged, when a node is due for a call or an answer expires.
func (r *Roster) next() time.Duration {
	at := never
	ages := func(end time.Duration) {
		if end > r.aged {
			at = min(at, end)
		}
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.answered {
			continue
		}
		ages(n.answeredAt + r.cfg.TTL + 1)
		for _, p := range n.members {
			ages(n.answeredAt + p.Left)
		}
	}
	for i := range r.nodes {
		if r.due(i) {
			at = min(at, r.nodes[i].callAt)
		}
		if n := &r.nodes[i]; r.state == rosterLeaving && !r.left(n) {
			at = min(at, n.until)
		}
	}
	return at
}

// Deregistered reports whether this process has left, and each node has confirmed that, failed to
// confirm it twice, or forgotten the process.
func (r *Roster) Deregistered() bool {
	return r.state != rosterPresent && !slices.ContainsFunc(r.nodes, func(n rosterNode) bool { return !r.left(&n) })
}
