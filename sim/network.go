package sim

import (
	"context"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
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
}

func newNetwork(w *world, hosts int) *network {
	n := &network{w: w, cut: make([][]bool, hosts)}
	for i := range n.cut {
		n.cut[i] = make([]bool, hosts)
	}
	return n
}

// How often a message meets with something while nothing special is the matter.
const (
	usualLoss  = 0.004
	usualLate  = 0.004 // it arrives when its sender has long given up
	usualTwice = 0.004
	usualSlow  = 0.03
)

// longest is how late a message may arrive.
const longest = 150 * time.Second

// message says what is sent.
type message struct {
	from, to host
	what     string
	twice    bool // it may arrive twice
}

// send lets a message arrive: once, late, twice or never.
func (n *network) send(m message, arrive func()) {
	r := n.w.random.network
	after := r.between(100*time.Microsecond, 1500*time.Microsecond)
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
			if m.from == atOperators {
				n.w.latest = max(n.w.latest, n.w.now+again)
			}
			n.w.after(again, arrive)
		}
	case fate < n.loss+usualLoss+usualLate+usualTwice+usualSlow:
		after = r.spread(2*time.Millisecond, 400*time.Millisecond)
	}
	if n.slow > 0 && !n.w.calm {
		after += r.between(0, n.slow)
	}
	if m.from == atOperators && m.to == atStore {
		n.w.latest = max(n.w.latest, n.w.now+after)
	}
	n.w.after(after, arrive)
}

// call is one piece of I/O that a stepped process wants made: what executor and
// planner call a Call.
type call struct {
	Node    int
	What    string
	Timeout time.Duration
	Make    func(ctx context.Context, logs ledger.Logs, node quorum.Node) any
	Took    func(now clock.Now, reply any, err error)
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
func (w *world) call(p *process, c call) {
	w.reached(c.What, wasSent)
	to, life, over := w.hostOf(c.Node), p.life, false
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
			if w.crashes(p, beforeTaking, c.What) {
				return
			}
			c.Took(now, reply, err)
		})
	}
	w.net.send(message{p.host, to, c.What, true}, func() {
		if w.isDown(to) {
			w.net.send(message{to, p.host, "refused", false}, func() { finish(lost, nil, errDown) })
			return
		}
		w.reached(c.What, landed)
		w.note(p.name, c.What, "lands", nil)
		reply := w.serve(c)
		if c.What == "append out" || c.What == "append in" {
			w.operators.seize()
		}
		w.net.send(message{to, p.host, "reply", false}, func() { finish(answered, reply, nil) })
	})
	w.at(p.clock.when(p.clock.now(w.now).Mono+c.Timeout), func() {
		finish(lost, nil, context.DeadlineExceeded)
	})
}

// serve makes a call at its far end.
func (w *world) serve(c call) any {
	if c.Node < 0 {
		return c.Make(context.Background(), w.store, nil)
	}
	n := w.nodes[c.Node]
	n.serve()
	return c.Make(context.Background(), w.store, n.Node)
}

func (w *world) hostOf(node int) host {
	if node < 0 {
		return atStore
	}
	return firstNode + host(node)
}

func (w *world) isDown(h host) bool {
	if h == atStore {
		return w.store.down
	}
	return h >= firstNode && int(h-firstNode) < len(w.nodes) && w.nodes[h-firstNode].down
}
