package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// host is a place in the network: messages travel between any two.
type host int

// The first hosts; then come the lock nodes, then the executors.
const (
	atStore host = iota
	atOperators
	atClients
	firstNode
)

// network carries messages, or does not.
type network struct {
	w    *world
	cut  [][]bool // from, to: nothing gets through
	loss float64  // beyond the usual: a storm
	slow time.Duration
	kept []time.Duration // by host: until when it gets nothing from lock nodes
	late []time.Duration // by host: until when nothing that it appends arrives

	unread []time.Duration // by host: until when its reads of the sale's log are lost

	stranger       host // an executor to whom and from whom no link to another leads; 0: there is none
	hears, isHeard bool // but others make links to it, or it makes some
}

func newNetwork(w *world, hosts int) *network {
	n := &network{w: w, cut: make([][]bool, hosts), kept: make([]time.Duration, hosts), late: make([]time.Duration, hosts), unread: make([]time.Duration, hosts)}
	for i := range n.cut {
		n.cut[i] = make([]bool, hosts)
	}
	return n
}

// parts reports whether a link that one executor makes to another carries nothing.
func (n *network) parts(from, to host) bool {
	return n.stranger != 0 && (n.stranger == from && !n.isHeard || n.stranger == to && !n.hears)
}

// How often a message has a fault while nothing special is the matter.
const (
	usualLoss  = 0.004
	usualLate  = 0.004 // it arrives when its sender has long given up
	usualTwice = 0.004
	usualSlow  = 0.03
	usualHeld  = 0.05 // of tender steps: long enough for others to come in between
)

// tenderSteps are few in a world, and others wait for each to be done.
var tenderSteps = []string{
	"append out", "append in", "append ack", "append generation", "append own", "append rebuild",
	"list run id", "list stop", "list put", "list start", "list take", "list add",
	"rebuild", "drain", "stop list", "read stream", "fill list", "start list", "forget list",
	"generation", "close", "seal", "drive in", "drive out", "planned", "applied", "sealed", "delete",
}

// onceSteps are never sent twice by a driver, nor by the network that it uses: the
// second would do something else than the first.
var onceSteps = []string{"grab", "list take", "list add"}

// readSale is the call by which a process reads the sale's log.
const readSale = "read sale"

// readUnits is the call by which a planner reads what the units are that it adds.
const readUnits = "read units"

// longest is how late a message may arrive.
const longest = 150 * time.Second

// message describes what is sent.
type message struct {
	from, to host
	what     string
	twice    bool // it may arrive twice
	tender   bool // it belongs to a step at which much may go wrong
	list     bool // it requests something of a list from a node
	slow     time.Duration
}

// send lets a message arrive: once, late, twice or never.
func (n *network) send(m message, arrive func()) {
	r := n.w.random.network
	after := r.between(100*time.Microsecond, 1500*time.Microsecond) + m.slow
	fate := r.Float64()
	switch {
	case n.cut[m.from][m.to]:
		if r.chance(0.7) || !n.w.fault("network", "late behind a partition") {
			n.w.note("network", "cut off", m.what, nil)
			return
		}
		after = r.spread(time.Second, longest)
	case fate < n.loss+usualLoss:
		if n.w.fault("network", "lost") {
			n.w.note("network", "loses", m.what, nil)
			return
		}
	case fate < n.loss+usualLoss+usualLate:
		if n.w.fault("network", "late") {
			after = r.spread(500*time.Millisecond, longest)
			n.w.note("network", "delays", m.what, nil)
		}
	case fate < n.loss+usualLoss+usualLate+usualTwice:
		if m.twice && n.w.fault("network", "twice") {
			n.w.note("network", "doubles", m.what, nil)
			again := r.spread(time.Millisecond, longest)
			n.w.under(m, n.w.now+again)
			n.w.after(again, arrive)
		}
	case fate < n.loss+usualLoss+usualLate+usualTwice+usualSlow:
		after = r.spread(2*time.Millisecond, n.w.slowest())
	}
	if m.list && m.twice && m.tender && r.chance(usualHeld) && n.w.fault("network", "repeated") {
		again := after + r.spread(100*time.Microsecond, time.Second)
		n.w.under(m, n.w.now+again)
		n.w.after(again, arrive)
	}
	if m.tender && r.chance(usualHeld) && n.w.fault("network", "held up") {
		after += r.spread(20*time.Millisecond, 5*time.Second)
	}
	if n.slow > 0 && !n.w.calm {
		after += r.between(0, n.slow)
	}
	if n.w.isNode(m.from) && n.kept[m.to] > n.w.now+after {
		after = n.kept[m.to] - n.w.now
	}
	n.w.under(m, n.w.now+after)
	n.w.after(after, arrive)
}

// slowest is how long a message takes at most that nothing befalls. When the faults have
// stopped several of them in a row are to fit into a hand-over.
func (w *world) slowest() time.Duration {
	if w.calm {
		return 40 * time.Millisecond
	}
	return 400 * time.Millisecond
}

// under takes down until when messages are under way that may leave something on a
// node which only a destroy removes, or may bring units back by a refund.
func (w *world) under(m message, until time.Duration) {
	if m.from == atOperators {
		w.latest = max(w.latest, until)
	}
	if m.list {
		w.latestList = max(w.latestList, until)
	}
	if m.what == settleMessage {
		w.latestPay = max(w.latestPay, until)
	}
}

// reached is how far a call came: what the table of failpoints counts.
type reached int

const (
	wasSent reached = iota
	landed
	answered
	lost
	ways
)

func (r reached) String() string { return [...]string{"sent", "landed", "answered", "lost"}[r] }

// call makes a call for a process. Its reply, or the error when nobody waits for
// that any longer, goes to the process if it still lives; whatever the process
// hears, the call may land at any time.
func (w *world) call(p *process, c calls.Call) {
	w.reached(c.What, wasSent)
	to, life, over, sent := w.hostOf(c.Node), p.life, false, w.now
	finish := func(how reached, reply any, err error) {
		if over || p.life != life {
			return
		}
		p.event("takes "+c.What, func(now clock.Now) {
			if over {
				return
			}
			over = true
			w.reached(c.What, how)
			if how == lost && c.What == "grab" || strings.HasPrefix(c.What, "append ") && (how == lost || taken(reply)) {
				w.history.Broke(w.now, p.name)
			}
			if w.crashes(p, beforeTaking, c.What) {
				return
			}
			c.Took(now, reply, err)
		})
	}
	tender := slices.Contains(tenderSteps, c.What)
	request := message{
		from: p.host, to: to, what: c.What, twice: !slices.Contains(onceSteps, c.What), tender: tender, list: c.List,
	}
	if slow := w.store.slow; slow > 0 && !w.calm && strings.HasPrefix(c.What, "append ") {
		request.slow = w.random.network.between(0, slow)
	}
	w.heldUp = 0
	if until := w.net.late[p.host]; until > w.now && strings.HasPrefix(c.What, "append ") {
		w.heldUp = until - w.now
	}
	if c.What == readSale && w.net.unread[p.host] > w.now {
		w.heldUp = never
	}
	w.doubt(p, c.What, wasSent)
	if c.What == readUnits { // a file beside the planner
		w.at(w.now, func() { finish(answered, w.serve(c), nil) })
		return
	}
	arrive := func() {
		if w.isDown(to) {
			w.net.send(message{from: to, to: p.host, what: "refused"}, func() { finish(lost, nil, errDown) })
			return
		}
		w.reached(c.What, landed)
		w.note(p.name, c.What, "lands", nil)
		if (over || p.life != life) && c.What == "vote" {
			w.struck() // it takes a shard that is free, as in a hand-over, and nobody has it for a ttl
		}
		w.store.sent = sent
		reply := w.serve(c)
		w.landed(p, c.What)
		w.doubt(p, c.What, landed)
		back := message{from: to, to: p.host, what: "reply", tender: tender}
		respond := func() { w.net.send(back, func() { finish(answered, reply, nil) }) }
		if r, ok := reply.(*payReply); ok && r.slow > 0 {
			w.after(r.slow, respond)
			return
		}
		respond()
	}
	if w.heldUp != never {
		request.slow += w.heldUp
		w.net.send(request, arrive)
	}
	w.at(p.clock.when(p.clock.now(w.now).Mono+c.Timeout), func() {
		finish(lost, nil, context.DeadlineExceeded)
	})
}

// taken reports whether the reply to an append is that its slot is taken, perhaps by that very append.
func taken(reply any) bool {
	r, ok := reply.(ledger.Reply)
	return ok && errors.Is(r.Err, ledger.ErrTaken)
}

// serve makes a call at its far end.
func (w *world) serve(c calls.Call) any {
	if c.Node == calls.Store || c.Node == payNode {
		return c.Make(context.Background(), w.store, nil, nil)
	}
	n := w.nodes[c.Node]
	n.serve()
	return c.Make(context.Background(), w.store, n, n.lists)
}

func (w *world) hostOf(node int) host {
	if node == payNode {
		return atClients
	}
	if node < 0 {
		return atStore
	}
	return firstNode + host(node)
}

func (w *world) isNode(h host) bool { return h >= firstNode && int(h-firstNode) < len(w.nodes) }

func (w *world) isDown(h host) bool {
	if h == atStore {
		return w.store.down
	}
	return w.isNode(h) && w.nodes[h-firstNode].down
}
