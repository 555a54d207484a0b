package quorum

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"salectl/backends/clock"
)

// RosterConfig is what a Roster is made of. All of it is fixed for its life.
type RosterConfig struct {
	Nodes []string      // names of the nodes; Call.Node counts in this order
	Room  string        // where the members meet
	ID    string        // of this process, no other's before or after it; without spaces
	TTL   time.Duration // MinTTL to MaxTTL: how long a process that says nothing is there
	Every time.Duration // how often each node is met; 0: six times a ttl
}

// check says what is wrong with a RosterConfig.
func (c RosterConfig) check() error {
	switch {
	case len(c.Nodes) == 0:
		return errors.New("a roster needs at least one lock node")
	case c.Room == "":
		return errors.New("a roster needs the name of a room")
	case c.TTL < MinTTL: // and if it is too long Member.Check says so
		return fmt.Errorf("the ttl of a member is %v to %v, not %v", MinTTL, MaxTTL, c.TTL)
	case c.Every < 0 || c.Every > c.TTL/2:
		return fmt.Errorf("a member with a ttl of %v that meets the others every %v would be lost by one call that fails; make that half of the ttl at most", c.TTL, c.Every)
	}
	return Member{ID: c.ID}.Check(c.TTL)
}

// Roster tells the lock nodes that this process is there, and knows who else is: those
// that any node has. A process that reached a majority of the nodes is seen by
// everyone who reached a majority. Nothing rests on it but who should try for what:
// two processes may see different members for as long as messages take, or a ttl where
// nodes fail.
//
// What a process says of itself bears a number that grows whenever it says something
// else, so that of what the nodes have the newest counts. Like a Machine it does no I/O
// and is not safe for concurrent use. A node has at most one meeting of it under way.
type Roster struct {
	cfg RosterConfig

	// aged is the time base, as Machine.aged is.
	aged time.Duration
	last clock.Now

	state  rosterState
	note   string
	number uint64 // of what it says of itself: the note, or that it leaves

	nodes []rosterNode
	seq   uint64 // of the last call
}

type rosterState int

const (
	rosterSilent  rosterState = iota // it has not said anything yet
	rosterPresent                    // it is there
	rosterLeaving                    // it leaves, or has left
)

// rosterNode is what a roster knows of one node.
type rosterNode struct {
	call  *meeting      // under way; nil: free
	askAt time.Duration // when it is met next
	told  uint64        // the last number that it has confirmed
	deaf  int           // how often in a row it has failed to hear that this process leaves
	until time.Duration // by when it has forgotten this process by itself; 0: it never knew

	met   bool          // it has answered
	heard time.Duration // when the meeting was sent that it answered last
	there []present     // who was there
}

// meeting is a call under way.
type meeting struct {
	seq    uint64
	sent   time.Duration
	number uint64
}

// present is a member as a node has it.
type present struct {
	Member        // its note without the number
	number uint64 // of the note
}

// NewRoster returns a roster of a process that nobody knows yet.
func NewRoster(cfg RosterConfig) (*Roster, error) {
	if cfg.Every == 0 {
		cfg.Every = cfg.TTL / 6
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Roster{cfg: cfg, nodes: make([]rosterNode, len(cfg.Nodes))}, nil
}

// Present says that this process is there, and a note of it, of at most 1,000 bytes.
// The nodes are told at once if that is news, and again and again from then on.
func (r *Roster) Present(now clock.Now, note string) Effects {
	r.observe(now)
	if r.state != rosterPresent || r.note != note {
		r.say(rosterPresent, note)
	}
	return r.effects()
}

// Leave says that this process is not there any more. When Gone says so the nodes know.
// Until it is Present again it hears of nobody.
func (r *Roster) Leave(now clock.Now) Effects {
	r.observe(now)
	if r.state == rosterPresent {
		r.say(rosterLeaving, "")
	}
	return r.effects()
}

// say begins to tell all nodes something else.
func (r *Roster) say(s rosterState, note string) {
	r.state, r.note = s, note
	r.number++
	for i := range r.nodes {
		r.nodes[i].askAt, r.nodes[i].deaf = r.aged, 0
	}
}

// Look meets all nodes without delay, because somebody is there who is not known.
func (r *Roster) Look(now clock.Now) Effects {
	r.observe(now)
	for i := range r.nodes {
		r.nodes[i].askAt = min(r.nodes[i].askAt, r.aged)
	}
	return r.effects()
}

// Tick lets time pass. It does no harm early or without need.
func (r *Roster) Tick(now clock.Now) Effects {
	r.observe(now)
	return r.effects()
}

// Reply takes the answer to a call. An answer that comes twice is ignored.
func (r *Roster) Reply(now clock.Now, reply Reply) Effects {
	r.observe(now)
	n := &r.nodes[reply.Node]
	c := n.call
	if c == nil || c.seq != reply.Seq {
		return r.effects()
	}
	n.call = nil
	if reply.Err != nil {
		if c.number == r.number {
			n.deaf++
		}
		return r.effects()
	}
	n.deaf = 0
	there := make([]present, len(reply.Members))
	for i, m := range reply.Members {
		there[i] = presentOf(m)
	}
	n.told, n.met, n.heard, n.there = c.number, true, c.sent, there
	return r.effects()
}

// presentOf parts a member's note from its number. A note without one is older than any.
func presentOf(m Member) present {
	number, note, _ := strings.Cut(m.Note, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		m.Note = note
	}
	return present{m, n}
}

func (r *Roster) observe(now clock.Now) {
	if r.last.Wall.IsZero() {
		r.last = now
	}
	r.aged += max(0, now.Since(r.last))
	r.last = now
}

// effects meets the nodes that are free and due, and hands over what the shell has to
// do.
func (r *Roster) effects() (out Effects) {
	for i := range r.nodes {
		if r.due(i) && r.aged >= r.nodes[i].askAt {
			out.Calls = append(out.Calls, r.meet(i))
		}
	}
	out.Wake = wakeAt(r.last, r.aged, r.next())
	return out
}

// due reports whether a node is free, and to be met sooner or later.
func (r *Roster) due(i int) bool {
	n := &r.nodes[i]
	return n.call == nil && (r.state == rosterPresent || !r.parted(n))
}

// meet writes the call of a node.
func (r *Roster) meet(i int) Call {
	n := &r.nodes[i]
	timeout := CallTimeout(r.cfg.TTL)
	r.seq++
	n.call = &meeting{seq: r.seq, sent: r.aged, number: r.number}
	n.askAt = r.aged + r.cfg.Every
	m := &Meeting{Room: r.cfg.Room, Member: Member{ID: r.cfg.ID}}
	if r.state == rosterPresent {
		m.TTL, m.Member.Note = r.cfg.TTL, strconv.FormatUint(r.number, 10)+" "+r.note
		n.until = r.aged + timeout + r.cfg.TTL
	}
	return Call{Node: i, Seq: r.seq, Meet: m, Timeout: timeout}
}

// parted reports whether a node knows that this process has left, or has had its time.
func (r *Roster) parted(n *rosterNode) bool {
	return n.told == r.number || n.deaf >= 2 || r.aged >= n.until
}
