package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/executor"
	"salectl/executor/ownership"
	"salectl/planner"
	applying "salectl/planner/apply"
	"salectl/planner/current"
	planmachine "salectl/planner/machine"
	"salectl/sim/stepped"
	"salectl/spec"
)

// ScaleOptions define how many processes sell one sale in a world without faults, and what
// their work costs. All is required.
type ScaleOptions struct {
	Processes int
	Shards    int  // of the sale
	Callers   int  // for each process: each claims for one user after the other, and waits for each answer
	Follow    bool // callers know who owns which shard
	Costs     ScaleCosts
	Store     ScaleStore
	Warm      time.Duration // virtual, from when callers come until claims are counted
	Span      time.Duration // virtual, in which they are counted
}

// ScaleCosts are processor times of a process: all that it does takes one of them, one thing
// after the other on each of its processors.
type ScaleCosts struct {
	Processors int
	Request    time.Duration // a claim that comes from a client, and its answer
	Decide     time.Duration // of a claim, where its shard is
	Forward    time.Duration // a claim that goes to a peer, or an answer from there, at each end
	Flush      time.Duration // all that goes to one peer at a time, beside what it is, at each end
	Append     time.Duration // a commit, beside its claims
	Call       time.Duration // a call of a lock node, or a message of a peer
}

// ScaleStore is the store of the logs: machines to which the commits go alike, and which
// append one after the other.
type ScaleStore struct {
	Machines int
	Append   time.Duration // for which a commit keeps one of them busy
	Away     time.Duration // there and back, without that
}

// ScaleResult is what came of it.
type ScaleResult struct {
	Rate      float64       // claims a second
	P50, P99  time.Duration // from asking to the answer
	Forwarded float64       // share of the claims that a peer decided
	Batch     float64       // claims in a commit
	// How busy the busiest are, at most 1.
	Processor, Store float64
	NodeCalls        float64 // calls of all lock nodes a second
}

// scaleAway is what a message takes between clients, processes and lock nodes, one way.
const scaleAway = 100 * time.Microsecond

// scaleMost is how many inputs a process takes in before it computes what there is to do.
const scaleMost = 256

// Scale has so many processes sell, each as fast as its callers send and its processors let
// it. The machines that decide are those that ship.
func Scale(o ScaleOptions) (*ScaleResult, error) {
	w := &scaleWorld{ScaleOptions: o, random: rand.New(rand.NewPCG(1, uint64(o.Processes))), store: memory.NewStore()}
	w.logs = w.store.Handle(nil)
	for i := range 3 {
		w.nodes = append(w.nodes, memory.NewNode(fmt.Sprint("node-", i), epoch))
		w.names = append(w.names, w.nodes[i].Name())
	}
	w.machines = make([]scaleMachine, o.Store.Machines)
	if err := w.apply(); err != nil {
		return nil, err
	}
	for i := range o.Processes {
		w.begin(i)
	}
	if err := w.settle(); err != nil {
		return nil, err
	}
	for range o.Callers * o.Processes {
		w.claimNext()
	}
	w.run(w.now + o.Warm)
	from := w.tally()
	w.waits = w.waits[:0]
	w.run(w.now + o.Span)
	return w.result(from, w.tally()), w.failed
}

// scaleWorld is the processes of a sale, their clients and all that they call.
type scaleWorld struct {
	loop
	ScaleOptions
	random    *rand.Rand
	store     *memory.Store
	logs      ledger.Logs
	nodes     []*memory.Node
	names     []string
	nodesAt   time.Duration // what the nodes' clocks show
	machines  []scaleMachine
	processes []*scaleProcess
	byID      map[string]*scaleProcess
	owners    []*scaleProcess // by shard
	users     int             // that came

	answered, forwarded, appended, nodeCalls int
	waits                                    []time.Duration
	failed                                   error
}

// scaleMachine is one of the store's.
type scaleMachine struct{ free, busy time.Duration }

// scaleProcess is one process.
type scaleProcess struct {
	w     *scaleWorld
	n     int
	s     *stepped.Process
	inbox []scaleInput
	due   bool          // it is to act as soon as it is free
	free  time.Duration // when it is
	worth time.Duration // of processor time that what it does now has cost
	busy  time.Duration // that all has
	out   []func()      // what leaves it when that is done
	mail  []*scaleLink  // and the ways to peers on which something does, in order
	wakes int
	links map[string]*scaleLink
}

// scaleInput is what a process takes in.
type scaleInput struct {
	do    func(now clock.Now)
	costs time.Duration
}

// apply has the planner make the sale.
func (w *scaleWorld) apply() error {
	cfg := applying.Config{
		Backends: planmachine.Backends{Logs: w.logs, Clock: func() clock.Now { return w.clock() }, Rand: random{w.random}},
		Options:  applying.Options{Writer: []byte("planner!"), Who: "scale"},
	}
	for _, n := range w.nodes {
		cfg.Nodes = append(cfg.Nodes, n)
	}
	sale := spec.Sale{
		Name: saleName, Run: 1, Stock: 1 << 40, LockCount: w.Shards, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL, Embedded: &spec.Embedded{},
	}
	actual, err := current.Read(context.Background(), cfg.Backends, saleName)
	if err != nil {
		return err
	}
	plan, err := planner.Make(sale, actual)
	if err != nil {
		return err
	}
	_, err = applying.Run(context.Background(), cfg, plan)
	return err
}

func (w *scaleWorld) clock() clock.Now {
	return clock.Now{Mono: time.Second + w.now, Wall: epoch.Add(w.now)}
}

// run lets time pass.
func (w *scaleWorld) run(until time.Duration) {
	for w.step(until) {
	}
	w.now = until
}

// settle waits until every process owns its share.
func (w *scaleWorld) settle() error {
	w.owners = make([]*scaleProcess, w.Shards)
	for patience := w.now + time.Minute; w.now < patience; {
		w.run(w.now + time.Second)
		clear(w.owners)
		owned, most := 0, 0
		for _, p := range w.processes {
			_, leases := p.s.Leases(w.clock())
			for i := range leases {
				w.owners[i] = p
			}
			owned, most = owned+len(leases), max(most, len(leases))
		}
		if owned == w.Shards && most <= (w.Shards+w.Processes-1)/w.Processes {
			w.run(w.now + time.Second) // peers receive it
			return nil
		}
	}
	return errors.New("the processes do not come to own their shares")
}

// begin starts a process.
func (w *scaleWorld) begin(n int) {
	mint := func(kind string) func() string {
		made := 0
		return func() string { made++; return fmt.Sprint(kind, n, "-", made) }
	}
	p := &scaleProcess{w: w, n: n, links: make(map[string]*scaleLink)}
	p.s = stepped.New(stepped.Config{
		Config: ownership.Config{
			Sale: saleName, Address: fmt.Sprint("process-", n), Nodes: w.names, Version: "v1", Token: mint("token"), Jitter: w.random.Float64,
		},
		Queue: 1 << 20, Me: fmt.Appendf(nil, "proc%04d", n), Key: mint("key"),
	})
	w.processes = append(w.processes, p)
	if w.byID == nil {
		w.byID = make(map[string]*scaleProcess)
	}
	w.byID[p.s.Me().ID] = p
	w.at(w.now+time.Duration(w.random.IntN(int(100*time.Millisecond))), p.rouse)
}

// take has something come in.
func (p *scaleProcess) take(costs time.Duration, do func(now clock.Now)) {
	p.inbox = append(p.inbox, scaleInput{do, costs})
	p.rouse()
}

func (p *scaleProcess) rouse() {
	if !p.due {
		p.due = true
		p.w.at(max(p.w.now, p.free), p.act)
	}
}

// act takes in what has come, and does what is to be done then.
func (p *scaleProcess) act() {
	w, now := p.w, p.w.clock()
	p.due, p.worth = false, 0
	n := min(len(p.inbox), scaleMost)
	inbox := p.inbox[:n]
	p.inbox = p.inbox[n:]
	for _, in := range inbox {
		p.worth += in.costs
		in.do(now)
	}
	p.s.Tick(now)
	made, wake, _ := p.s.Next(now)
	if err := p.s.Err(); err != nil {
		w.failed = err
	}
	for _, c := range made {
		p.call(c)
	}
	p.connect()
	p.post()
	p.busy += p.worth
	p.free = w.now + p.worth/time.Duration(w.Costs.Processors)
	if out := p.out; len(out) > 0 {
		p.out = nil
		w.at(p.free, func() {
			for _, leave := range out {
				leave()
			}
		})
	}
	p.wakes++
	if wakes := p.wakes; wake != 0 {
		w.at(w.now+wake-now.Mono, func() {
			if p.wakes == wakes {
				p.rouse()
			}
		})
	}
	if len(p.inbox) > 0 {
		p.rouse()
	}
}

// leaves has something leave the process when it has done what it does now.
func (p *scaleProcess) leaves(do func()) { p.out = append(p.out, do) }

// call makes a call.
func (p *scaleProcess) call(c calls.Call) {
	w := p.w
	took := func(reply any) { p.take(0, func(now clock.Now) { c.Took(now, reply, nil) }) }
	if c.Node != calls.Store {
		w.nodeCalls++
		p.worth += w.Costs.Call
		p.leaves(func() {
			w.after(scaleAway, func() {
				for _, n := range w.nodes {
					n.Advance(w.now - w.nodesAt)
				}
				w.nodesAt = w.now
				reply := c.Make(context.Background(), nil, w.nodes[c.Node], nil)
				w.after(scaleAway, func() { took(reply) })
			})
		})
		return
	}
	busy := time.Duration(0)
	if strings.HasPrefix(c.What, "append") {
		busy = w.Store.Append
		p.worth += w.Costs.Append
		w.appended++
	}
	m := &w.machines[w.random.IntN(len(w.machines))]
	p.leaves(func() {
		w.after(w.Store.Away/2, func() {
			m.free = max(m.free, w.now) + busy
			m.busy += busy
			w.at(m.free, func() {
				reply := c.Make(context.Background(), w.logs, nil, nil)
				w.after(w.Store.Away/2, func() { took(reply) })
			})
		})
	})
}

// claimNext has a caller claim for the next user.
func (w *scaleWorld) claimNext() {
	w.users++
	user := fmt.Sprint("user-", w.users)
	p := w.processes[w.random.IntN(len(w.processes))]
	owner := w.owners[spec.HomeShard(user, w.Shards)]
	if w.Follow {
		p = owner
	}
	sent := w.now
	w.after(scaleAway, func() {
		p.take(w.Costs.Request, func(now clock.Now) {
			if p == owner {
				p.worth += w.Costs.Decide
			}
			p.s.Begin(now, executor.Request{User: user, Key: "key", Quantity: 1}, func(a executor.Answer) {
				if !a.Outcome.Accepted() {
					w.failed = fmt.Errorf("the answer to %s is %q", user, a.Outcome)
				}
				p.leaves(func() {
					w.after(scaleAway, func() {
						w.answered++
						w.waits = append(w.waits, w.now-sent)
						w.claimNext()
					})
				})
			})
		})
	})
}

// scaleLink is the way from one process to another, and back. It is peers.Link.
type scaleLink struct {
	from, to *scaleProcess
	serve    serveFunc
	queued   [2][]scaleInput // what is about to leave, there and back
}

// connect makes the links that a process wants.
func (p *scaleProcess) connect() {
	hang, dial := p.s.Peers()
	for _, id := range hang {
		delete(p.links, id)
	}
	for _, peer := range dial {
		to := p.w.byID[peer.ID]
		if to == nil || p.links[peer.ID] != nil {
			continue
		}
		l := &scaleLink{from: p, to: to}
		p.links[peer.ID] = l
		p.w.after(2*scaleAway, func() {
			l.serve = to.s.Accept(p.s.Me().ID, peer.ID, l.reply)
			p.take(0, func(now clock.Now) { p.s.Linked(now, peer.ID, l) })
		})
	}
}

// goes has something go there, or back.
func (l *scaleLink) goes(way int, costs time.Duration, do func(now clock.Now)) {
	from := l.from
	if way == back {
		from = l.to
	}
	from.worth += costs
	if len(l.queued[way]) == 0 {
		from.mail = append(from.mail, l)
	}
	l.queued[way] = append(l.queued[way], scaleInput{do, costs})
}

// post has leave together what goes to each peer.
func (p *scaleProcess) post() {
	for _, l := range p.mail {
		for way, to := range []*scaleProcess{there: l.to, back: l.from} {
			queued := l.queued[way]
			if to == p || len(queued) == 0 {
				continue
			}
			l.queued[way] = nil
			p.worth += p.w.Costs.Flush
			p.leaves(func() {
				p.w.after(scaleAway, func() {
					to.take(p.w.Costs.Flush, func(clock.Now) {})
					for _, in := range queued {
						to.take(in.costs, in.do)
					}
				})
			})
		}
	}
	p.mail = p.mail[:0]
}

// Forward is peers.Link's.
func (l *scaleLink) Forward(x *streampb.Request) bool {
	costs := l.from.w.Costs
	l.goes(there, costs.Forward, func(now clock.Now) {
		l.to.worth += costs.Decide
		l.serve(now, x)
	})
	return true
}

// reply sends the reply to a forwarded request back.
func (l *scaleLink) reply(id uint64, a executor.Answer, owner ownership.Route) {
	l.goes(back, l.from.w.Costs.Forward, func(now clock.Now) {
		if !a.Elsewhere || a.Outcome == api.Unknown {
			l.from.w.forwarded++
		}
		l.from.s.Replied(now, id, a, owner)
	})
}

// Update is peers.Link's.
func (l *scaleLink) Update(t *ownership.PeerUpdate) bool {
	id := l.from.s.Me().ID
	l.goes(there, l.from.w.Costs.Call, func(now clock.Now) { l.to.s.ReceiveUpdate(now, id, t) })
	return true
}

// scaleTally is how much was done by an instant.
type scaleTally struct {
	at                                       time.Duration
	answered, forwarded, appended, nodeCalls int
	processes, machines                      []time.Duration
}

func (w *scaleWorld) tally() scaleTally {
	t := scaleTally{at: w.now, answered: w.answered, forwarded: w.forwarded, appended: w.appended, nodeCalls: w.nodeCalls}
	for _, p := range w.processes {
		t.processes = append(t.processes, p.busy)
	}
	for _, m := range w.machines {
		t.machines = append(t.machines, m.busy)
	}
	return t
}

// result reports what was done between two instants.
func (w *scaleWorld) result(from, to scaleTally) *ScaleResult {
	span, n := (to.at - from.at).Seconds(), float64(max(to.answered-from.answered, 1))
	busiest := func(from, to []time.Duration, each int) (most float64) {
		for i := range to {
			most = max(most, (to[i]-from[i]).Seconds()/span/float64(each))
		}
		return min(most, 1) // what was begun by then counts in full
	}
	slices.Sort(w.waits)
	quantile := func(q float64) time.Duration {
		if len(w.waits) == 0 {
			return 0
		}
		return w.waits[int(float64(len(w.waits)-1)*q)]
	}
	return &ScaleResult{
		Rate: float64(to.answered-from.answered) / span, P50: quantile(.5), P99: quantile(.99),
		Forwarded: float64(to.forwarded-from.forwarded) / n, Batch: n / float64(max(to.appended-from.appended, 1)),
		Processor: busiest(from.processes, to.processes, w.Costs.Processors), Store: busiest(from.machines, to.machines, 1),
		NodeCalls: float64(to.nodeCalls-from.nodeCalls) / span,
	}
}
