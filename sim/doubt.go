package sim

import (
	"slices"
	"time"

	"salectl/executor/shard"
)

// doubts are ambushes that leave open what has become of something: an append
// whose outcome nobody knows, or a lease that was counted from other votes than it
// seems. They have a stream of random numbers of their own.
var doubts = []ambush{
	// The slot is empty when it is read, and filled later. Whoever waits must not
	// receive meanwhile the answer that nothing was sold.
	{"appends held up while their executor loses its rights", wasSent, []string{"append claims", "append mixed"}, 0.25,
		func(w *world, r random, p *process) {
			w.heldUp = w.scenario.ttl + r.spread(5*time.Millisecond, time.Second)
			w.net.keepAppends(p.host, w.heldUp)
			for _, e := range w.executors { // nobody else takes the shard over sooner
				w.net.cutNodes(e.host, 2*w.scenario.ttl)
			}
		}},
	{"append held up while its executor goes down", wasSent, []string{"append claims", "append mixed"}, 0.1,
		func(w *world, r random, p *process) {
			w.heldUp = r.spread(500*time.Millisecond, 15*time.Second)
			w.after(r.between(0, 10*time.Millisecond), func() {
				for _, e := range w.executors {
					if e.host == p.host {
						e.drain()
					}
				}
			})
		}},
	// Somebody else takes the slot of the sale's log first.
	{"a rival amid a plan", wasSent, []string{"planned", "applied", "sealed"}, 0.3, func(w *world, r random, _ *process) {
		w.heldUp = r.spread(100*time.Millisecond, 5*time.Second)
		o := w.operators
		c := command{kind: pick(r, apply, apply, pause, resume), stock: max(int64(w.scenario.shards), o.most+r.Int64N(9)-4), runs: 3}
		if o.ending {
			c.kind = destroy
		}
		w.after(r.between(0, 50*time.Millisecond), func() { o.run(c, func() {}) })
	}},
	// Nothing is stored, and nobody reports it.
	{"append lost", wasSent, slices.Concat(commandAppends, []string{
		"append own", "append generation", "append out", "append in", "append ack", "append rebuild",
	}), 0.1, func(w *world, _ random, _ *process) { w.heldUp = never }},
	// A lease counts from its request, however late the answers come.
	{"answers late, then cut off", landed, []string{"renew"}, 0.05, func(w *world, r random, p *process) {
		late := r.spread(50*time.Millisecond, 450*time.Millisecond)
		w.net.keepAnswers(p.host, late)
		w.after(late+5*time.Millisecond, func() { w.net.cutNodes(p.host, r.spread(w.scenario.ttl, 3*w.scenario.ttl)) })
	}},
	// One node is no majority, however often it extends a lease.
	{"cut off from all nodes but one", landed, []string{"renew"}, 0.03, func(w *world, r random, p *process) {
		reached := r.IntN(len(w.nodes))
		for i := range w.nodes {
			if i != reached {
				w.net.cutPair(p.host, firstNode+host(i), r.spread(w.scenario.ttl, 4*w.scenario.ttl))
			}
		}
	}},
	// One node is free again, and the others do not remember what they promised.
	{"a lease runs out on a node, and the others forget", landed, []string{"renew"}, 0.05, func(w *world, r random, p *process) {
		free := r.IntN(len(w.nodes))
		w.net.cutPair(p.host, firstNode+host(free), 3*w.scenario.ttl)
		w.after(w.scenario.ttl+r.between(0, w.scenario.ttl), func() {
			for i, n := range w.nodes {
				if i != free && !w.calm {
					n.crash(r.between(0, 5*time.Millisecond), comesBackEmpty)
				}
			}
		})
	}},
}

// unreadDoubts leave an append open whose executor cannot read the sale's log. It has its leases
// and no rights: nobody else takes the shard over.
var unreadDoubts = []ambush{
	{"appends held up while their executor cannot read the sale's log", wasSent, []string{"append claims", "append mixed"}, 0.25,
		func(w *world, r random, p *process) {
			// The append reports no outcome until the rights have ended, and is stored later.
			const timeout = shard.CallTimeout
			w.heldUp = (w.scenario.ttl+timeout-1)/timeout*timeout + r.between(20*time.Millisecond, time.Second)
			w.net.keepAppends(p.host, w.heldUp)
			w.net.unread[p.host] = w.now + w.heldUp
		}},
}

// commandAppends are the appends of planners.
var commandAppends = []string{"planned", "create shard", "generation", "applied", "close", "seal", "drive in", "drive out", "sealed"}

// never is for how long a message is held up that gets lost.
const never = time.Duration(1<<63 - 1)

// readable is a stream under which no world of TestWorldsThatFailed has unreadDoubts: those
// worlds are as they were when they failed.
const readable = 93186

// drawDoubts draws which of some kinds of doubts a world has, and adds them by the steps that
// they wait for.
func (w *world) drawDoubts(r random, kinds []ambush) {
	for i := range kinds {
		if r.chance(0.25) {
			for _, step := range kinds[i].steps {
				w.doubtful[step] = append(w.doubtful[step], &kinds[i])
			}
		}
	}
}

// doubt lets a step come into doubt, when it is about to be sent or has landed.
func (w *world) doubt(p *process, step string, when reached) {
	for _, d := range w.doubtful[step] {
		if d.when == when && w.random.doubts.chance(d.likely) && w.fault("world", d.what) {
			d.do(w, w.random.doubts, p)
		}
	}
}

// cutNodes cuts a host off from all lock nodes for a while.
func (n *network) cutNodes(h host, d time.Duration) {
	for to := range n.cut {
		if n.w.isNode(host(to)) {
			n.cut[h][to], n.cut[to][h] = true, true
		}
	}
	n.w.after(d, n.heal)
}

// cutPair cuts two hosts off from each other for a while.
func (n *network) cutPair(a, b host, d time.Duration) {
	n.cut[a][b], n.cut[b][a] = true, true
	n.w.after(d, n.heal)
}

// keepAppends keeps what a host appends from now on until a while has passed.
func (n *network) keepAppends(h host, d time.Duration) { n.late[h] = n.w.now + d }

// keepAnswers keeps what the lock nodes send to a host from now on until a while
// has passed.
func (n *network) keepAnswers(h host, d time.Duration) { n.kept[h] = n.w.now + d }
