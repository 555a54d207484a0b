package sim

import (
	"maps"
	"slices"
	"time"

	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// peering is how the processes of a world speak to each other, and what befalls that beside what
// befalls any message.
type peering struct {
	encoded bool // also unsolicited messages, which take more time than all else here

	message int // bytes of a message, at most
	unsent  int // bytes that wait to be sent before no more are taken
	unread  int // bytes of replies that wait before the link is cut
	bounds  ledger.Bounds

	faults map[peerStep][]*peerFault
	drains int // of processes, one after another
}

// usualPeering has the limits of a stream as it is served.
var usualPeering = peering{message: streampb.MaxMessage, unsent: 256 << 10, unread: 4 << 20}

// peerStep is what a fault of peers lies in wait for.
type peerStep int

const (
	linkMade     peerStep = iota
	requestThere          // a request that was passed on has arrived and is not taken in yet
	transferSent          // a shard of the process that made the link is about to report that units are under way
)

// peerFault is an ambush for messages between processes.
type peerFault struct {
	what   string
	step   peerStep
	likely float64
	do     func(w *world, r random, l *link)
}

var peerFaults = []peerFault{
	// It takes the request in before it finds out that its lease has run out.
	{"owner paused before a request", requestThere, 0.1, func(w *world, r random, l *link) {
		l.to.pause(r.spread(w.scenario.ttl/2, 4*w.scenario.ttl), r.chance(0.5))
	}},
	{"link cut behind a request", requestThere, 0.03, func(w *world, r random, l *link) {
		w.after(r.between(0, 3*time.Millisecond), l.cut)
	}},
	// It is made again, and once more.
	{"link cut when it was made", linkMade, 0.25, func(w *world, r random, l *link) {
		w.after(r.spread(100*time.Microsecond, 50*time.Millisecond), l.cut)
	}},
	{"transfer held up", transferSent, 0.3, func(w *world, r random, l *link) {
		l.hold(r.spread(5*time.Millisecond, 5*time.Second))
	}},
	// It arrives in the run after the one that it is about.
	{"transfer held up over a destroy", transferSent, 0.5, func(w *world, r random, l *link) {
		l.hold(r.spread(time.Second, 40*time.Second))
		w.operators.destroyNow()
	}},
}

// hold delays the messages over a link from now on.
func (l *link) hold(d time.Duration) { l.arrives[there] = max(l.arrives[there], l.from.w.now+d) }

// beset lets a fault befall the link for which it lay in wait.
func (w *world) beset(step peerStep, l *link) {
	for _, f := range w.peering.faults[step] {
		if w.random.beset.chance(f.likely) && w.fault("network", f.what) {
			f.do(w, w.random.beset, l)
		}
	}
}

// forPeering is the purpose of the random numbers of this file.
const forPeering purpose = 100

// besetTransfers lets faults befall the links of a process that has just sent units out.
func (w *world) besetTransfers(p *process) {
	for _, e := range w.executors {
		if &e.process != p {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(e.links)) {
			if l := e.links[id]; l.open {
				w.beset(transferSent, l)
			}
		}
	}
}

// unbeset is a stream under which the processes of TestWorldsThatFailed speak as they did when
// those worlds failed.
const unbeset = 1339892

// drawPeering draws how processes speak to each other: in some worlds within small limits, so that
// a message has to be divided.
func (w *world) drawPeering(r random) {
	w.peering = usualPeering
	if !r.chance(0.35) {
		return
	}
	p := &w.peering
	p.encoded = true
	if r.chance(0.6) {
		p.message, p.unsent, p.unread = pick(r, 600, 1000), pick(r, p.unsent, 4096), pick(r, p.unread, 8192)
		p.bounds = ledger.Bounds{Ranges: pick(r, 4, 8), Claims: pick(r, 0, 400, 1000)}
	}
	p.faults = make(map[peerStep][]*peerFault)
	for i := range peerFaults {
		if f := &peerFaults[i]; r.chance(0.3) {
			p.faults[f.step] = append(p.faults[f.step], f)
		}
	}
	if r.chance(0.4) {
		p.drains = 1 + r.IntN(4)
	}
	if s := &w.scenario; len(p.faults[transferSent]) > 0 && s.lists == nil && s.drawn == nil {
		s.stock = int64(2*s.shards) + r.Int64N(20) // so that shards are short while there are faults
		s.again = true                             // for what arrives late to arrive in
	}
}

// scheduleDrains has operators drain one process and another for a moment: their shards leave, come
// back, and leave again, while what their owners have promised still counts.
func (w *world) scheduleDrains() {
	r := w.random.beset
	for range w.peering.drains {
		a, b := w.server(r), w.server(r)
		var turn func(left int)
		turn = func(left int) {
			if w.calm || left == 0 || !w.fault("world", drained) {
				return
			}
			if e := a; e.alive && e.n != w.fleet.standby {
				e.event("stands by", func(now clock.Now) {
					e.s.StandBy(now, false)
					w.after(drainedFor, e.standByNoMore)
				})
			}
			a, b = b, a
			w.after(r.spread(100*time.Millisecond, 2*time.Second), func() { turn(left - 1) })
		}
		w.at(r.between(w.Until/10, w.Until), func() { turn(3 + r.IntN(4)) })
	}
}

// drainedFor is how long such a process owns no shard.
const drainedFor = 300 * time.Millisecond

// drained is the fault that operators make.
const drained = "process drained for a moment"
