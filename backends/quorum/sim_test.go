package quorum_test

import (
	"container/heap"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// world runs machines, lock nodes and a network between them in one event loop
// by one true clock that only it knows. A seed reproduces a run exactly.
type world struct {
	now     time.Duration // true time
	queue   eventQueue
	seq     int
	steps   int
	rnd     *rand.Rand
	ttl     time.Duration
	net     network
	nodes   []*host
	procs   []*proc
	hedge   time.Duration // of every second seed
	endless bool          // some node has had keys without an end
	broken  int           // keys of faulty holders that nodes removed
	forget  bool          // some node loses its memory in this run
	calm    bool          // nobody acquires anything more by itself
	bare    bool          // nothing is traced, and few instants are checked

	trace  hasher
	lines  []string // the last of the trace, for people
	faults []string // what was promised and not kept
}

// network has how many of a hundred messages suffer each fault.
type network struct {
	lost, twice, late int
	latest            time.Duration // how late
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

type hasher struct{ sum uint64 }

func (h *hasher) add(s string) {
	f := fnv.New64a()
	fmt.Fprint(f, h.sum, s)
	h.sum = f.Sum64()
}

func newWorld(seed uint64, ttl time.Duration, nodeRates, procRates []float64) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 0)), ttl: ttl, hedge: time.Duration(seed%2) * 2 * time.Millisecond}
	var names []string
	for i, rate := range nodeRates {
		n := newSimNode(fmt.Sprintf("n%d", i))
		n.mark("marker")
		h := &host{simNode: n, w: w, rate: rate, watchers: map[*proc]bool{}}
		n.woken = h.notify
		w.nodes = append(w.nodes, h)
		names = append(names, n.name)
	}
	for i, rate := range procRates {
		w.procs = append(w.procs, newProc(w, fmt.Sprintf("p%d", i), rate, names, 0))
	}
	return w
}

func (w *world) logf(format string, args ...any) {
	if w.bare {
		return
	}
	s := fmt.Sprintf("%12v ", w.now) + fmt.Sprintf(format, args...)
	w.trace.add(s)
	if w.lines = append(w.lines, s); len(w.lines) > 400 {
		w.lines = w.lines[200:]
	}
}

func (w *world) faultf(format string, args ...any) {
	s := fmt.Sprintf("%v ", w.now) + fmt.Sprintf(format, args...)
	w.logf("BROKEN %s", s)
	w.faults = append(w.faults, s)
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + max(d, 0), w.seq, do})
}

// run lets the world go on until an instant, or until a promise was broken.
func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until && len(w.faults) == 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.steps++
		e.do()
		if !w.bare || w.steps%997 == 0 {
			w.check()
		}
	}
	w.now = max(w.now, until)
}

// check holds the machines to their promise at this instant of true time.
func (w *world) check() {
	owner := map[string]*proc{}
	for _, p := range w.procs {
		if p.line != nil {
			p.line.check()
		}
		for _, key := range p.valid() {
			if q := owner[key]; q != nil {
				w.faultf("%s and %s both hold %s", q.name, p.name, key)
			}
			owner[key] = p
			if votes := w.votes(key, p.tokens[key]); !w.forget && votes <= len(w.nodes)/2 {
				w.faultf("%s believes in %s, which %d of %d nodes have", p.name, key, votes, len(w.nodes))
			}
		}
	}
}

// votes counts the nodes that have a key under a token.
func (w *world) votes(key, token string) (n int) {
	for _, h := range w.nodes {
		if k, ok := h.has(h.time(), key); ok && k.token == token {
			n++
		}
	}
	return n
}

// delay draws how long a message takes, and whether it gets there at all.
func (w *world) delay() (time.Duration, bool) {
	d := 100*time.Microsecond + time.Duration(w.rnd.Int64N(int64(2*time.Millisecond)))
	switch fate := w.rnd.IntN(100); {
	case fate < w.net.lost:
		return 0, false
	case fate < w.net.lost+w.net.late:
		d += time.Duration(w.rnd.Int64N(int64(w.net.latest)))
	}
	return d, true
}

// carry takes a call to its node, perhaps twice, perhaps late, and the answer
// back to whoever still waits for it.
func (w *world) carry(p *proc, c quorum.Call) {
	copies := 1
	if w.rnd.IntN(100) < w.net.twice {
		copies = 2
	}
	for range copies {
		if d, ok := w.delay(); ok && !p.cutTo[c.Node] {
			w.after(d, func() { w.arrive(p, c) })
		}
	}
}

func (w *world) arrive(p *proc, c quorum.Call) {
	h := w.nodes[c.Node]
	if h.frozen {
		h.stuck = append(h.stuck, func() { w.arrive(p, c) })
		return
	}
	if h.down {
		return
	}
	r := quorum.Reply{Node: c.Node, Seq: c.Seq}
	answered := p.answered
	if p.sharer != nil {
		answered = func(r quorum.Reply) { p.sharer.answered(c, r) }
	}
	if h.shut {
		r.Err = errRefused
		answered(r)
		return
	}
	h.calls++
	switch {
	case c.Vote != nil:
		r.Ballot = h.vote(h.time(), *c.Vote)
		w.logf("%s votes %v on %s#%d, abstained %v", h, r.Ballot.Yes, p.name, c.Seq, r.Ballot.Abstained)
	case c.Announce != nil:
		r.Members = h.announce(h.time(), *c.Announce)
	default:
		w.release(h, p, c)
	}
	if d, ok := w.delay(); ok && !p.cutFrom[c.Node] {
		w.after(d, func() { answered(r) })
	}
}

// proc is a process: a machine with clocks of its own, a shell that gives up on
// calls, and somebody who uses it.
type proc struct {
	w    *world
	name string
	m    *quorum.Machine
	line *crowd // nil: the machine is used without a line
	rate float64

	sharer *sharer       // nil: it has a machine; else a group and a roster
	jump   time.Duration // of the wall clock

	watches bool // the nodes notify it of freed keys

	// The monotonic clock was mono at true time since, and stands still while
	// suspended.
	mono, since time.Duration
	suspended   bool

	dead    bool     // has crashed, and another has taken its place
	stopped bool     // gets no input: suspended or SIGSTOP
	backlog []func() // inputs for when it goes on

	pending map[int]uint64 // the call under way for each node
	timer   int            // counts timers: only the last one set counts
	tokens  map[string]string
	events  []quorum.Event
	issued  int
	cutTo   map[int]bool // no message reaches the node
	cutFrom map[int]bool // no answer comes back

	key   string        // what it wants; "": nothing
	hold  time.Duration // how long it keeps them, at most; 0: for good
	think time.Duration // how long it waits before it acquires again, at most
}

func newProc(w *world, name string, rate float64, nodes []string, issued int) *proc {
	p := &proc{
		w: w, name: name, rate: rate, think: w.ttl / 4, issued: issued,
		pending: map[int]uint64{}, tokens: map[string]string{}, cutTo: map[int]bool{}, cutFrom: map[int]bool{},
	}
	var err error
	p.m, err = quorum.NewMachine(quorum.Config{
		Nodes: nodes, Marker: "marker", TTL: w.ttl, Address: name, Waiter: name + ".waiter", Hedge: w.hedge,
		Token:  func() string { p.issued++; return fmt.Sprintf("%s.%d", name, p.issued) },
		Jitter: w.rnd.Float64,
	})
	if err != nil {
		panic(err)
	}
	return p
}

// valid returns the keys that the process believes in.
func (p *proc) valid() []string {
	if p.sharer != nil {
		return p.sharer.valid()
	}
	if p.m.Valid(p.clock()) {
		return []string{p.m.Key()}
	}
	return nil
}

// holds reports whether a key is among those held.
func (p *proc) holds(key string) bool {
	if p.sharer != nil {
		return p.sharer.g.State(key) == quorum.Held
	}
	return p.m.Holds(key)
}

// clock is what the process would read at this instant.
func (p *proc) clock() clock.Now {
	mono := p.mono
	if !p.suspended {
		mono += time.Duration(float64(p.w.now-p.since) * p.rate)
	}
	wall := epoch.Add(time.Duration(float64(p.w.now)*p.rate) + p.jump)
	return clock.Now{Mono: mono, Wall: wall}
}

// input steps the machine now, or when the process goes on.
func (p *proc) input(what string, step func(clock.Now) quorum.Effects) {
	if p.dead {
		return
	}
	if p.stopped {
		p.backlog = append(p.backlog, func() { p.input(what, step) })
		return
	}
	e := step(p.clock())
	p.w.logf("%s %s -> %s", p.name, what, p.m.State())
	p.apply(e)
}

func (p *proc) acquire(key string) {
	p.key = key
	p.input("acquires "+key, func(now clock.Now) quorum.Effects { return p.m.Acquire(now, key) })
}

func (p *proc) release() {
	p.input("releases", p.m.Release)
}

func (p *proc) tick() {
	if p.sharer != nil {
		p.sharer.tick()
		return
	}
	p.input("ticks", func(now clock.Now) quorum.Effects {
		if p.line != nil {
			return p.line.did(p.line.Tick(now))
		}
		return p.m.Tick(now)
	})
}

func (p *proc) woken(now clock.Now) quorum.Effects {
	if p.line != nil {
		return p.line.did(p.line.Woken(now))
	}
	return p.m.Woken(now)
}

// waiter is what nodes list the process as.
func (p *proc) waiter() string { return p.name + ".waiter" }

func (p *proc) reply(now clock.Now, r quorum.Reply) quorum.Effects {
	if p.line != nil {
		return p.line.did(p.line.Reply(now, r))
	}
	return p.m.Reply(now, r)
}

// watch begins to listen to the nodes.
func (p *proc) watch() {
	if p.watches {
		return
	}
	p.watches = true
	for _, h := range p.w.nodes {
		p.w.after(time.Millisecond, func() { h.watchedBy(p) })
	}
}

// answered takes an answer, if the shell still waits for it.
func (p *proc) answered(r quorum.Reply) {
	if p.pending[r.Node] != r.Seq {
		return
	}
	delete(p.pending, r.Node)
	p.input(fmt.Sprintf("receives %d#%d %v", r.Node, r.Seq, r.Err), func(now clock.Now) quorum.Effects {
		e := p.reply(now, r)
		if again := p.reply(now, r); len(again.Calls)+len(again.Events) > 0 {
			p.w.faultf("%s takes a reply twice", p.name)
		}
		return e
	})
}

var (
	errTimeout = errors.New("no answer in time")
	errRefused = fmt.Errorf("connection refused: %w", quorum.ErrUnsent)
)

func (p *proc) apply(e quorum.Effects) {
	for _, c := range e.Calls {
		p.call(c)
	}
	for _, ev := range e.Events {
		p.w.logf("%s event %v %v: %v", p.name, ev.Kind, ev.Keys, ev.Cause)
		p.events = append(p.events, ev)
		if ev.Kind == quorum.Refused {
			p.watch()
		}
		p.react(ev)
	}
	p.timer++
	if timer := p.timer; e.Wake > 0 {
		p.w.after(p.until(e.Wake), func() {
			if p.timer == timer && !p.stopped {
				p.tick()
			}
		})
	}
	if end := p.m.ValidUntil(); end > 0 {
		p.w.after(p.until(end)-time.Microsecond, func() {}) // check once more at the very end
	}
}

// until returns how long the monotonic clock takes to reach an instant.
func (p *proc) until(mono time.Duration) time.Duration {
	return time.Duration(float64(mono-p.clock().Mono)/p.rate) + 1
}

func (p *proc) call(c quorum.Call) {
	if p.pending[c.Node] != 0 {
		p.w.faultf("%s has two calls under way for one node", p.name)
	}
	if s := p.m.State(); c.Vote != nil {
		// A line may give up in the step in which its machine tries again.
		if (s == quorum.Released || s == quorum.Lost) && p.line == nil {
			p.w.faultf("%s requests keys and is %s", p.name, s)
		}
		for _, a := range c.Vote.Requests {
			p.tokens[a.Key] = a.Token
		}
	}
	p.pending[c.Node] = c.Seq
	p.w.carry(p, c)
	timeout := time.Duration(float64(quorum.CallTimeout(p.w.ttl)) / p.rate)
	p.w.after(timeout, func() { p.answered(quorum.Reply{Node: c.Node, Seq: c.Seq, Err: errTimeout}) })
}

// react is what the user of the lease does with it.
func (p *proc) react(ev quorum.Event) {
	if p.w.calm || p.key == "" {
		return
	}
	switch {
	case ev.Kind == quorum.Won && p.hold > 0:
		p.w.after(p.some(p.hold), func() {
			if p.m.State() == quorum.Held {
				p.release()
				p.again()
			}
		})
	case ev.Kind == quorum.Losing:
		p.again()
	}
}

// again acquires what the process wants, after a while.
func (p *proc) again() {
	p.w.after(p.some(p.think), func() {
		if s := p.m.State(); !p.w.calm && (s == quorum.Released || s == quorum.Lost) {
			p.acquire(p.key)
		}
	})
}

func (p *proc) some(d time.Duration) time.Duration {
	return time.Duration(p.w.rnd.Int64N(int64(d) + 1))
}

// stop ends all input for a while; with suspend the monotonic clock stops too.
func (p *proc) stop(length time.Duration, suspend bool) {
	if p.stopped {
		return
	}
	if suspend {
		p.mono, p.since, p.suspended = p.clock().Mono, p.w.now, true
	}
	p.stopped = true
	p.w.logf("%s stops for %v, suspend %v", p.name, length, suspend)
	p.w.after(length, p.resume)
}

// crash ends a process without a word and starts it again, with no memory.
func (p *proc) crash() {
	p.dead = true
	var names []string
	for _, h := range p.w.nodes {
		names = append(names, h.name)
	}
	q := newProc(p.w, p.name, p.rate, names, p.issued)
	q.cutTo, q.cutFrom = p.cutTo, p.cutFrom
	q.key, q.hold, q.think = p.key, p.hold, p.think
	p.w.procs[slices.Index(p.w.procs, p)] = q
	p.w.logf("%s crashes", p.name)
	if p.sharer != nil {
		p.sharer.comeBackAs(q)
		return
	}
	if p.line != nil {
		c := crowdIn(q, p.line.ageing, len(p.line.served))
		c.hold, c.think, c.steadfast = p.line.hold, p.line.think, p.line.steadfast
		c.populate()
		return
	}
	q.again()
}

func (p *proc) resume() {
	if p.suspended {
		p.since, p.suspended = p.w.now, false
	}
	backlog := p.backlog
	p.stopped, p.backlog = false, nil
	for _, do := range backlog {
		do()
	}
	p.tick()
}
