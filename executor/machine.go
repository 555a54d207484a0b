package executor

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/executor/shard"
)

// MachineConfig configures the machine of a process. Lists is for engine redis only. Sizes, Version
// and Standby may be empty; all other fields are required.
type MachineConfig struct {
	Sale    string                    // the name
	Address string                    // as Config has it
	Version string                    // as Config has it
	Standby bool                      // as Config has it
	Nodes   []string                  // the lock nodes' names
	Lists   []string                  // those of the nodes that keep lists
	Queue   int                       // as Config has it
	Me      []byte                    // 8 bytes, new at each start of a process: as commits name it
	Token   func() string             // makes the tokens of leases, each new
	Key     func() string             // makes the keys of requests that have none, each new
	Jitter  func() float64            // from 0 to below 1
	Sizes   lists.Sizes               // of the calls about lists; 0: the usual ones
	Bounds  ledger.Bounds             // of commits; 0: as usual
	Users   OpenUsers                 // as Config has it
	Ruled   func(rule, result string) // counts what rules have said; nil: nobody does
	Notify  func()                    // as in shard.SaleTotals and shard.RemoteConfig
}

// machine is the part of a process that Executor and Stepped share: the owner, its session, and
// admission. It makes no call and starts no goroutine. The shell around it makes the calls of
// advance, runs the shards and batchers of the session, and makes the links to peers.
type machine struct {
	*admission
	cfg   MachineConfig
	owner *owner
	clock clock.Clock                // of the shards
	told  func(oldest time.Duration) // shard.Config.Answered; nil: nobody counts

	// session is the present one; nil: there is none. It outlives that of admission where
	// the sale's log cannot be followed any more.
	session  *session
	sessions uint64 // sessions so far
	meters
}

// machineEffects are what advance leaves to the shell.
type machineEffects struct {
	ownerEffects
	opened []*shard.Shard // to run
}

// advance lets the owner act, and passes its effects to the session, to peers and to admission. It
// calls do with each call to make. An error means that the sale's log cannot be followed; the shards
// are stopping.
func (m *machine) advance(now clock.Now, do func(calls.Call)) (machineEffects, error) {
	out, err := m.owner.next(now)
	if err != nil {
		err = fmt.Errorf("sale %s cannot be served: %w", m.cfg.Sale, err)
		m.lose(m.session, err)
		return machineEffects{ownerEffects: out}, err
	}
	done := machineEffects{ownerEffects: out}
	if out.read != nil {
		do(calls.OfLogs("read sale", shard.CallTimeout, out.read, m.owner.read))
	}
	if out.ended { // another may begin in the same step
		m.end()
	}
	if out.start {
		m.begin()
	}
	if t := m.session; t != nil {
		if out.plans {
			t.plan(m.owner)
		}
		t.followDraw(m.owner.sale)
		for _, x := range out.open {
			done.opened = append(done.opened, t.open(now, x.shard, x.follows, m.owner.sale.Applied(), m.owner.plans(x.shard)))
		}
		for _, i := range out.given {
			t.given[i].Store(int64(now.Mono))
		}
		for _, x := range out.rights {
			t.grant(now, x.shard, x.rights)
		}
	}
	for _, c := range out.calls { // shards lose their rights before the leases are released
		do(calls.OfNode(c, m.owner.voted))
	}
	for _, c := range out.roster {
		do(calls.OfNode(c, m.owner.rosterReply))
	}
	if t := m.session; t != nil {
		for _, x := range out.halts {
			if s := t.running[x.shard]; s != nil {
				s.Post(x.halt)
			}
		}
		for _, x := range out.moves {
			if s := t.local(x.To); s != nil {
				s.Post(x)
			}
		}
		m.route(now)
	}
	for _, x := range out.updates {
		m.links.sendUpdate(x.to, x.update)
	}
	for _, id := range out.hang {
		m.cut(now, id)
	}
	m.measure(now)
	m.show(now, m.owner)
	return done, nil
}

// begin begins a session.
func (m *machine) begin() {
	m.sessions++
	m.session = newSession(m.owner, shard.Config{Me: m.cfg.Me, Clock: m.clock, Queue: m.cfg.Queue, Doubts: &m.doubts, Answered: m.told}, m.admission, m.sessions<<32)
	m.owner.totals, m.owner.warm = m.session.totals, m.session.follows
	m.left.Store(nil)
	m.sold.Store(nil)
	m.serving.Store(m.session)
}

// route tells the session who owns which shard.
func (m *machine) route(now clock.Now) {
	o, t := m.owner, m.session
	if o.stage != serving {
		return
	}
	for i := range t.remotes {
		m.routeTo(now, i)
	}
}

// routeTo tells it of one shard.
func (m *machine) routeTo(now clock.Now, i int) {
	o, t := m.owner, m.session
	r, id := t.remotes[i], o.holder[i]
	switch s := t.local(i); {
	case s != nil && s.Serves():
		r.Learn(now, shard.Route{Owner: o.me, Address: o.cfg.Address, Epoch: s.Epoch()})
	case id != "":
		p := o.peers.all[id]
		r.Learn(now, shard.Route{Owner: id, Address: p.Address, Epoch: p.owns[i]})
	case !o.silent && o.shares.all[i].free(now, o.ttl): // else nobody can own it, and who did last is told
		r.Forget(r.Route().Owner)
	}
}

// passTime lets time pass for the requests that wait for peers. It returns when to be called
// again, by the monotonic clock; 0: not before something else happens.
func (m *machine) passTime(now clock.Now) (wake time.Duration) {
	if m.session == nil {
		return 0
	}
	for i, r := range m.session.remotes {
		if !r.Busy() {
			continue
		}
		if m.owner.stage == serving { // a shard of this process may have begun to serve
			m.routeTo(now, i)
		}
		wake = clock.Soonest(wake, r.Tick(now))
	}
	return wake
}

// linked takes in that there is a link to a peer.
func (m *machine) linked(now clock.Now, id string, to Link) {
	m.links.set(id, to)
	m.owner.linked(now, id, true)
}

// cut takes in that there is no link to a peer any more.
func (m *machine) cut(now clock.Now, id string) {
	if m.links.to(id) == nil {
		return
	}
	m.links.set(id, nil)
	m.owner.linked(now, id, false)
	if m.session != nil {
		for _, r := range m.session.remotes {
			r.Forget(id)
			m.links.lost.Add(uint64(r.Cut(now, id)))
		}
	}
}

// answered takes in a peer's answer to a forwarded request.
func (m *machine) answered(now clock.Now, id uint64, a Answer) {
	m.links.answered.Add(1)
	if t := m.serving.Load(); t != nil && shard.ShardOf(id) < len(t.remotes) {
		t.remotes[shard.ShardOf(id)].Answered(now, id, a)
	}
}

// bounced takes in that a peer does not own the shard of a forwarded request.
func (m *machine) bounced(now clock.Now, id uint64, to shard.Route) {
	m.links.bounced.Add(1)
	if t := m.serving.Load(); t != nil && shard.ShardOf(id) < len(t.remotes) {
		t.remotes[shard.ShardOf(id)].Bounced(now, id, to)
	}
}

// drain has the session end and no other begin.
func (m *machine) drain(now clock.Now) {
	m.draining.Store(true)
	m.owner.drain(now)
}

// ended says that the machine of a shard has ended, and no call of it is under way.
func (m *machine) ended(now clock.Now, i int) {
	m.session.close(i)
	delete(m.meters.shards, i)
	m.owner.ended(now, i)
}

// end ends the session, of which nothing runs.
func (m *machine) end() {
	m.serving.Store(nil)
	if m.owner.halt.Refusal == api.Closed {
		m.sold.Store(m.session.declared.Load())
	}
	m.session.release(here(m.owner.halt.Refusal))
	m.session, m.meters.shards = nil, nil
}

func here(why api.Outcome) Answer { return Answer{Outcome: why, RetryAfter: time.Second} }
