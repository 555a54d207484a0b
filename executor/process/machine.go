// Package process has the step machine of one process of a sale. It decides which requests the process
// admits, answers or forwards, serves the requests of its peers, and connects the machines below it:
// package ownership (which shards the process serves) and package shard (what a shard appends and
// answers).
//
// # Guarantees
//
// A request is answered once. A refusal never denies a claim that was, or may yet be, accepted: then the
// answer is Unknown, or the claim. A request of a peer is decided here or bounced, and is decided only on
// the newest link of the peer. Nothing here starts a goroutine, reads a clock or calls a store or node,
// except that Do and DoAgain wait for an answer, and that rules may open and read the attributes of users.
//
// # What is left to callers
//
// A shell supplies the time (Config.Clock), makes the calls that Advance passes to it, and calls Advance
// after each input. It runs the shards of Effects.Opened and the Batchers, makes and ends links to peers by
// Effects.Dial and Effects.Hang, and delivers the answers of Pending requests. Package executor is the
// shell of a server, and package sim/stepped that of the simulation.
//
// # States
//
//	away      Start -> serving     ownership has a run to serve: begin makes its session
//	serving   Ended -> away        ownership has given it up, and all its shards have ended
//	serving   error -> lost        the sale's log cannot be followed: the shards stop, Advance fails for good
//	any       Drain -> draining    requests are refused, or go to peers; the session ends and no other begins
//
// The files, each using only those below it: machine.go (Advance), problems.go; inbound.go (requests of
// peers); request.go (requests of this process); admission.go (the gate); status.go (what others read, and the
// samples of traffic); session.go; eligibility.go (rules).
package process

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/executor/listengine"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/spec"
)

// Config configures a Machine, which sets ID. Queue, Sizes, Bounds, Users, Notify, Ruled and Committed may
// be empty, and what may be so in ownership.Config; all other fields are required.
type Config struct {
	ownership.Config
	Queue  int           // bounds the requests that wait on one shard; 0: DefaultQueue
	Me     []byte        // 8 bytes, new at each start of a process; commits name it by them
	Clock  clock.Clock   // of requests and shards
	Key    func() string // returns a new key for a request that has none
	Sizes  lists.Sizes   // of the calls about lists; 0: the usual ones
	Bounds ledger.Bounds // of commits; 0: the usual ones
	Users  OpenUsers     // opens the attributes of users; nil: the rules of the sale read none

	Notify    func()                     // as in shard.SaleTotals and peers.RemoteConfig
	Ruled     func(rule, result string)  // counts the results of rules; nil: nobody counts
	Committed func(oldest time.Duration) // as shard.Config.ObserveWait; nil: nobody counts

	// Answered reports that a pending request has its answer. The shell calls Deliver, at once or later.
	Answered func(p *Pending)
	// Repeat has a pending request decided again, because the rules changed after it was admitted. The
	// shell calls its Repeat or, on another goroutine, its DoAgain.
	Repeat func(p *Pending)
}

// DefaultQueue is the default of Config.Queue, and DrainTimeout is how long a drain waits by default.
const (
	DefaultQueue = 10_000
	DrainTimeout = 5 * time.Second
)

// Machine is the step machine of one process. It makes no call and starts no goroutine. One goroutine
// calls its methods, except for those of Admission and those that are marked as safe for concurrent use.
type Machine struct {
	Admission
	// Ownership decides which shards this process serves. The shell passes what peers and operators
	// send to it, and then calls Advance.
	Ownership *ownership.Machine
	cfg       Config

	// session is the present one; nil: there is none. It outlives that of Admission where
	// the sale's log cannot be followed any more.
	session  *session
	sessions uint64 // sessions so far

	missing *ownership.Logged // the run whose log was gone when problems were compiled last
	broken  map[int]brokenLog // the logs of the session's shards that ended a machine, by shard
}

// New returns the machine of a process that has done nothing yet.
func New(cfg Config) *Machine {
	if cfg.Queue == 0 {
		cfg.Queue = DefaultQueue
	}
	cfg.ID = fmt.Sprintf("%x", cfg.Me)
	m := &Machine{cfg: cfg, Ownership: ownership.New(cfg.Config)}
	m.initialize(cfg)
	return m
}

// Effects are what Advance leaves to the shell.
type Effects struct {
	ownership.Effects
	Opened []*shard.Shard // whose machines the shell runs
}

// Advance lets Ownership act, and passes its effects to the session, to peers and to Admission. It
// calls do with each call to make. An error means that the sale's log cannot be followed; the shards
// are stopping.
func (m *Machine) Advance(now clock.Now, do func(calls.Call)) (Effects, error) {
	out, err := m.Ownership.Advance(now)
	if err != nil {
		err = fmt.Errorf("sale %s cannot be served: %w", m.cfg.Sale, err)
		m.fail(m.session, err)
		return Effects{Effects: out}, err
	}
	done := Effects{Effects: out}
	if out.Read != nil {
		do(calls.OfLogs("read sale", shard.CallTimeout, out.Read, m.Ownership.SaleRead))
	}
	if out.Ended != nil { // another may begin in the same step
		m.end(out.Ended.Refusal)
	}
	if out.Start != nil {
		m.begin(out.Start)
	}
	if t := m.session; t != nil {
		if out.Plans {
			t.passGenerations(m.Ownership.Sale(), m.cfg)
		}
		t.drawing.follow(m.Ownership.Sale())
		for _, x := range out.Open {
			done.Opened = append(done.Opened, t.openShard(now, m.Ownership.Sale(), x.Shard, x.Follows))
		}
		for _, x := range out.Rights {
			t.grantRights(now, x.Shard, x.Rights)
		}
	}
	for _, c := range out.Calls { // shards lose their rights before the leases are released
		do(calls.OfNode(c, m.Ownership.LeaseReply))
	}
	for _, c := range out.Roster {
		do(calls.OfNode(c, m.Ownership.RosterReply))
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
		m.links.SendUpdate(x.To, x.Update)
	}
	for _, id := range out.Hang {
		m.Cut(now, id)
	}
	m.measure(now)
	away := m.Ownership.Absent()
	m.away.Store(&away)
	m.health.Store(&health{m.Ownership.Status(now)})
	return done, nil
}

// begin begins a session.
func (m *Machine) begin(run *ownership.Run) {
	m.sessions++
	m.session = newSession(run, m.cfg, &m.Admission, m.sessions<<32)
	m.Ownership.Serve(m.session.totals, m.session.follows)
	m.broken = make(map[int]brokenLog)
	m.left.Store(nil)
	m.sold.Store(new(spec.Sale))
	m.serving.Store(m.session)
}

// route passes the owners of shards to the session.
func (m *Machine) route(now clock.Now) {
	if !m.Ownership.Serving() {
		return
	}
	for i := range m.session.remotes {
		m.routeTo(now, i)
	}
}

// routeTo passes the owner of one shard to the session.
func (m *Machine) routeTo(now clock.Now, i int) {
	r := m.session.remotes[i]
	if s := m.session.local(i); s != nil && s.Serves() {
		r.SetOwner(now, ownership.Route{Owner: m.me.ID, Address: m.me.Address, Epoch: s.Epoch()})
		return
	}
	switch to, lost := m.Ownership.Route(now, i); {
	case to.Owner != "":
		r.SetOwner(now, to)
	case lost:
		r.ClearOwner(r.Route().Owner)
	}
}

// PassTime lets time pass for the requests that wait for peers. It returns the monotonic time of the
// next call; 0: not before another input.
func (m *Machine) PassTime(now clock.Now) (wake time.Duration) {
	if m.session == nil {
		return 0
	}
	for i, r := range m.session.remotes {
		if !r.Busy() {
			continue
		}
		if m.Ownership.Serving() { // a shard of this process may have begun to serve
			m.routeTo(now, i)
		}
		wake = clock.Soonest(wake, r.Tick(now))
	}
	return wake
}

// Linked adds a link to a peer.
func (m *Machine) Linked(now clock.Now, id string, to peers.Link) {
	m.links.Set(id, to)
	m.Ownership.Linked(now, id, true)
}

// Cut removes the link to a peer.
func (m *Machine) Cut(now clock.Now, id string) {
	if m.links.To(id) == nil {
		return
	}
	m.links.Set(id, nil)
	m.Ownership.Linked(now, id, false)
	if m.session != nil {
		for _, r := range m.session.remotes {
			r.ClearOwner(id)
			m.links.Lost.Add(uint64(r.HandleLinkEnd(now, id)))
		}
	}
}

// Replied passes on a peer's answer to a forwarded request, as peers.Replies. It is safe for concurrent use.
func (m *Machine) Replied(id uint64, a request.Answer, owner ownership.Route) {
	if a.Elsewhere && a.Outcome != api.Unknown {
		m.links.Bounced.Add(1)
	} else {
		m.links.Answered.Add(1)
	}
	if t := m.serving.Load(); t != nil && peers.ShardOf(id) < len(t.remotes) {
		t.remotes[peers.ShardOf(id)].HandleReply(m.clock(), id, a, owner)
	}
}

// Drain ends the session. No other begins.
func (m *Machine) Drain(now clock.Now) {
	m.draining.Store(true)
	m.Ownership.Drain(now)
}

// ShardEnded removes a shard whose machine has ended because of why, and of which no call is under way.
func (m *Machine) ShardEnded(now clock.Now, i int, why error) {
	m.session.closeShard(i)
	m.Ownership.ShardEnded(now, i)
	m.foundBroken(i, why)
}

// end ends the session, of which nothing runs.
func (m *Machine) end(why api.Outcome) {
	m.serving.Store(nil)
	if why == api.Closed {
		m.sold.Store(m.session.declared.Load())
	}
	m.session.release(request.Refusal(why))
	m.session = nil
}

// Stop stops the shards of the session.
func (m *Machine) Stop(h shard.Halt) { m.session.stop(h) }

// Totals returns the totals of the session; nil: there is no session.
func (m *Machine) Totals() *shard.SaleTotals {
	if m.session == nil {
		return nil
	}
	return m.session.totals
}

// Batchers returns the batchers of the session, by node that keeps lists.
func (m *Machine) Batchers() []*listengine.Batcher {
	if m.session == nil {
		return nil
	}
	return m.session.batchers
}
