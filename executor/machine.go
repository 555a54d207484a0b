package executor

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/executor/ownership"
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

// owner returns the machine of the ownership of shards.
func (cfg MachineConfig) owner() *ownership.Machine {
	return ownership.New(ownership.Config{
		Sale: cfg.Sale, ID: idOf(cfg.Me), Address: cfg.Address, Version: cfg.Version, Standby: cfg.Standby,
		Nodes: cfg.Nodes, Lists: cfg.Lists, Token: cfg.Token, Jitter: cfg.Jitter,
	})
}

// machine is the part of a process that Executor and Stepped share: the owner, its session, and
// admission. It makes no call and starts no goroutine. The shell around it makes the calls of
// advance, runs the shards and batchers of the session, and makes the links to peers.
type machine struct {
	*admission
	cfg   MachineConfig
	owner *ownership.Machine
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
	ownership.Effects
	opened []*shard.Shard // to run
}

// advance lets the owner act, and passes its effects to the session, to peers and to admission. It
// calls do with each call to make. An error means that the sale's log cannot be followed; the shards
// are stopping.
func (m *machine) advance(now clock.Now, do func(calls.Call)) (machineEffects, error) {
	out, err := m.owner.Advance(now)
	if err != nil {
		err = fmt.Errorf("sale %s cannot be served: %w", m.cfg.Sale, err)
		m.lose(m.session, err)
		return machineEffects{Effects: out}, err
	}
	done := machineEffects{Effects: out}
	if out.Read != nil {
		do(calls.OfLogs("read sale", shard.CallTimeout, out.Read, m.owner.SaleRead))
	}
	if out.Ended != nil { // another may begin in the same step
		m.end(out.Ended.Refusal)
	}
	if out.Start != nil {
		m.begin(out.Start)
	}
	if t := m.session; t != nil {
		if out.Plans {
			t.plan(m.owner.Sale(), m.cfg)
		}
		t.followDraw(m.owner.Sale())
		for _, x := range out.Open {
			done.opened = append(done.opened, t.open(now, x.Shard, x.Follows, m.owner.Sale().Applied(), plansOf(m.owner.Sale(), x.Shard)))
		}
		for _, i := range out.Granted {
			t.given[i].Store(int64(now.Mono))
		}
		for _, x := range out.Rights {
			t.grant(now, x.Shard, x.Rights)
		}
	}
	for _, c := range out.Calls { // shards lose their rights before the leases are released
		do(calls.OfNode(c, m.owner.LeaseReply))
	}
	for _, c := range out.Roster {
		do(calls.OfNode(c, m.owner.RosterReply))
	}
	if t := m.session; t != nil {
		for _, x := range out.Halts {
			if s := t.running[x.Shard]; s != nil {
				s.Post(x.Halt)
			}
		}
		for _, x := range out.Messages {
			if s := t.local(x.To); s != nil {
				s.Post(x)
			}
		}
		m.route(now)
	}
	for _, x := range out.Updates {
		m.links.sendUpdate(x.To, x.Update)
	}
	for _, id := range out.Hang {
		m.cut(now, id)
	}
	m.measure(now)
	m.show(now, m.owner)
	return done, nil
}

// begin begins a session.
func (m *machine) begin(run *ownership.Run) {
	m.sessions++
	m.session = newSession(run, m.cfg, shard.Config{Me: m.cfg.Me, Clock: m.clock, Queue: m.cfg.Queue, Doubts: &m.doubts, Answered: m.told}, m.admission, m.sessions<<32)
	m.owner.Serve(m.session.totals, m.session.follows)
	m.left.Store(nil)
	m.sold.Store(nil)
	m.serving.Store(m.session)
}

// route tells the session who owns which shard.
func (m *machine) route(now clock.Now) {
	if !m.owner.Serving() {
		return
	}
	for i := range m.session.remotes {
		m.routeTo(now, i)
	}
}

// routeTo tells it of one shard.
func (m *machine) routeTo(now clock.Now, i int) {
	r := m.session.remotes[i]
	if s := m.session.local(i); s != nil && s.Serves() {
		r.SetOwner(now, shard.Route{Owner: idOf(m.cfg.Me), Address: m.cfg.Address, Epoch: s.Epoch()})
		return
	}
	switch to, lost := m.owner.Route(now, i); {
	case to.Owner != "":
		r.SetOwner(now, to)
	case lost:
		r.ClearOwner(r.Route().Owner)
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
		if m.owner.Serving() { // a shard of this process may have begun to serve
			m.routeTo(now, i)
		}
		wake = clock.Soonest(wake, r.Tick(now))
	}
	return wake
}

// linked takes in that there is a link to a peer.
func (m *machine) linked(now clock.Now, id string, to Link) {
	m.links.set(id, to)
	m.owner.Linked(now, id, true)
}

// cut takes in that there is no link to a peer any more.
func (m *machine) cut(now clock.Now, id string) {
	if m.links.to(id) == nil {
		return
	}
	m.links.set(id, nil)
	m.owner.Linked(now, id, false)
	if m.session != nil {
		for _, r := range m.session.remotes {
			r.ClearOwner(id)
			m.links.lost.Add(uint64(r.LinkEnded(now, id)))
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
	m.owner.Drain(now)
}

// ended says that the machine of a shard has ended, and no call of it is under way.
func (m *machine) ended(now clock.Now, i int) {
	m.session.close(i)
	delete(m.meters.shards, i)
	m.owner.ShardEnded(now, i)
}

// end ends the session, of which nothing runs.
func (m *machine) end(why api.Outcome) {
	m.serving.Store(nil)
	if why == api.Closed {
		m.sold.Store(m.session.declared.Load())
	}
	m.session.release(here(why))
	m.session, m.meters.shards = nil, nil
}

func here(why api.Outcome) Answer { return Answer{Outcome: why, RetryAfter: time.Second} }
