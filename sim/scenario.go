package sim

import (
	"time"

	"salectl/backends/lists"
	"salectl/spec"
)

// scenario is what a world is like, all drawn from its seed.
type scenario struct {
	shards, nodes, servers int
	stock, perUser         int64
	ttl                    time.Duration
	drift                  float64 // rates of clocks are within 1 ± drift
	offset                 time.Duration
	crashes                float64 // at each effect of a process
	destroyed              bool    // at the end, if it is not before
	again                  bool    // a second run follows one that was destroyed
	raised                 bool    // there is more whenever a buyer received sold_out
	queue                  int     // requests that may wait on a shard
	page                   int     // entries that a read of a log returns at most
	users                  int     // that clients act for
	crowd                  float64 // of the requests, how many come from users of one shard
	nags                   bool    // clients repeat requests to the same process, without waiting
	ambushes               []int   // kinds
	lists                  *listed // nil: owners decide, and no node keeps lists
	listAmbushes           []int   // kinds; none without lists
	sizes                  lists.Sizes

	payment   *spec.Payment // nil: claims are sold at once
	ruled     *ruled        // nil: everybody may claim
	partial   *partial      // nil: a claim gets all it requests or nothing
	choice    *choice       // nil: nobody chooses units
	files     *unitFiles    // nil: no unit is a line of a file
	drawn     *drawn        // nil: claims get units while there are any
	phased    *phased       // nil: the sale's file declares no phase
	timetable *timetable    // nil: the sale is open whenever it is not closed
}

func draw(r random, clients int) scenario {
	s := scenario{
		shards: 1 + r.IntN(5), nodes: pick(r, 3, 3, 5), servers: 2 + r.IntN(2),
		perUser: 1 + r.Int64N(3), ttl: pick(r, 2*time.Second, 3*time.Second),
		drift:   pick(r, 0, 0.002, 0.004),
		offset:  pick(r, 0, 200*time.Millisecond, time.Second),
		crashes: pick(r, 0, 0.002, 0.005), destroyed: r.chance(0.5), queue: pick(r, 1, 40, 40),
		again: r.chance(0.3), raised: r.chance(0.4), crowd: pick(r, 0, 0.8), ambushes: lurk(r),
	}
	s.users = clients * pick(r, 2, 2, 8)
	s.stock = int64(s.shards) + r.Int64N(pick(r, int64(20), 80, 160))
	return s
}

// drawPage makes a read of a log return fewer entries than fit into one answer, so
// that logs of a world's size have several pages, as long ones have in truth.
func (s *scenario) drawPage(r random) { s.page = pick(r, 1, 2, 3, 5, 8, 20, 4096) }

// clock is one of a host that starts now.
func (s *scenario) clock(r random, now time.Duration) hostClock {
	offset := time.Duration((2*r.Float64() - 1) * float64(s.offset))
	return newClock(now, offset, s.rate(r))
}

func (s *scenario) rate(r random) float64 { return 1 + (2*r.Float64()-1)*s.drift }

// disasters are the kinds of what is done to a world, beside what the network and
// the store do to single messages.
var disasters = []disaster{
	{"executor killed", func(w *world, r random) { w.server(r).kill(w.comeback(r)) }},
	{"executor paused", func(w *world, r random) {
		w.server(r).pause(r.spread(50*time.Millisecond, 4*w.scenario.ttl), false)
	}},
	{"executor suspended", func(w *world, r random) {
		w.server(r).pause(r.spread(50*time.Millisecond, 4*w.scenario.ttl), true)
	}},
	{"executor drained", func(w *world, r random) { w.server(r).drain() }},
	{"clock jumps", func(w *world, r random) {
		d := r.spread(10*time.Millisecond, 20*time.Second)
		if r.chance(0.5) {
			d = -d
		}
		w.server(r).shift(d, w.scenario.rate(r))
	}},
	{"command killed", func(w *world, r random) {
		if n := len(w.commands); n > 0 {
			w.commands[n-1].kill(r.spread(100*time.Millisecond, 10*time.Second))
		}
	}},
	{"command paused", func(w *world, r random) {
		if n := len(w.commands); n > 0 {
			w.commands[n-1].pause(r.spread(50*time.Millisecond, 20*time.Second), false)
		}
	}},
	{"node crashes", func(w *world, r random) {
		w.nodes[r.IntN(len(w.nodes))].crash(r.spread(10*time.Millisecond, 10*time.Second), r.IntN(comebacks))
	}},
	{"node saves", func(w *world, r random) { w.nodes[r.IntN(len(w.nodes))].save() }},
	{"node's clock jumps", func(w *world, r random) {
		d := r.spread(10*time.Millisecond, 3*time.Second)
		w.nodes[r.IntN(len(w.nodes))].setClock(d)
	}},
	{"store down", func(w *world, r random) {
		w.store.down = true
		w.after(r.spread(10*time.Millisecond, 3*time.Second), func() { w.store.down = false })
	}},
	{"store frozen", func(w *world, r random) {
		w.store.freeze(r.spread(10*time.Millisecond, 3*time.Second))
	}},
	{"store slow", func(w *world, r random) {
		w.store.slowDown(r.spread(5*time.Millisecond, time.Second), r.spread(100*time.Millisecond, 5*time.Second))
	}},
	{"partition", func(w *world, r random) { w.net.partition(r) }},
	{"one-way partition", func(w *world, r random) { w.net.oneWay(r) }},
	{"storm", func(w *world, r random) {
		w.net.loss = r.Float64() / 3
		w.after(r.spread(100*time.Millisecond, 5*time.Second), func() { w.net.loss = 0 })
	}},
	{"slow network", func(w *world, r random) {
		w.net.slowDown(r.spread(5*time.Millisecond, time.Second), r.spread(100*time.Millisecond, 5*time.Second))
	}},
}

// disaster is a kind of what is done to a world.
type disaster struct {
	what string
	do   func(w *world, r random)
}

// schedule draws what befalls the world and when.
func (w *world) schedule() {
	r := w.random.schedule
	if w.scenario.lists == nil {
		w.draw(20+r.IntN(12), disasters, 0)
		return
	}
	// Such a sale begins when all nodes have their lists, and then one that starts
	// again does not vote for ten seconds.
	w.draw(6+r.IntN(12), disasters, w.Until/5)
	w.draw(2+r.IntN(5), listDisasters, w.Until/8)
	for range 4 + r.IntN(8) { // lists are there for crowds
		w.at(r.between(w.Until/20, w.Until), func() { w.rush(w.random.faults) })
	}
}

// draw draws n disasters of some kinds, from a time on.
func (w *world) draw(n int, kinds []disaster, from time.Duration) {
	r := w.random.schedule
	for range n {
		f := kinds[r.IntN(len(kinds))]
		at := r.between(min(from, w.Until), w.Until)
		w.at(at, func() {
			if w.fault("world", f.what) {
				f.do(w, w.random.faults)
			}
		})
	}
}

func (w *world) server(r random) *server { return w.executors[r.IntN(len(w.executors))] }

// killAll kills all executors, for longer than usual.
func (w *world) killAll(r random) {
	away := r.spread(2*time.Second, 30*time.Second)
	for _, e := range w.executors {
		e.kill(away + w.comeback(r))
	}
}

func (w *world) comeback(r random) time.Duration { return r.spread(10*time.Millisecond, 5*time.Second) }

// partition cuts some hosts off from all others.
func (n *network) partition(r random) {
	side := make([]bool, len(n.cut))
	for i := range side {
		side[i] = r.chance(0.3)
	}
	n.w.after(n.change(func(from, to int) bool { return side[from] != side[to] }, r), n.heal)
}

// oneWay cuts one direction between some pairs of hosts.
func (n *network) oneWay(r random) {
	n.w.after(n.change(func(from, to int) bool { return r.chance(0.2) }, r), n.heal)
}

// cutOff cuts a host off from the store, and from the lock nodes if alone, for a
// while.
func (n *network) cutOff(h host, alone bool, d time.Duration) {
	n.w.after(d, n.heal)
	for to := range n.cut {
		if node := host(to); node == atStore || alone && n.w.isNode(node) {
			n.cut[h][to], n.cut[to][h] = true, true
		}
	}
}

// deafen drops the replies of the store to a host for a while. Its calls arrive.
func (n *network) deafen(h host, d time.Duration) {
	n.w.after(d, n.heal)
	n.cut[atStore][h] = true
}

// slowDown makes messages slower by up to most, for a while.
func (n *network) slowDown(most, d time.Duration) {
	n.slow = most
	n.w.after(d, func() { n.slow = 0 })
}

func (n *network) change(cut func(from, to int) bool, r random) time.Duration {
	for from := range n.cut {
		for to := range n.cut[from] {
			n.cut[from][to] = n.cut[from][to] || from != to && cut(from, to)
		}
	}
	return r.spread(100*time.Millisecond, 12*time.Second)
}

// heal ends all partitions.
func (n *network) heal() {
	for _, row := range n.cut {
		clear(row)
	}
}
