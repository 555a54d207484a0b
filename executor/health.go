package executor

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// NodeStatus is a lock node as this process, which asks it all the time, sees it.
type NodeStatus struct {
	Name  string
	Up    bool      // it answered when it was last asked
	Since time.Time // when that began, or when this process first asked it
	Error string    // why it is not up, in one line
	// VotesFrom is set while the node abstains, because it lost its memory: when
	// it votes again, by its own clock.
	VotesFrom time.Time
}

// String says what is wrong with the node, "" if nothing is.
func (n NodeStatus) String() string {
	switch {
	case !n.Up:
		return fmt.Sprintf("%s is down since %s: %s", n.Name, n.Since.UTC().Format(time.RFC3339), n.Error)
	case !n.VotesFrom.IsZero():
		return fmt.Sprintf("%s lost its memory and votes again at %s", n.Name, n.VotesFrom.UTC().Format(time.RFC3339))
	}
	return ""
}

// health is what this process rests on, as it stands.
type health struct {
	nodes    []NodeStatus
	logged   logged
	unread   error         // why the sale's log could not be read; nil: it was
	clockOff time.Duration // of this host, where it is too much
	locks    quorum.Stats
	errors   []map[string]uint64 // of each lock node, by kind
	members  []MemberStatus
	moving   []MoveStatus
	moves    uint64 // shards given to peers
	held     []bool // by shard: a process that can be reached says now that it owns it
	idle     string // why nobody is to own the shards that nobody owns; "": somebody is
}

// holds reports whether a process that can be reached owns a shard.
func (h *health) holds(i int) bool { return i < len(h.held) && h.held[i] }

// logged is what the sale's log says, as it was read last.
type logged struct {
	readAt     time.Time // when that was; zero: never
	phase      string    // in the ledger; "": it says nothing
	uid        string
	run        int64
	generation uint64
	shards     int
	perUser    int64
	opensAt    time.Time
	closesAt   time.Time
}

// logged is what the sale's log says. What was read once is there, or the store answers from
// the past.
func (o *owner) logged() logged {
	l := logged{readAt: o.readAt.Wall}
	if l.readAt.IsZero() || o.sale.Next() < o.seen || o.sale.Generation() == 0 {
		return l
	}
	l.phase, l.uid, l.run, l.generation, l.shards = o.sale.Phase(), o.sale.UID(), o.sale.Run(), o.sale.Generation(), o.sale.Shards()
	settings := o.sale.Newest().GetSettings()
	l.perUser, l.opensAt, l.closesAt = settings.GetPerUserLimit(), ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	return l
}

// health is what the process rests on.
func (o *owner) health() *health {
	h := &health{nodes: o.watch.status(), logged: o.logged(), unread: o.readErr, clockOff: o.clockOff, locks: o.locks, errors: o.watch.errors()}
	if o.leases != nil {
		h.locks = h.locks.Plus(o.leases.Stats())
	}
	h.moves = o.moves
	return h
}

// absent is what claims are told while this process does not serve.
func (o *owner) absent() *Answer {
	switch {
	case o.draining:
		return &Answer{Outcome: api.Draining, RetryAfter: time.Second}
	case o.readAt == clock.Now{}:
		return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log has not been read yet"}
	case o.missing != nil:
		return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: fmt.Sprintf("the sale's log is gone, and its run %d (%s) had not ended", o.missing.run, o.missing.uid)}
	case o.sale.Next() < o.seen: // a buyer does not ask again who was told that the sale has ended
		return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "the sale's log was read further before: the store answers from the past"}
	case o.sale.Generation() == 0:
		return &Answer{Outcome: api.NoSuchSale, Message: "the sale is not applied"}
	case o.sale.Destroyed():
		return &Answer{Outcome: api.NoSuchSale, Message: "the sale is destroyed"}
	case o.sale.Sealed() != nil:
		return &Answer{Outcome: api.Closed, Message: "the sale has ended; what became of every claim stands in its export"}
	case o.sale.Applied() == 0:
		return &Answer{Outcome: api.NotOpen, RetryAfter: time.Second, Message: "the sale is not applied yet"}
	case o.clockOff != 0:
		return &Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "this host's clock is wrong: another process is to serve the sale"}
	case o.silent:
		return &Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "no majority of the lock nodes votes"}
	case o.readErr != nil:
		return &Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notLooked}
	}
	if idle := o.idle(); idle != "" {
		return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: idle}
	}
	if o.isolatedSince != 0 {
		return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: errIsolated.Error()}
	}
	return &Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "no process that can be reached owns the shard, or this one is about to"}
}

// idle says why no process is to own shards, "" if one is: all are on standby, but for those that
// cannot own any.
func (o *owner) idle() string {
	standby := 0
	for _, m := range o.members {
		switch m.State {
		case "":
			return ""
		case memberStandby:
			standby++
		}
	}
	switch {
	case standby == 0:
		return ""
	case standby < len(o.members):
		return fmt.Sprintf("%d of %d processes are on standby, and the others cannot own shards", standby, len(o.members))
	case standby == 1:
		return "the only process is on standby"
	}
	return fmt.Sprintf("all %d processes are on standby", standby)
}

// The parts of a sale that may fail, as operators are told.
const (
	partLedger = "ledger"
	partNodes  = "lock nodes"
	partClock  = "clock"
)

// withoutRights says why a process that serves may not append now: which part fails, and how.
func (h *health) withoutRights(leased bool) (part, why string) {
	switch {
	case h.clockOff != 0:
		return partClock, h.wrongClock()
	case leased && h.unread != nil:
		return partLedger, h.cannotRead()
	case leased:
		return partLedger, "the sale's log has not been read for too long"
	}
	return partNodes, "no majority of the lock nodes votes" + h.troubles()
}

func (h *health) cannotRead() string {
	return "the sale's log cannot be read: " + shard.OneLine(h.unread)
}

func (h *health) wrongClock() string {
	return fmt.Sprintf("this host's clock is %v off the median of the lock nodes' clocks", h.clockOff.Round(time.Millisecond))
}

// troubles names the nodes that do not vote, behind a colon.
func (h *health) troubles() string {
	var all []string
	for _, n := range h.nodes {
		if s := n.String(); s != "" {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}

// nodeWatch follows how the lock nodes are, from one answer to the next.
type nodeWatch []watched

type watched struct {
	NodeStatus
	failures int // in a row
	// errors counts its errors by kind. It is replaced, never changed.
	errors map[string]uint64

	// wrong is how far its clock is ahead of the median of the nodes', where
	// that is known.
	wrong time.Duration
}

func newNodeWatch(names []string) nodeWatch {
	w := make(nodeWatch, len(names))
	for i, name := range names {
		w[i].NodeStatus = NodeStatus{Name: name, Error: "it has not answered yet"}
	}
	return w
}

// silent reports whether so many nodes fail or abstain that the others are no
// majority. While too few were heard to tell, it is as it was before.
func (w nodeWatch) silent(before bool) bool {
	silent, voting := 0, 0
	for i := range w {
		switch n := &w[i]; {
		case n.failures > 0 || !n.VotesFrom.IsZero():
			silent++
		case n.Up:
			voting++
		}
	}
	return 2*silent >= len(w) || before && 2*voting <= len(w)
}

// asked says that a node is asked. Only the first time counts.
func (w nodeWatch) asked(now clock.Now, node int) {
	if n := &w[node]; n.Since.IsZero() {
		n.Since = now.Wall
	}
}

// heard takes in what came of asking a node.
func (w nodeWatch) heard(now clock.Now, node int, v quorum.NodeView) {
	n := &w[node]
	n.VotesFrom = v.VotesFrom
	switch {
	case v.Err == nil && n.Up:
	case v.Err == nil:
		n.Up, n.Since, n.Error, n.failures = true, now.Wall, "", 0
	default:
		if n.Up {
			n.Up, n.Since = false, now.Wall
		}
		// The name stands beside it wherever it is shown.
		n.Error, n.VotesFrom = strings.TrimPrefix(shard.OneLine(v.Err), "lock node "+n.Name+": "), time.Time{}
		n.failures++
		n.errors = maps.Clone(n.errors)
		if n.errors == nil {
			n.errors = make(map[string]uint64)
		}
		n.errors[quorum.ErrorKind(v.Err)]++
	}
}

// clock takes in what time a node has told.
func (w nodeWatch) clock(now clock.Now, node int, lease *quorum.Group) {
	median, known := lease.ClockOff(now)
	if off, told := lease.NodeClockOff(now, node); known && told {
		w[node].wrong = median - off
	}
}

// errors returns how often each node has failed, by kind.
func (w nodeWatch) errors() []map[string]uint64 {
	all := make([]map[string]uint64, len(w))
	for i := range w {
		all[i] = w[i].errors
	}
	return all
}

// status returns a copy of what is known.
func (w nodeWatch) status() []NodeStatus {
	all := make([]NodeStatus, len(w))
	for i := range w {
		all[i] = w[i].NodeStatus
	}
	return all
}
